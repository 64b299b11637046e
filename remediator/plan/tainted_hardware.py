"""A taint belongs to hardware: what an incident has tainted, and under which names it is now.

A rule selects a device by its name, and names move: boards are renumbered, swapped and cut anew.
So an incident stores what it has tainted as hardware: the GPU, one MIG slice by its UUID, or the
memory slices of an instance. As long as it is open, each device that its node publishes of that
hardware has a rule, whatever else is known or deferred. Such a rule only keeps new work away: to
evict needs fresh evidence. Pure.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from exporter.model.node_health import MemorySlices
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.scope import displaced, gpus_behind, hardware_of, made_of
from remediator.model.incident import HARDWARE_LIMIT, Hardware, Incident
from remediator.model.taint_rule import EFFECTS, EVICTING, Rule
from remediator.plan.case import Case
from remediator.plan.escalation import Demand, milder, placed, stronger
from remediator.plan.signals import named_before
from remediator.plan.words import class_of, severity, some
from remediator.policy.table import Policy

RESTRICTION = "NoSchedule"
"""The most that a rule may record because of what was stored once."""


def tainted(
    case: Case,
    incident: Incident,
    now: datetime,
    demands: tuple[Demand, ...] = (),
    gone: tuple[Rule, ...] = (),
) -> tuple[Hardware, ...]:
    """Return the hardware that an incident has tainted, each with the strongest effect ever stored.

    A rule names its hardware by UUID, except for an error of one instance of dynamic MIG, whose
    partitions have none: there the fault names it. `gone` are rules that should not have been made:
    a later source has named another slice.
    """
    found = {_key(part): part for part in incident.status.hardware}
    stored = {rule.device: rule for rule in case.rules if _restricts(rule.effect)}
    parts: list[Hardware] = []
    contained = {rule.device for rule in stored.values() if rule.fault == "contained"}
    for demand in (demand for demand in demands if _is_contained(demand)):
        rules = [stored[target.name] for target in demand.targets if target.name in stored]
        parts += [part for rule in rules if (part := _part_of_fault(demand, rule))]
        contained |= {rule.device for rule in rules}
    known = (part.placement for part in (*found.values(), *parts) if not part.uuid)
    places = [place for place in known if place is not None]
    failed = {target.uuid for target in placed(incident, demands)}
    for rule in stored.values():
        part = Hardware(effect=rule.effect, fault=rule.fault, cause=rule.cause)
        if rule.uuid != rule.gpu and rule.device in contained:
            anew = [] if rule.uuid in failed else places
            place = _place_of(rule, anew, case, incident)
            parts.append(msgspec.structs.replace(part, uuid=rule.uuid, placement=place))
        if rule.fault != "contained" or _is_of_whole(rule, case):
            parts.append(part)
    for part in sorted(parts, key=_key):
        found[_key(part)] = _joined(part, found.get(_key(part)), now)
    if gone:
        own = named_before(case, incident.status.seen_signals)
        found = {
            key: part
            for key, part in found.items()
            if part.uuid in own or not _was_too_much(part, demands)
        }
    return tuple(found[key] for key in sorted(found)[:HARDWARE_LIMIT])


def rebound(
    case: Case,
    incident: Incident,
    parts: Iterable[Hardware],
    standing: Iterable[Rule],
    policy: Policy,
) -> tuple[Rule, ...]:
    """Return the rules for devices of tainted hardware that nothing keeps work away from now.

    Only on the incident's own node: on another one a board is what that node's report lists.
    What the policy lets no class taint any more stays without a rule.
    """
    if incident.node != case.node or case.no_rebind:
        return ()
    has = {rule.device for rule in standing if _restricts(rule.effect)}
    found: dict[str, Rule] = {}
    ordered = sorted(parts, key=lambda part: severity(part.fault))
    named = {part.uuid for part in ordered if part.placement is None} - {""}
    for part in ordered:
        row = policy.row(class_of(part.fault), case.place)
        spared = row.mode != "enforce" or row.ceiling == "observe" or not _restricts(row.ceiling)
        if spared and not policy.disagrees:
            continue
        for device in case.inventory:
            if device.device not in has and _is_of(device, part, named, case):
                found[str(device.device)] = _rule(case, incident, part, device)
    return tuple(found[name] for name in sorted(found))


def with_rebound(rules: tuple[Rule, ...], rebound: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return rules, one for each device, with those that are rebound in their places."""
    anew = {rule.device for rule in rebound}
    return (*(rule for rule in rules if rule.device not in anew), *rebound)


