"""`draguard cordon DEVICE...`: keep new pods off, for maintenance; --evict deletes those on it."""

import argparse
import shlex
from collections.abc import Callable, Sequence
from itertools import islice

from draguard.cluster.cordon_rule import Cordon
from draguard.cluster.cordons import Changed, cordon_all, taint_value
from draguard.cluster.device_pods import Holder, holders
from draguard.cluster.find_device import NAMES, NamedDevices, NoDeviceError, find_all_devices
from draguard.cluster.objects import Objects
from draguard.cluster.pod_owners import Owned, warnings, with_owners
from draguard.cluster.reading import Reader, left_out
from draguard.cluster.stored_incidents import rule_names
from draguard.connection.cluster_flags import add_cluster_flags, same_cluster
from draguard.connection.progress import Progress
from draguard.connection.session import confirmed, print_error, run_with_client
from draguard.connection.whoami import caller
from draguard.exit_status import DONE, PROBLEM
from draguard.phrases import count
from draguard.render.cordon_page import Cordons, cordon_page
from draguard.render.formats import add_output_flag, print_result
from draguard.render.help_text import Example, teaching
from kubeapi.client import Client

EXAMPLES = (
    Example(
        "draguard cordon gpu-7/3 --reason 'thermal paste'", "no new pod gets GPU 3 of node gpu-7"
    ),
    Example(
        "draguard cordon GPU-2fa8... --reason swap --evict", "also delete the pods that use it"
    ),
    Example(
        "draguard cordon MIG-19ab... --reason test", "one slice; its neighbours are unaffected"
    ),
    Example("draguard cordon --node gpu-7 --reason 'new boards'", "every GPU of a node"),
    Example("draguard cordon gpu-7/3 --reason x --dry-run", "which devices and pods are affected"),
)
UNKNOWN_PODS = "pods of claims that this version cannot read"
NOT_SERVED = (
    "this cluster serves no DeviceTaintRules, so no device can be cordoned, only its node: kubectl "
    "cordon NODE; see `draguard doctor`"
)


def parser() -> argparse.ArgumentParser:
    taught = teaching(
        "cordon",
        "Cordon devices for maintenance, with DeviceTaintRules of your own and your own\n"
        "permissions. A GPU includes all of its slices. Running pods stay, unless you add --evict.",
        EXAMPLES,
        more="NoExecute ignores PodDisruptionBudgets. The cordon stays until `draguard\n"
        "uncordon`; neither the remediator nor `draguard cleanup` removes it.",
    )
    taught.usage = f"{taught.prog} (DEVICE... | --node NAME) --reason TEXT [FLAGS]"
    taught.add_argument("devices", nargs="*", metavar="DEVICE", help=NAMES)
    taught.add_argument("--node", default="", metavar="NAME", help="every GPU of a node")
    taught.add_argument("--reason", default="", metavar="TEXT", help="stored in the cordon")
    taught.add_argument("--evict", action="store_true", help="NoExecute: pods on it are deleted")
    taught.add_argument("--yes", action="store_true", help="with --evict: do not ask")
    taught.add_argument(
        "--dry-run", action="store_true", help="show what would happen, change nothing"
    )
    add_output_flag(taught, names=True)
    add_cluster_flags(taught)
    return taught


def main(arguments: Sequence[str]) -> int:
    """Return 0 if every cordon is in place; 1 if not, or objects are unreadable; 2: no access."""
    flags = parser()
    options = flags.parse_args(arguments)
    needed = {
        "name devices, or a whole node with --node": options.devices or options.node,
        "a reason is required: --reason TEXT": options.reason.strip(),
    }
    missing = [sentence for sentence, given in needed.items() if not given]
    if missing:
        flags.error("; ".join(missing))
    return run_with_client("cordon", options, lambda client: _cordon(client, options))


