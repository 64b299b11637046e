"""`draguard cordon DEVICE`: keep new work off it, for maintenance; --evict moves who is there."""

import argparse
import sys
from collections.abc import Sequence

from draguard.cluster.cordon_rule import Cordon
from draguard.cluster.cordons import all_stand, taint_value
from draguard.cluster.device_pods import Holder, holders
from draguard.cluster.find_device import NAMES, Meant, NoDeviceError, meant
from draguard.cluster.objects import Objects
from draguard.cluster.reading import Reader, left_out
from draguard.connection.progress import Progress
from draguard.connection.session import add_cluster_flags, asked, complain
from draguard.connection.whoami import caller
from draguard.exit_status import DONE, WRONG
from draguard.phrases import count
from draguard.render.cordon_page import Cordons, sheet
from draguard.render.formats import add_output_flag, give
from draguard.render.help_text import Example, teaching
from draguard.safe import shown
from exporter.model.resource_slices import SliceDevice, inventory
from kubeapi.client import Client
from remediator.model.taint_rule import Effect

EXAMPLES = (
    Example("draguard cordon gpu-7/3 --why 'thermal paste'", "no new pod gets GPU 3 of node gpu-7"),
    Example("draguard cordon GPU-2fa8... --why swap --evict", "also delete the pods that use it"),
    Example("draguard cordon MIG-19ab... --why test", "one slice; its neighbours are unaffected"),
    Example("draguard cordon gpu-7/3 --why x --dry-run", "which devices and pods are affected"),
)
WHOEVER = "pods of claims that this version cannot read"
NOT_SERVED = (
    "this cluster serves no DeviceTaintRules, so no device can be cordoned; see `draguard doctor`"
)


def main(arguments: Sequence[str]) -> int:
    """Return 0 when every cordon stands; 1 when none, or not all; 2 when nothing could be asked."""
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
    return asked("cordon", options, lambda client: _cordon(client, options))


def _cordon(client: Client, options: argparse.Namespace) -> int:
    with Progress() as progress:
        reader = Reader(client, options.namespace, progress.read)
        objects = reader.objects("any_reports", "slices", "claims", "rules")
    if objects.rule_version is None:
        complain("cordon", NOT_SERVED)
        return WRONG
    try:
        named = meant(options.device, published(objects), objects.reports)
    except NoDeviceError as error:
        complain("cordon", f"{error}{left_out(objects)}")
        return WRONG
    cordons = _cordons(named, caller(client).name or "unknown", options)
    on_it = agreed(reader, objects, named, cordons, options)
    if on_it is None:
        return WRONG
    changed = all_stand(client, objects, cordons, dry=options.dry_run)
    told = Cordons(
        word=options.device,
        what=named.what,
        gpu=named.gpu,
        changed=changed,
        holders=on_it,
        by=cordons[0].by,
    )
    give(told, options.output, lambda: sheet(told, evict=options.evict))
    return WRONG if any(one.failed for one in changed) else DONE


def _cordons(named: Meant, by: str, options: argparse.Namespace) -> tuple[Cordon, ...]:
    wanted: Effect = "NoExecute" if options.evict else "NoSchedule"
    return tuple(
        Cordon(target=one, gpu=named.gpu, effect=wanted, by=by, why=options.why)
        for one in named.targets
    )


def published(objects: Objects) -> tuple[SliceDevice, ...]:
    return inventory(objects.slices)


def agreed(
    reader: Reader,
    objects: Objects,
    named: Meant,
    cordons: Sequence[Cordon],
    options: argparse.Namespace,
) -> tuple[Holder, ...] | None:
    """Return who is on the devices; None when their pods shall not be deleted after all.

    While a person reads who will go, others may come: then he is asked again.
    """
    values = {one.target.name: taint_value(objects.rules, one) for one in cordons}
    agreed: frozenset[str] = frozenset()
    while True:
        on_it = holders(objects.claims, values)
        going = frozenset(f"{one.namespace}/{one.pod}" for one in on_it if not one.stays)
        going |= {f"{WHOEVER} ({one})" for one in objects.unreadable if "resourceclaims" in one}
        asks = options.evict and not (options.dry_run or options.yes)
        if not asks or going <= agreed:
            return on_it
        if not _asked(named, sorted(going)):
            return None
        agreed, objects = going, reader.objects("claims")


def _asked(named: Meant, going: Sequence[str]) -> bool:
    """Ask before pods are deleted, naming them."""
    pods = count(len(going), "pod", "pods")
    print(shown(f"{named.what} of {named.gpu}: {pods} will be deleted:"), file=sys.stderr)
    for pod in going:
        print(f"  {shown(pod)}", file=sys.stderr)
    if not sys.stdin.isatty():
        complain("cordon", "nothing was done: no terminal for confirmation; add --yes to continue")
        return False
    print("Delete them? Type yes: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() == "yes":
        return True
    complain("cordon", "nothing was done")
    return False