def extends(rebound: Iterable[Rule], stored: Iterable[Rule]) -> bool:
    """Whether a rule will be created where nothing keeps work away now."""
    has = {rule.device for rule in stored if _restricts(rule.effect)}
    return any(rule.device not in has for rule in rebound)


def lowered(rule: Rule, inventory: tuple[SliceDevice, ...]) -> Rule:
    """Return a rule without its disruption where other hardware is proven under its name."""
    if rule.effect == milder(rule.effect, RESTRICTION) or not displaced(rule, inventory):
        return rule
    return msgspec.structs.replace(rule, effect=RESTRICTION)


def in_words(rules: tuple[Rule, ...]) -> str:
    """Return the names under which the hardware is tainted anew, "" for none."""
    names = some(rule.device.device for rule in rules)
    return f"the taint follows the hardware to {names}" if names else ""


def _place_of(
    rule: Rule, places: Iterable[MemorySlices], case: Case, incident: Incident
) -> MemorySlices | None:
    """Return the failed memory that a slice was made of later; None if it failed itself.

    What is recorded of it once stays. A slice that cannot be seen now was seen when it got its
    rule.
    """
    known = next((part for part in incident.status.hardware if part.uuid == rule.uuid), None)
    if known is not None:
        return known.placement
    seen = [device for device in case.inventory if device.uuid == rule.uuid]
    return next(
        (
            place
            for place in places
            if not seen or any(made_of(device, place, case.gpu) for device in seen)
        ),
        None,
    )


def _is_contained(demand: Demand) -> bool:
    """Whether a contained error taints."""
    contained = demand.fault.fault_class == "contained"
    return contained and demand.effect is not None and demand.row.mode == "enforce"


def _part_of_fault(demand: Demand, rule: Rule) -> Hardware | None:
    """Return what a contained error means, by a rule that is stored for it.

    An error that no source has placed means the GPU, once the wait for such a source is over.
    """
    fault = demand.fault
    if fault.placement is None and (fault.instance is not None or demand.awaits):
        return None
    return Hardware(
        placement=fault.placement, effect=rule.effect, fault=rule.fault, cause=rule.cause
    )


def _is_of_whole(rule: Rule, case: Case) -> bool:
    """Whether a rule is of a GPU that is known to have no slices."""
    # Not by what is published now: slices may be wiped for a moment.
    return rule.uuid == rule.gpu and case.gpu is not None and case.gpu.mig is False


def _joined(new: Hardware, old: Hardware | None, now: datetime) -> Hardware:
    if old is None:
        return msgspec.structs.replace(new, tainted_time=now)
    words = new if severity(new.fault) > severity(old.fault) else old
    return msgspec.structs.replace(
        words, effect=stronger(new.effect, old.effect), tainted_time=old.tainted_time
    )


def _was_too_much(part: Hardware, demands: tuple[Demand, ...]) -> bool:
    """Whether a part was tainted only because no source had named a slice, and one has now.

    Its rule may be gone already: an earlier plan may have been cut off in the middle.
    """
    meant = {target.uuid for demand in demands for target in demand.targets}
    # Evictions from a slice say nothing about the GPU: an error without a slice evicts no pod.
    mild = part.effect not in EVICTING or not part.uuid
    return part.fault == "contained" and mild and part.placement is None and part.uuid not in meant


def _key(part: Hardware) -> tuple[str, int, int]:
    """Return what a part is; the GPU comes first."""
    return (
        (part.uuid, part.placement.start, part.placement.size)
        if part.placement
        else (part.uuid, -1, -1)
    )


def _restricts(effect: str) -> bool:
    return effect in EFFECTS[EFFECTS.index(RESTRICTION) :]


def _is_of(device: SliceDevice, part: Hardware, named: set[str], case: Case) -> bool:
    """Whether a device is of a part.

    While the failed slice itself is published, no other slice is meant in its memory: it is another
    compute instance there. Slices that were made of that memory later are all meant.
    """
    if part.uuid:
        return device.uuid == part.uuid
    mine = case.uuid in gpus_behind(device, case.inventory)
    place = part.placement
    if place is None or not mine:
        return mine
    if device.kind == "mig" and device.uuid is not None and device.uuid not in named:
        there = (other for other in case.inventory if other.uuid in named)
        if any(made_of(other, place, case.gpu) for other in there):
            return False
    return made_of(device, place, case.gpu)


def _rule(case: Case, incident: Incident, part: Hardware, device: SliceDevice) -> Rule:
    return Rule(
        device=device.device,
        effect=RESTRICTION,
        fault=part.fault,
        cause=part.cause,
        incident=incident.name,
        uuid=hardware_of(device, case.uuid),
        gpu=case.uuid,
        node=case.node,
        classes=tuple(sorted(case.place.device_classes)),
    )