def _cordon(client: Client, options: argparse.Namespace) -> int:
    with Progress() as progress:
        reader = Reader(client, options.namespace, progress.read)
        objects = reader.objects("any_reports", "slices", "claims", "rules")
    if objects.rule_version is None:
        print_error("cordon", NOT_SERVED)
        return PROBLEM
    try:
        named = find_all_devices(
            options.devices, options.node, objects.published(), objects.reports
        )
    except NoDeviceError as error:
        print_error("cordon", f"{error}{left_out(objects)}")
        return PROBLEM
    by = caller(client).name or "unknown"
    cordons = [_cordons(devices, by, options) for devices in named]
    every = [cordon for each in cordons for cordon in each]
    owned = agreed_pods(
        reader, objects, named, every, options, owners=lambda pods: with_owners(client, pods)
    )
    if owned is None:
        return PROBLEM
    changed = cordon_all(client, objects, every, dry=options.dry_run)
    rest = iter(changed)
    results = tuple(
        _result(devices, own[0], tuple(islice(rest, len(own))), owned.holders)
        for devices, own in zip(named, cordons, strict=True)
    )
    unseen = [f"not read: {text}" for text in objects.unseen]
    unseen += [f"skipped because this version cannot read them: {n}" for n in objects.unreadable]
    whole = ("--node", options.node) if options.node else ()
    words = shlex.join((*dict.fromkeys(options.devices), *whole))
    print_result(
        results,
        options.output,
        lambda: cordon_page(
            results,
            words=words,
            where=same_cluster(options),
            evict=options.evict,
            warnings=(*warnings(owned), *unseen),
        ),
        "CordonList",
        rule_names(each.rule for each in changed if not each.failed),
    )
    return PROBLEM if objects.unreadable or any(each.failed for each in changed) else DONE


def _cordons(named: NamedDevices, by: str, options: argparse.Namespace) -> tuple[Cordon, ...]:
    effect = "NoExecute" if options.evict else "NoSchedule"
    return tuple(
        Cordon(target=target, gpu=named.gpu, effect=effect, by=by, reason=options.reason)
        for target in named.targets
    )


def _result(
    named: NamedDevices, cordon: Cordon, changed: tuple[Changed, ...], pods: tuple[Holder, ...]
) -> Cordons:
    devices = {str(target.name) for target in named.targets}
    return Cordons(
        word=named.word,
        what=named.what,
        gpu=named.gpu,
        by=cordon.by,
        reason=cordon.reason,
        changed=changed,
        holders=tuple(pod for pod in pods if pod.device in devices),
    )


def agreed_pods(
    reader: Reader,
    objects: Objects,
    named: Sequence[NamedDevices],
    cordons: Sequence[Cordon],
    options: argparse.Namespace,
    *,
    owners: Callable[[tuple[Holder, ...]], Owned],
) -> Owned | None:
    """Return the pods on the devices; None if the user does not agree to their deletion.

    One question is for all of them. If pods come while the user reads, the command asks again.
    """
    values = {cordon.target.name: taint_value(objects.rules, cordon) for cordon in cordons}
    agreed: frozenset[str] = frozenset()
    while True:
        pods = holders(objects.claims, values)
        owned = owners(pods) if options.evict else Owned(pods)
        deleted = frozenset(f"{pod.namespace}/{pod.pod}" for pod in pods if not pod.stays)
        deleted |= {f"{UNKNOWN_PODS} ({c})" for c in objects.unreadable if "resourceclaims" in c}
        asks = options.evict and not (options.dry_run or options.yes)
        if not asks or deleted <= agreed:
            return owned
        number = count(len(deleted), "pod", "pods")
        *others, last = (f"{devices.what} of {devices.gpu}" for devices in named)
        facts = (
            *others,
            f"{last}: {number} will be deleted:",
            *(f"  {pod}" for pod in sorted(deleted)),
            *(f"warning: {text}" for text in warnings(owned)),
        )
        if not confirmed("cordon", facts, "Delete them?", yes=False):
            return None
        agreed, objects = deleted, reader.objects("claims")
