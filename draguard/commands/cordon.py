"""`draguard cordon DEVICE`: keep new pods off it, for maintenance; --evict deletes those on it."""

import argparse
from collections.abc import Sequence

from draguard.cluster.cordon_rule import Cordon
from draguard.cluster.cordons import cordon_all, taint_value
from draguard.cluster.device_pods import Holder, holders
from draguard.cluster.find_device import NAMES, NamedDevices, NoDeviceError, find_devices
from draguard.cluster.objects import Objects
from draguard.cluster.reading import Reader, left_out
from draguard.connection.progress import Progress
from draguard.connection.session import add_cluster_flags, confirmed, print_error, run_with_client
from draguard.connection.whoami import caller
from draguard.exit_status import DONE, PROBLEM
from draguard.phrases import count
from draguard.render.cordon_page import Cordons, cordon_page
from draguard.render.formats import add_output_flag, print_result
from draguard.render.help_text import Example, teaching
from exporter.model.resource_slices import inventory
from kubeapi.client import Client

EXAMPLES = (
    Example("draguard cordon gpu-7/3 --why 'thermal paste'", "no new pod gets GPU 3 of node gpu-7"),
    Example("draguard cordon GPU-2fa8... --why swap --evict", "also delete the pods that use it"),
    Example("draguard cordon MIG-19ab... --why test", "one slice; its neighbours are unaffected"),
    Example("draguard cordon gpu-7/3 --why x --dry-run", "which devices and pods are affected"),
)
UNKNOWN_PODS = "pods of claims that this version cannot read"
NOT_SERVED = (
    "this cluster serves no DeviceTaintRules, so no device can be cordoned; see `draguard doctor`"
)


def main(arguments: Sequence[str]) -> int:
    """Return 0 if every cordon is in place; 1 if none, or not all; 2 without access."""
    parser = teaching(
        "cordon",
        "Cordon a device for maintenance, with a DeviceTaintRule of your own and your own\n"
        "permissions. A GPU includes all of its slices. Running pods stay, unless you add --evict.",
        EXAMPLES,
        more="NoExecute ignores PodDisruptionBudgets. The cordon stays until `draguard\n"
        "uncordon`; neither the remediator nor `draguard cleanup` removes it.",
    )
    parser.add_argument("device", metavar="DEVICE", help=NAMES)
    parser.add_argument("--why", required=True, metavar="TEXT", help="reason, stored in the cordon")
    parser.add_argument("--evict", action="store_true", help="NoExecute: pods on it are deleted")
    parser.add_argument("--yes", action="store_true", help="with --evict: do not ask")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would happen, change nothing"
    )
    add_output_flag(parser)
    add_cluster_flags(parser)
    options = parser.parse_args(arguments)
    if not options.why.strip():
        parser.error("a reason is required: --why TEXT")
    return run_with_client("cordon", options, lambda client: _cordon(client, options))


def _cordon(client: Client, options: argparse.Namespace) -> int:
    with Progress() as progress:
        reader = Reader(client, options.namespace, progress.read)
        objects = reader.objects("any_reports", "slices", "claims", "rules")
    if objects.rule_version is None:
        print_error("cordon", NOT_SERVED)
        return PROBLEM
    try:
        named = find_devices(options.device, inventory(objects.slices), objects.reports)
    except NoDeviceError as error:
        print_error("cordon", f"{error}{left_out(objects)}")
        return PROBLEM
    by = caller(client).name or "unknown"
    cordons = tuple(
        Cordon(
            target=target,
            gpu=named.gpu,
            effect="NoExecute" if options.evict else "NoSchedule",
            by=by,
            why=options.why,
        )
        for target in named.targets
    )
    pods = agreed_pods(reader, objects, named, cordons, options)
    if pods is None:
        return PROBLEM
    changed = cordon_all(client, objects, cordons, dry=options.dry_run)
    result = Cordons(
        word=options.device, what=named.what, gpu=named.gpu, changed=changed, holders=pods, by=by
    )
    print_result(result, options.output, lambda: cordon_page(result, evict=options.evict))
    return PROBLEM if any(each.failed for each in changed) else DONE


def agreed_pods(
    reader: Reader,
    objects: Objects,
    named: NamedDevices,
    cordons: Sequence[Cordon],
    options: argparse.Namespace,
) -> tuple[Holder, ...] | None:
    """Return the pods on the devices; None if the user does not agree to their deletion.

    If pods come while the user reads, the command asks again.
    """
    values = {cordon.target.name: taint_value(objects.rules, cordon) for cordon in cordons}
    agreed: frozenset[str] = frozenset()
    while True:
        pods = holders(objects.claims, values)
        deleted = frozenset(f"{pod.namespace}/{pod.pod}" for pod in pods if not pod.stays)
        deleted |= {f"{UNKNOWN_PODS} ({c})" for c in objects.unreadable if "resourceclaims" in c}
        asks = options.evict and not (options.dry_run or options.yes)
        if not asks or deleted <= agreed:
            return pods
        number = count(len(deleted), "pod", "pods")
        facts = (
            f"{named.what} of {named.gpu}: {number} will be deleted:",
            *(f"  {pod}" for pod in sorted(deleted)),
        )
        if not confirmed("cordon", facts, "Delete them?", yes=False):
            return None
        agreed, objects = deleted, reader.objects("claims")
