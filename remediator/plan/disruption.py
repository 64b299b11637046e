"""What disrupts running pods: which of it must not begin now, and what a plan begins.

Before a disruption begins, its facts are read from the API server once more. Pure.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from exporter.model.device import Device
from remediator.model.incident import AffectedPod, Incident
from remediator.model.node import PROBLEM, NodeCondition
from remediator.model.taint_rule import EFFECTS, EVICTING, Effect, Rule
from remediator.plan.board import Board
from remediator.plan.pods import devices_drained_elsewhere, not_looked_at, why_not_yet
from remediator.plan.stages import Deferral, DeferredBy, Demanded, Granted
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteRule,
    EvictPod,
    Step,
    WriteNodeConditions,
)

LOOK_AGAIN, LOOK_AGAIN_DRAINING = timedelta(seconds=5), timedelta(seconds=60)
"""When to list the pods again: one is not in the list yet, or is being drained."""


def grant(board: Board, demanded: Demanded, now: datetime) -> Granted:
    """Return what is demanded of a GPU without the disruptions that must not begin there now.

    Before NoExecute begins on a device, every pod on it is looked at: another system may have to
    drain it first. Requests to the Eviction API name single pods, which are looked at one by one.
    """
    granted = Granted(
        demanded=demanded,
        rules=demanded.rules,
        deferrals=(demanded.hold,) if demanded.hold else (),
        evicts=demanded.eviction.devices,
        wake_at=demanded.wake_at,
    )
    begins = [] if demanded.undecided else _begins(board, demanded.rules)
    if not begins:
        return granted
    if why := board.trust.refusal("disrupt"):
        return _without(board, granted, begins, "Blindness", why)
    theirs, unknown = devices_drained_elsewhere(board), not_looked_at(board)
    waits = [
        rule
        for rule in begins
        if str(rule.device) in theirs
        or (rule.effect == "NoExecute" and str(rule.device) in unknown)
    ]
    if not waits:
        return granted
    why = why_not_yet(board, {str(rule.device) for rule in waits})
    owned = any(str(rule.device) in theirs for rule in waits)
    milder = _without(board, granted, waits, "PodOwner" if owned else "PodsUnknown", why)
    again = now + (LOOK_AGAIN if unknown else LOOK_AGAIN_DRAINING)
    return msgspec.structs.replace(milder, wake_at=min(granted.wake_at or again, again))


def _begins(board: Board, rules: Iterable[Rule]) -> list[Rule]:
    """Return the rules by which evictions would begin, or become deletions."""
    stored: dict[Device, Effect] = {rule.device: rule.effect for rule in board.rules.stored}
    return [rule for rule in rules if _raises(rule, stored.get(rule.device))]


def _without(
    board: Board, granted: Granted, begins: list[Rule], by: DeferredBy, why: str
) -> Granted:
    """Return the same with milder rules in place of some that would begin."""
    stored: dict[Device, Effect] = {rule.device: rule.effect for rule in board.rules.stored}
    # What goes on stays an eviction while what would begin waits.
    rules = (
        msgspec.structs.replace(
            rule, effect="Evict" if stored.get(rule.device) == "Evict" else "NoSchedule"
        )
        if rule in begins
        else rule
        for rule in granted.rules
    )
    evicts = all(rule.effect == "Evict" for rule in begins)
    deferral = Deferral(by, f"{'Evict' if evicts else 'NoExecute'} deferred: {why}")
    return msgspec.structs.replace(
        granted, rules=tuple(rules), deferrals=(*granted.deferrals, deferral)
    )


def _raises(rule: Rule, stored: Effect | None) -> bool:
    """Whether a rule begins to evict pods, or to delete those that would not be evicted."""
    before = EFFECTS.index(stored or EFFECTS[0])
    return rule.effect in EVICTING and EFFECTS.index(rule.effect) > before


def _was_confirmed(board: Board, incident: Incident) -> bool:
    """Whether the pods of an incident are being evicted, which was confirmed when it began."""
    status = incident.status
    anew = status.eviction_start_time is None and all(
        rule.effect != "NoExecute" for rule in board.rules.stored
    )
    return incident.open and status.evicting_at is not None and not anew


class Disruption(msgspec.Struct, frozen=True):
    """What steps would do to running pods, or end: its facts are read anew before."""

    devices: frozenset[Device] = frozenset()
    """Of which pods would begin to be evicted."""
    repair: bool = False
    """A repair of the node would be called for."""
    continued: frozenset[AffectedPod] = frozenset()
    """Pods of which an eviction is requested that has begun: only users may have stopped it."""
    untainted: frozenset[str] = frozenset()
    """Names of the incidents that verified recovery would end, with their rules."""

    def __bool__(self) -> bool:
        """Whether something begins."""
        return bool(self.devices or self.repair)

    @property
    def of_intents(self) -> frozenset[Device]:
        """Return the devices for which what users want matters."""
        return self.devices | {_device(pod) for pod in self.continued}


def disruption(
    steps: Iterable[Step], cases: Iterable[Board], conditions: Iterable[NodeCondition]
) -> Disruption:
    """Return what steps begin, and go on with: that was confirmed when it began."""
    begun = {
        board.uuid
        for board in cases
        for incident in board.incidents
        if _was_confirmed(board, incident)
    }
    reported = {
        condition.type
        for condition in conditions
        if condition.status == PROBLEM.get(condition.type)
    }
    devices: set[Device] = set()
    continued: set[AffectedPod] = set()
    repair = False
    for step in steps:
        match step:
            case CreateRule(rule) if _raises(rule, None):
                devices.add(rule.device)
            case ChangeRule(stored, rule) if _raises(rule, stored.effect):
                devices.add(rule.device)
            case EvictPod(gpu, pod) if gpu in begun:
                continued.add(pod)
            case EvictPod(_, pod):
                devices.add(_device(pod))
            case WriteNodeConditions(_, written):
                asking = {
                    condition.type
                    for condition in written
                    if condition.status == PROBLEM.get(condition.type)
                }
                repair |= bool(asking - reported)
            case _:
                pass
    return Disruption(frozenset(devices), repair, frozenset(continued))


def untainting(steps: Iterable[Step], all_demanded: Iterable[Demanded]) -> Mapping[str, str]:
    """Return which GPUs steps untaint after verified recovery, with the incidents that end."""
    going = {step.stored.gpu for step in steps if isinstance(step, DeleteRule)}
    return {
        demanded.uuid: demanded.incident.name
        for demanded in all_demanded
        if demanded.course.kind == "closes" and demanded.incident and demanded.uuid in going
    }


def _device(pod: AffectedPod) -> Device:
    driver, pool, device = pod.device.split("/", 2)
    return Device(driver, pool, device)
