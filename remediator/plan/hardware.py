"""What an incident has tainted, as hardware, and what of it is free.

A rule selects a device by its name, and names move. So an incident stores what it has tainted as
hardware: the GPU, one MIG slice by its UUID, or the memory slices of an instance.

What a decision sets free by what it sees at one moment is stored before the first rule goes: by
recovery (`soak`), and by a source that names the slice of an error. It is tainted no more, whatever
is known when the next decision is made, and by whom, until a new rule or a fault taints it anew.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from exporter.model.device import Device
from exporter.model.node_health import MemorySlices
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.fault import NEAR
from remediator.diagnose.scope import gpus_behind, made_of
from remediator.model.incident import Incident
from remediator.model.incident_status import HARDWARE_LIMIT, Hardware, RuleRecord
from remediator.model.taint_rule import EVICTING, Rule, restricts, stronger
from remediator.plan import clocks
from remediator.plan.board import Board
from remediator.plan.effects import Demand, slices_to_record
from remediator.plan.signals import slices_named
from remediator.plan.words import severity, was_lost


def _whole_since(incident: Incident) -> datetime | None:
    """Return since when the whole GPU is tainted, whatever its slices have been since."""
    status = incident.status
    gpus = (part for part in status.scope.hardware if not (part.uuid or part.placement))
    return next(
        (part.tainted_time for part in gpus if part.tainted_time), status.eviction.tainted_at
    )


def _is_of_another_slice(
    board: Board, incident: Incident, rule: Rule, demands: tuple[Demand, ...], now: datetime
) -> bool:
    """Whether a later source has named another slice than the one that this rule taints.

    Only a contained error, only before the first eviction, and only where the whole GPU was tainted
    just now for want of that source. An error that comes later proves nothing about the slice of an
    earlier one, also where that error is over by now.
    """
    if was_lost(incident) or not incident.status.phase:
        return False  # since when the whole GPU is tainted is not known, or not any more
    tainted_at, scope = _whole_since(incident), incident.status.scope.devices
    # By the hardware as well: a slice that has just got another name was tainted under the old one.
    names, hardware = {target.name for target in scope}, {target.uuid for target in scope} - {""}
    whole = all(
        device.device in names or device.uuid in hardware
        for device in board.inventory
        if device.parent_uuid == board.uuid
    )
    if not whole or (tainted_at is not None and now - tainted_at > NEAR):
        return False
    own = rule.uuid in slices_named(board, incident.status.fault.seen_signals)
    if own or not any(demand.new for demand in demands):
        return False  # a rule made anew, such as under another name, is no news of a slice
    contained = {
        incident.status.fault.fault_class,
        rule.fault,
        *(demand.fault.fault_class for demand in demands),
    }
    desired = {target.name for demand in demands for target in demand.targets}
    mild = rule.effect not in EVICTING and contained == {"contained"}
    if not (mild and desired):
        return False
    if rule.uuid != rule.gpu and any(device.uuid == rule.uuid for device in board.inventory):
        # By its hardware: an older name of a slice that is not meant would bring its taint back.
        return all(target.uuid != rule.uuid for demand in demands for target in demand.targets)
    published = any(device.device == rule.device and device.uuid for device in board.inventory)
    return published and rule.device not in desired


def without_other_slices(  # noqa: PLR0917 - the facts, and when
    board: Board,
    incident: Incident,
    parts: tuple[Hardware, ...],
    standing: Iterable[Rule],
    demands: tuple[Demand, ...],
    now: datetime,
) -> tuple[Hardware, ...]:
    """Return hardware without what was tainted for want of a source that has named a slice now."""
    if not any(_is_of_another_slice(board, incident, rule, demands, now) for rule in standing):
        return parts
    meant = {target.uuid for demand in demands for target in demand.targets}
    meant |= slices_named(board, incident.status.fault.seen_signals)
    return tuple(
        part
        for part in parts
        if part.fault != "contained"
        or part.placement is not None
        or part.uuid in meant
        # Evictions from a slice say nothing about the GPU: an error without a slice evicts no pod.
        or (part.effect in EVICTING and part.uuid)
    )


def is_free(board: Board, incident: Incident, rule: Rule, demands: tuple[Demand, ...]) -> bool:
    """Whether a rule is to go, as the incident no longer records its hardware at all.

    That is stored before the first such rule goes: a write may fail, or a leader end, in between.
    What the policy or a user has set free is recorded as that, and another pool may still taint it.
    """
    scope = incident.status.scope
    noted = RuleRecord(rule.name, rule.uid, str(rule.device), rule.effect) in scope.rules
    # Its hardware was noted with it. For other classes an incident has more ground (`unproven`).
    if not noted or rule.fault != "contained" or not restricts(rule.effect):
        return False
    full = not 0 < len(scope.hardware) < HARDWARE_LIMIT
    if full or any(part.uuid == rule.uuid for part in scope.hardware):
        return False
    if any(target.name == rule.device for demand in demands for target in demand.targets):
        return False
    named = {device.device for device in board.inventory if device.uuid == rule.uuid}
    here = named or {it.device for it in board.inventory if it.uuid and it.device == rule.device}
    recorded = {device.device for _, device in devices_of(scope.hardware, board)}
    return bool(here) and here.isdisjoint(recorded)


def tainted_hardware(
    board: Board,
    incident: Incident,
    now: datetime,
    demands: tuple[Demand, ...] = (),
) -> tuple[Hardware, ...]:
    """Return the hardware that an incident has tainted, each with the strongest effect ever stored.

    A rule names its hardware by UUID, except for an error of one instance of dynamic MIG, whose
    partitions have none: there the fault names it.
    """
    found = {_key(part): part for part in incident.status.scope.hardware}
    stored = {
        rule.device: rule
        for rule in board.rules.stored
        if restricts(rule.effect) and not is_free(board, incident, rule, demands)
    }
    parts = _parts_of_rules(board, incident, stored, demands)
    noted = {record.uid for record in incident.status.scope.rules}
    meant = {target.name for demand in demands for target in demand.targets} & stored.keys()
    published = list(devices_of((*found.values(), *(part for part, _ in parts)), board))
    for part, rule in sorted(parts, key=lambda pair: _key(pair[0])):
        old = found.get(_key(part))
        there = {device.device for it, device in published if _key(it) == _key(part)}
        # A rule that stood when its hardware was set free may not be gone yet, and shows nothing. A
        # fault does once each device of it has a rule: none gets one past the brakes.
        free = old is not None and not restricts(old.effect) and rule.uid in noted
        if not free or (there and there <= meant):
            found[_key(part)] = _join_parts(board, part, old, now)
    return tuple(found[key] for key in sorted(found)[:HARDWARE_LIMIT])


def _parts_of_rules(
    board: Board, incident: Incident, stored: Mapping[Device, Rule], demands: tuple[Demand, ...]
) -> list[tuple[Hardware, Rule]]:
    """Return what each stored rule says is tainted, or the fault that it was made for."""
    parts: list[tuple[Hardware, Rule]] = []
    contained = {rule.device for rule in stored.values() if rule.fault == "contained"}
    for demand in demands:
        if demand.fault.fault_class != "contained" or demand.effect is None:
            continue
        if demand.row.mode != "enforce":
            continue
        rules = [stored[target.name] for target in demand.targets if target.name in stored]
        parts += [(part, rule) for rule in rules if (part := _part_of_fault(demand, rule))]
        contained |= {rule.device for rule in rules}
    known = (*incident.status.scope.hardware, *(part for part, _ in parts))
    places = [part.placement for part in known if part.placement and not part.uuid]
    failed = {target.uuid for target in slices_to_record(incident, demands)}
    for rule in stored.values():
        part = Hardware(effect=rule.effect, fault=rule.fault, cause=rule.cause)
        if rule.uuid != rule.gpu and rule.device in contained:
            # A slice that failed itself is recorded by its UUID alone: another compute instance in
            # its memory stays free.
            anew = [] if rule.uuid in failed else places
            place = _place_of(rule, anew, board, incident)
            of_slice = msgspec.structs.replace(part, uuid=rule.uuid, placement=place)
            parts.append((of_slice, rule))
        # A fault of any other class is the GPU's, whichever slice the rule is on: what is cut from
        # the GPU later is tainted, too.
        # So is one of a GPU that is known to have no slices: not by what is published now, as they
        # may be wiped for a moment. But where the failed memory is recorded, the GPU has its rule
        # for that alone, such as while MIG is off: its other slices will be well.
        unsliced = board.gpu is not None and board.gpu.mig is False
        whole = rule.uuid == rule.gpu and unsliced and not places
        if rule.fault != "contained" or whole:
            parts.append((part, rule))
    return parts


def devices_of(parts: Iterable[Hardware], board: Board) -> Iterator[tuple[Hardware, SliceDevice]]:
    """Yield the devices that are published of some hardware, the mildest fault first."""
    ordered = sorted(parts, key=lambda part: severity(part.fault))
    named = {part.uuid for part in ordered if part.placement is None} - {""}
    for part in ordered:
        for device in board.inventory:
            if _is_of(device, part, named, board):
                yield part, device


def set_free(
    parts: Iterable[Hardware], freed: Collection[Hardware], incident: Incident
) -> tuple[Hardware, ...]:
    """Return hardware of which some is tainted no more, by recovery, the policy or a user's word.

    What was recorded as free stays as it is, though a rule that may not be removed stands there.
    """
    before = {_key(part): part for part in incident.status.scope.hardware if part.effect == "None"}
    return tuple(
        before.get(_key(part), msgspec.structs.replace(part, effect="None"))
        if part in freed
        else part
        for part in parts
    )


def _place_of(
    rule: Rule, places: Iterable[MemorySlices], board: Board, incident: Incident
) -> MemorySlices | None:
    """Return the failed memory that a slice was made of later; None if it failed itself.

    What is recorded of it once stays. A slice that cannot be seen now was seen when it got its
    rule.
    """
    known = next((part for part in incident.status.scope.hardware if part.uuid == rule.uuid), None)
    if known is not None:
        return known.placement
    seen = [device for device in board.inventory if device.uuid == rule.uuid]
    return next(
        (
            place
            for place in places
            if not seen or any(made_of(device, place, board.gpu) for device in seen)
        ),
        None,
    )


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


def _join_parts(board: Board, new: Hardware, old: Hardware | None, now: datetime) -> Hardware:
    if old is None or not restricts(old.effect):  # it was set free, and is tainted anew
        return msgspec.structs.replace(new, tainted_time=now)
    words, since = new if severity(new.fault) > severity(old.fault) else old, old.tainted_time
    fact = clocks.unless_dated(board, since, fact=True)
    # A part without a date is of an older version, and gets none.
    since = since and clocks.run("tainted", since, now, fact=fact)
    return msgspec.structs.replace(
        words, effect=stronger(new.effect, old.effect), tainted_time=since
    )


def _key(part: Hardware) -> tuple[str, int, int]:
    """Return what a part is; the GPU comes first."""
    return (
        (part.uuid, part.placement.start, part.placement.size)
        if part.placement
        else (part.uuid, -1, -1)
    )


def _is_of(device: SliceDevice, part: Hardware, named: set[str], board: Board) -> bool:
    """Whether a device is of a part.

    While the failed slice itself is published, no other slice is meant in its memory: it is another
    compute instance there. Slices that were made of that memory later are all meant.
    """
    if part.uuid:
        return device.uuid == part.uuid
    mine = board.uuid in gpus_behind(device, board.inventory)
    place = part.placement
    if place is None or not mine:
        return mine
    if device.kind == "mig" and device.uuid is not None and device.uuid not in named:
        there = (other for other in board.inventory if other.uuid in named)
        if any(made_of(other, place, board.gpu) for other in there):
            return False
    return made_of(device, place, board.gpu)
