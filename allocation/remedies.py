"""Which single change would give a pod's claims their devices on a node. Pure.

A change is offered only after the whole search has confirmed it: that a device has one reason left
does not mean that the rest of the claims fits then. Changes come from the reasons of the devices
themselves, so nothing is offered that keeps no device away.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from allocation.answers import Answers
from allocation.candidates import Selection, candidates
from allocation.capacity import CapacityError
from allocation.demand import resource_of
from allocation.model.claims import (
    CelSelector,
    Choice,
    Claim,
    ClaimSpec,
    Constraint,
    DeviceClass,
    Devices,
    Request,
    Selector,
)
from allocation.model.nodes import Node, NodeSelectorError
from allocation.model.pods import EXTENDED_RESOURCES, Pod
from allocation.model.slices import PublishedDevice, ResourceSlice, Taint
from allocation.plugin import classes_of_resources
from allocation.pools import Published
from allocation.reasons import Candidate, Reason
from allocation.search import Cluster, allocate
from allocation.usage import Usage
from exporter.model.device import Device

OURS = "draguard.dev/"
"""How the keys of Draguard's taints begin."""
_OF = " of "
"""Between a taint and the one device that is repaired."""
MOST_TRIED = 24
"""Changes for one node: each is a whole search."""


class Scene(msgspec.Struct, frozen=True):
    """What a change is made to."""

    waiting: tuple[Claim, ...]
    slices: tuple[ResourceSlice, ...]
    claims: tuple[Claim, ...]
    """Those that are allocated."""
    classes: Mapping[str, DeviceClass]
    pod: Pod | None = None
    """Whose extended resources one of the waiting claims may be for."""

    def cluster(self) -> Cluster:
        """Raises CapacityError."""
        return Cluster(Published(self.slices), Usage.of(self.claims), self.classes)


class Change(msgspec.Struct, frozen=True, order=True):
    """`what` is done about `which`, such as `Free` the devices of a claim."""

    what: str
    which: str


def remedies(scene: Scene, node: Node, answers: Answers) -> tuple[Change, ...]:
    """Return each single change with which a node serves the claims, the nearest miss first.

    None where it serves them as it is, or where no single change helps.
    """
    try:
        cluster = scene.cluster()
        if allocate(scene.waiting, node, cluster, answers).ending == "Allocated":
            return ()
        found = list(_near_misses(scene, cluster, node, answers))
    except (NodeSelectorError, CapacityError):
        return ()
    changes: Counter[Change] = Counter()
    for each in found:
        # A device with one reason is a nearer miss than one with three.
        for change in {
            change for reason in each.reasons for change in _changes(reason, each.device)
        }:
            changes[change] += 1 if len(each.reasons) > 1 else len(found)
    tried = sorted(changes, key=lambda change: (-changes[change], change))[:MOST_TRIED]
    helpful: list[Change] = []
    repaired: set[str] = set()
    for change in dict.fromkeys((*tried, *_of_claims(scene.waiting))):
        # One device that is repaired is enough, and as good as another with the same fault.
        fault = change.which.partition(_OF)[0] if change.what == "Untaint" else ""
        if fault in repaired:
            continue
        after = apply_change(scene, change)
        if allocate(after.waiting, node, after.cluster(), answers).ending == "Allocated":
            helpful.append(change)
            repaired |= {fault} - {""}
    return tuple(helpful)


def apply_change(scene: Scene, change: Change) -> Scene:
    """Return what it would be like."""
    return CHANGES[change.what](scene, change.which)


def _near_misses(
    scene: Scene, cluster: Cluster, node: Node, answers: Answers
) -> Iterator[Candidate]:
    pools = cluster.published.pools_of(node)
    for claim in scene.waiting:
        for request in claim.spec.devices.requests:
            for choice in request.choices:
                device_class = scene.classes.get(choice.device_class_name)
                if device_class is not None:
                    selection = Selection(request.name, choice, device_class, answers)
                    constraints = claim.spec.devices.constraints
                    found = candidates(selection, pools, node, cluster.usage, constraints)
                    yield from (each for each in found if each.reasons)


def _changes(reason: Reason, device: Device) -> Iterator[Change]:
    """Yield what would take a reason away from a device, where one thing does."""
    match reason.why:
        case "Allocated" | "Capacity" if reason.by:
            yield from (Change("Free", claim) for claim in reason.by)
        case "RequestSelector" | "SelectorFails":
            yield Change("DropSelector", reason.what)
        case "Tainted" if reason.what.startswith(OURS):
            return  # a sick device: it is repaired, and then Draguard untaints it
        case "Tainted":
            rule = reason.by[0] if reason.by else ""
            repair = Change("Untaint", f"{reason.what}{_OF}{device}")
            yield Change("RemoveRule", rule) if rule else repair
        case "Constraint":
            yield Change("DropConstraint", reason.what)
        case _:
            return


