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
from remediator.plan import drained_elsewhere
from remediator.plan.case import Case, DeferredBy, Desired
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


def deferred(case: Case, desired: Desired) -> Desired:
    """Return what is desired without the disruptions that must not begin now: NoSchedule only."""
    why = case.no_disruption
    if not why:
        return desired
    begins = _begins(case, desired)
    if not (begins or desired.eviction.pods):
        return desired
    milder = _without(case, desired, begins, why, "Blindness")
    eviction = msgspec.structs.replace(desired.eviction, pods=())
    return msgspec.structs.replace(milder, eviction=eviction)


def until_drained(case: Case, desired: Desired, now: datetime) -> Desired:
    """Return what is desired without evictions of pods that another system has to drain first.

    Every pod on a device is looked at before NoExecute begins there. Requests to the Eviction API
    name single pods, which are looked at one by one.
    """
    begins = _begins(case, desired)
    if not begins:
        return desired
    theirs, unknown = drained_elsewhere.devices(case), drained_elsewhere.not_looked_at(case)
    waits = [
        rule
        for rule in begins
        if str(rule.device) in theirs
        or (rule.effect == "NoExecute" and str(rule.device) in unknown)
    ]
    if not waits:
        return desired
    why = drained_elsewhere.why(case, {str(rule.device) for rule in waits})
    owned = any(str(rule.device) in theirs for rule in waits)
    milder = _without(case, desired, waits, why, "PodOwner" if owned else "PodsUnknown")
    again = now + (LOOK_AGAIN if unknown else LOOK_AGAIN_DRAINING)
    return msgspec.structs.replace(milder, wake_at=min(desired.wake_at or again, again))


def _begins(case: Case, desired: Desired) -> list[Rule]:
    """Return the rules by which evictions would begin, or become deletions."""
    stored: dict[Device, Effect] = {rule.device: rule.effect for rule in case.rules}
    return [rule for rule in desired.rules if _raises(rule, stored.get(rule.device))]


def _without(case: Case, desired: Desired, begins: list[Rule], why: str, by: DeferredBy) -> Desired:
    """Return what is desired with milder rules in place of some that would begin."""
    stored: dict[Device, Effect] = {rule.device: rule.effect for rule in case.rules}
    # What goes on stays an eviction while what would begin waits.
    rules = (
        msgspec.structs.replace(
            rule, effect="Evict" if stored.get(rule.device) == "Evict" else "NoSchedule"
        )
        if rule in begins
        else rule
        for rule in desired.rules
    )
    evicts = bool(begins) and all(rule.effect == "Evict" for rule in begins)
    held = f"{'Evict' if evicts else 'NoExecute'} deferred: {why}"
    return msgspec.structs.replace(
        desired,
        rules=tuple(rules),
        deferred="; ".join(text for text in (desired.deferred, held) if text),
        deferred_by=desired.deferred_by if desired.deferred else by,
    )


def _raises(rule: Rule, stored: Effect | None) -> bool:
    """Whether a rule begins to evict pods, or to delete those that would not be evicted."""
    before = EFFECTS.index(stored or EFFECTS[0])
    return rule.effect in EVICTING and EFFECTS.index(rule.effect) > before


def _confirmed(case: Case, incident: Incident) -> bool:
    """Whether the pods of an incident are being evicted, which was confirmed when it began."""
    status = incident.status
    anew = status.eviction_start_time is None and all(
        rule.effect != "NoExecute" for rule in case.rules
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
    steps: Iterable[Step], cases: Iterable[Case], conditions: Iterable[NodeCondition]
) -> Disruption:
    """Return what steps begin, and go on with: that was confirmed when it began."""
    begun = {
        case.uuid for case in cases for incident in case.incidents if _confirmed(case, incident)
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


def untainting(steps: Iterable[Step], all_desired: Iterable[Desired]) -> Mapping[str, str]:
    """Return which GPUs steps untaint after verified recovery, with the incidents that end."""
    going = {step.stored.gpu for step in steps if isinstance(step, DeleteRule)}
    return {
        desired.uuid: desired.incident.name
        for desired in all_desired
        if desired.closing and desired.incident and desired.uuid in going
    }


def _device(pod: AffectedPod) -> Device:
    driver, pool, device = pod.device.split("/", 2)
    return Device(driver, pool, device)
