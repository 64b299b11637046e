"""`draguard fence DEVICE`: keep new work off it, for maintenance; --evict moves who is there."""

import argparse
import sys
from collections.abc import Sequence

from draguard.cluster.objects import Objects
from draguard.cluster.reading import Reader
from draguard.connection.help_text import Example, teaching
from draguard.connection.session import add_cluster_flags, asked, complain
from draguard.connection.who import caller
from draguard.exit_status import DONE, WRONG
from draguard.maintenance.naming import NAMES, Meant, NoDeviceError, meant
from draguard.maintenance.outcome import FAILED, Changed, Fences, sheet
from draguard.maintenance.rule import (
    FENCED_BY,
    WHY,
    Fence,
    device_of,
    is_maintenance,
    manifest,
)
from draguard.maintenance.who_goes import Holder, holders
from draguard.output.amounts import count
from draguard.output.formats import add_output_flag, give
from draguard.output.progress import Progress
from draguard.output.safe import shown
from exporter.slices import SliceDevice, inventory
from kubeapi.client import ApiError, Client
from remediator.hands.gates import StatedRule
from remediator.hands.versions import GROUP
from remediator.objects.taints import EFFECTS, Effect

EXAMPLES = (
    Example("draguard fence gpu-7/3 --why 'thermal paste'", "no new pod gets GPU 3 of node gpu-7"),
    Example("draguard fence GPU-2fa8... --why swap --evict", "and move the pods that are on it"),
    Example("draguard fence MIG-19ab... --why test", "one slice; its neighbours go on"),
    Example("draguard fence gpu-7/3 --why x --dry-run", "which devices and pods that means"),
)
NOT_SERVED = (
    "this cluster serves no DeviceTaintRules, so no device can be fenced; see `draguard doctor`"
)


def main(arguments: Sequence[str]) -> int:
    """Return 0 when every fence stands; 1 when none, or not all; 2 when nothing could be asked."""
    parser = teaching(
        "fence",
        "Fence a device for maintenance, by a DeviceTaintRule of your own and with your own\n"
        "rights. A GPU means every slice of it. Running pods stay, unless you say --evict.",
        EXAMPLES,
        more="Eviction by taint asks no PodDisruptionBudget. The fence stands until\n"
        "`draguard unfence`; neither the remediator nor `draguard release` takes it away.",
    )
    parser.add_argument("device", metavar="DEVICE", help=NAMES)
    parser.add_argument("--why", required=True, metavar="TEXT", help="for who finds the fence")
    parser.add_argument("--evict", action="store_true", help="NoExecute: pods there are deleted")
    parser.add_argument("--yes", action="store_true", help="with --evict: do not ask")
    parser.add_argument("--dry-run", action="store_true", help="say what would be, do nothing")
    add_output_flag(parser)
    add_cluster_flags(parser)
    options = parser.parse_args(arguments)
    return asked("fence", options, lambda client: _fence(client, options))


def _fence(client: Client, options: argparse.Namespace) -> int:
    with Progress() as progress:
        reader = Reader(client, options.namespace, progress.read)
        objects = reader.objects("any_reports", "slices", "claims", "rules")
    if objects.rule_version is None:
        complain("fence", NOT_SERVED)
        return WRONG
    try:
        named = meant(options.device, published(objects), objects.reports)
    except NoDeviceError as error:
        complain("fence", str(error))
        return WRONG
    on_it = holders(objects.claims, frozenset(one.name for one in named.targets))
    going = tuple(one for one in on_it if not one.stays)
    wanted: Effect = "NoExecute" if options.evict else "NoSchedule"
    if options.evict and going and not (options.dry_run or _agreed(named, going, options)):
        return WRONG
    by = caller(client) or "unknown"
    fences = [
        Fence(target=one, gpu=named.gpu, effect=wanted, by=by, why=options.why)
        for one in named.targets
    ]
    changed = _all(client, objects, fences, dry=options.dry_run)
    told = Fences(
        word=options.device,
        what=named.what,
        gpu=named.gpu,
        changed=changed,
        holders=on_it,
        by=by,
    )
    give(told, options.output, lambda: sheet(told, evict=options.evict))
    return WRONG if any(one.done.startswith(FAILED) for one in changed) else DONE


def _all(
    client: Client, objects: Objects, fences: Sequence[Fence], *, dry: bool
) -> tuple[Changed, ...]:
    """Make every fence stand, or say of each why it does not. Raises what stops the first."""
    changed: list[Changed] = []
    for one in fences:
        try:
            changed.append(_stand(client, objects, one, dry=dry))
        except ApiError as error:
            if not changed and error.status in (None, 401, 403):
                raise
            device, why = str(one.target.name), f"{FAILED} fenced: {error.message}"
            changed.append(Changed(device, one.effect, one.name, why))
    return tuple(changed)


def published(objects: Objects) -> tuple[SliceDevice, ...]:
    return inventory(objects.slices)


def _stand(client: Client, objects: Objects, fence: Fence, *, dry: bool) -> Changed:
    """Make one fence stand, or raise one that stands; it is never lowered here."""
    stored = standing(objects.rules, fence)
    if stored is not None and _reaches(stored, fence):
        return Changed(
            str(fence.target.name),
            stored.spec.taint.effect,
            stored.metadata.name,
            stood(stored),
        )
    done = "would be fenced" if dry else "fenced"
    if not dry:
        path = f"/apis/{GROUP}/{objects.rule_version}/devicetaintrules"
        if stored is None:
            client.create(path, manifest(fence, objects.rule_version or "", objects.at))
        else:
            seen = {"uid": stored.metadata.uid, "resourceVersion": stored.metadata.resource_version}
            change = {"metadata": seen, "spec": {"taint": {"effect": fence.effect}}}
            client.merge_patch(f"{path}/{stored.metadata.name}", change)
    return Changed(str(fence.target.name), fence.effect, fence.name, done)


def stood(stored: StatedRule) -> str:
    """Say whose fence stands already: what was asked for now is not what is written there."""
    notes = stored.metadata.annotations
    return f"stood, by {notes.get(FENCED_BY) or 'somebody'}: {notes.get(WHY) or 'no reason given'}"


def standing(rules: Sequence[StatedRule], fence: Fence) -> StatedRule | None:
    """Return the stored fence for maintenance of the same device."""
    same = (r for r in rules if is_maintenance(r) and device_of(r) == fence.target.name)
    return next(same, None)


def _reaches(stored: StatedRule, fence: Fence) -> bool:
    effect = stored.spec.taint.effect
    return effect in EFFECTS and EFFECTS.index(effect) >= EFFECTS.index(fence.effect)


def _agreed(named: Meant, going: Sequence[Holder], options: argparse.Namespace) -> bool:
    """Ask before pods are deleted, naming them."""
    if options.yes:
        return True
    pods = sorted({f"{one.namespace}/{one.pod}" for one in going})
    print(
        f"{named.what} of {named.gpu}: {count(len(pods), 'pod', 'pods')} will be deleted:",
        file=sys.stderr,
    )
    for pod in pods:
        print(f"  {shown(pod)}", file=sys.stderr)
    if not sys.stdin.isatty():
        complain("fence", "nothing was done: there is nobody to ask here; give --yes to go on")
        return False
    print("Delete them? Type yes: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() == "yes":
        return True
    complain("fence", "nothing was done")
    return False