def _of_claims(waiting: Sequence[Claim]) -> Iterator[Change]:
    """Yield what no device has as its own reason: constraints, and too many devices."""
    for claim in waiting:
        for constraint in claim.spec.devices.constraints:
            name = constraint.match_attribute or constraint.distinct_attribute or ""
            yield Change("DropConstraint", name)
        for request in claim.spec.devices.requests:
            if any(choice.count > 1 for choice in request.choices):
                yield Change("OneDevice", f"{claim.key}/{request.name}")


def _free(scene: Scene, which: str) -> Scene:
    claims = tuple(claim for claim in scene.claims if claim.key != which)
    return msgspec.structs.replace(scene, claims=claims)


def _remove_rule(scene: Scene, which: str) -> Scene:
    return _without_taints(scene, lambda taint, _given, _device: taint.rule == which)


def _untaint(scene: Scene, which: str) -> Scene:
    key, _, name = which.partition(_OF)

    def goes(taint: Taint, given: ResourceSlice, device: PublishedDevice) -> bool:
        return not taint.rule and taint.key == key and str(given.device(device)) == name

    return _without_taints(scene, goes)


def _without_taints(
    scene: Scene, goes: Callable[[Taint, ResourceSlice, PublishedDevice], bool]
) -> Scene:
    """Return the scene without some taints; a slice that has none of them stays the same object."""

    def clean(given: ResourceSlice) -> ResourceSlice:
        kept = [
            tuple(taint for taint in device.taints if not goes(taint, given, device))
            for device in given.spec.devices
        ]
        if kept == [device.taints for device in given.spec.devices]:
            return given
        devices = tuple(
            msgspec.structs.replace(device, taints=taints)
            for device, taints in zip(given.spec.devices, kept, strict=True)
        )
        spec = msgspec.structs.replace(given.spec, devices=devices)
        return msgspec.structs.replace(given, spec=spec)

    return msgspec.structs.replace(scene, slices=tuple(map(clean, scene.slices)))


def _drop_selector(scene: Scene, which: str) -> Scene:
    def without(choice: Choice) -> Choice:
        dropped = Selector(CelSelector(which))
        kept = tuple(each for each in choice.selectors if each != dropped)
        return msgspec.structs.replace(choice, selectors=kept)

    return _with_choices(scene, lambda _, choice: without(choice))


def _one_device(scene: Scene, which: str) -> Scene:
    _, mark, request = which.partition(f"/{EXTENDED_RESOURCES}/")
    if mark and scene.pod is not None:
        container, _, resource = request.partition("/")
        return _derived_anew(scene, scene.pod.with_one(container, resource))
    return _with_choices(
        scene,
        lambda name, choice: (
            msgspec.structs.replace(choice, count=1) if name == which and choice.count else choice
        ),
    )


def _derived_anew(scene: Scene, pod: Pod) -> Scene:
    """Return the scene with another pod, of the extended resources that it has for it.

    What an init container requests for itself grows as those after it request less.
    """

    def of(claim: Claim) -> Claim:
        made = pod.extended_claim(classes_of_resources(scene.classes.values()))
        if made is None or claim.metadata.name != EXTENDED_RESOURCES:
            return claim
        served = {resource_of(claim, each) for each in claim.spec.devices.requests}
        requests = (
            each for each in made.spec.devices.requests if resource_of(made, each) in served
        )
        return msgspec.structs.replace(made, spec=ClaimSpec(Devices(tuple(requests))))

    return msgspec.structs.replace(scene, pod=pod, waiting=tuple(map(of, scene.waiting)))


def _drop_constraint(scene: Scene, which: str) -> Scene:
    def other(constraint: Constraint) -> bool:
        return which not in (constraint.match_attribute, constraint.distinct_attribute)

    def without(claim: Claim) -> Claim:
        devices = claim.spec.devices
        kept = tuple(filter(other, devices.constraints))
        spec = msgspec.structs.replace(
            claim.spec, devices=msgspec.structs.replace(devices, constraints=kept)
        )
        return msgspec.structs.replace(claim, spec=spec)

    return msgspec.structs.replace(scene, waiting=tuple(map(without, scene.waiting)))


def _with_choices(scene: Scene, change: Callable[[str, Choice], Choice]) -> Scene:
    """Return the scene with each choice of each request changed; its request is `claim/request`."""

    def of(claim: Claim, request: Request) -> Request:
        name = f"{claim.key}/{request.name}"
        return msgspec.structs.replace(
            request,
            exactly=change(name, request.exactly) if request.exactly else None,
            first_available=tuple(change(name, each) for each in request.first_available),
        )

    waiting: list[Claim] = []
    for claim in scene.waiting:
        devices = claim.spec.devices
        requests = tuple(of(claim, request) for request in devices.requests)
        spec = msgspec.structs.replace(
            claim.spec, devices=msgspec.structs.replace(devices, requests=requests)
        )
        waiting.append(msgspec.structs.replace(claim, spec=spec))
    return msgspec.structs.replace(scene, waiting=tuple(waiting))


CHANGES: Mapping[str, Callable[[Scene, str], Scene]] = {
    "Free": _free,
    "RemoveRule": _remove_rule,
    "Untaint": _untaint,
    "DropSelector": _drop_selector,
    "DropConstraint": _drop_constraint,
    "OneDevice": _one_device,
}
"""By `Change.what`."""
