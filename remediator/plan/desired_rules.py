"""Demands of the faults of one GPU into rules, and into the reason for them. Pure."""

import msgspec

from exporter.model.device import Device
from remediator.diagnose.fault import Fault, Healthy, weight
from remediator.model.incident import Incident, Target, WouldTaint
from remediator.model.taint_rule import EVICTING, LOST, Effect, Rule
from remediator.plan.case import Case, Notice
from remediator.plan.drained_elsewhere import drained
from remediator.plan.escalation import UNPUBLISHED, Demand, stronger
from remediator.plan.words import severity
from remediator.policy.table import Evict, mildest_eviction


def rules(
    case: Case,
    incident: Incident,
    demands: tuple[Demand, ...],
    kept: tuple[Rule, ...],
) -> tuple[Rule, ...]:
    """Return for each device the strongest of its demands and of the rule that stands on it.

    What stands is recorded under the incident that leads.
    """
    held = {pod.device for pod in case.affected}
    desired = {rule.device: msgspec.structs.replace(rule, incident=incident.name) for rule in kept}
    # From the mildest class; among equals as an incident is named (`weight`).
    order = sorted(
        demands, key=lambda each: (severity(each.fault.fault_class), *weight(each.fault)[1:])
    )
    for demand in order:
        row = demand.row
        shown = row.mode == "dry-run" and row.ceiling != "observe"
        for target in demand.targets:
            unenforced: Effect | None = "None" if shown and str(target.name) in held else None
            effect = demand.effect if row.mode == "enforce" else unenforced
            if effect is not None:
                rule = _rule(case, incident, demand.fault, target, effect)
                desired[target.name] = _joined(rule, desired.get(target.name))
    return tuple(desired[device] for device in sorted(desired))


def _joined(rule: Rule, standing: Rule | None) -> Rule:
    """Return one rule for a device, in the words of the demand with the strongest effect.

    Among equals the standing rule keeps its words, if it has any, unless a worse class demands it.
    A rule must not name a class whose ceiling is below its effect: it would be lowered to it.
    """
    if standing is None:
        return rule
    effect = stronger(rule.effect, standing.effect)
    worse = severity(rule.fault) > severity(standing.fault)
    unanswered = standing.cause == LOST and standing.fault == rule.fault
    changes = effect == rule.effect and (worse or unanswered or standing.effect != effect)
    words_of = rule if changes else standing
    return msgspec.structs.replace(
        words_of, effect=effect, incident=rule.incident, uuid=rule.uuid, uid="", resource_version=""
    )


def _would_wait(case: Case, demand: Demand) -> list[str]:
    """Return what mode enforce would wait for where a milder mode spares devices.

    Pods that are not listed are left out: an incident that opens knows none yet.
    """
    devices = {str(target.name) for target in demand.targets}
    why = drained(case, devices) if demand.goal in EVICTING else ""
    return [f"it would be deferred: {why}"] if why else []


def _rule(case: Case, incident: Incident, fault: Fault, target: Target, effect: Effect) -> Rule:
    return Rule(
        device=target.name,
        effect=effect,
        fault=fault.fault_class,
        cause=fault.cause,
        incident=incident.name,
        uuid=target.uuid,
        gpu=case.uuid,
        node=case.node,
        classes=tuple(sorted(case.place.device_classes)),
    )


def would(demands: tuple[Demand, ...]) -> tuple[WouldTaint, ...]:
    """Return what enforce mode would do to each device that a milder mode spares."""
    spared: dict[str, Effect] = {}
    for demand in demands:
        if demand.row.mode != "enforce" and demand.effect is not None:
            for target in demand.targets:
                name = str(target.name)
                spared[name] = stronger(demand.goal, spared.get(name, demand.goal))
    return tuple(WouldTaint(device, effect) for device, effect in sorted(spared.items()))


def pending(demands: tuple[Demand, ...]) -> bool:
    """Whether enforce mode has not reached its goal; what is only observed has none.

    A pod that is evicted under `Evict` need not be there for the next step.
    """
    return any(
        demand.effect not in (demand.goal, "Evict")
        for demand in demands
        if demand.row.mode == "enforce" and demand.row.ceiling != "observe"
    )


def _evicting(demands: tuple[Demand, ...]) -> list[Demand]:
    return [
        demand for demand in demands if demand.row.mode == "enforce" and demand.effect in EVICTING
    ]


def evicting(demands: tuple[Demand, ...]) -> tuple[Device, ...]:
    """Return the devices whose pods the faults have evicted now."""
    return tuple(
        sorted({target.name for demand in _evicting(demands) for target in demand.targets})
    )


def evict_plan(demands: tuple[Demand, ...]) -> Evict | None:
    """Return how they are evicted: the mildest plan of their classes."""
    plans = [demand.row.evict for demand in _evicting(demands)]
    return mildest_eviction(plans) if plans else None


def notice(demands: tuple[Demand, ...]) -> Notice | None:
    """Return what is to come for pods, at the earliest, once their devices are tainted."""
    rows = [
        demand.row for demand in demands if demand.row.mode == "enforce" and demand.goal in EVICTING
    ]
    if not rows:
        return None
    plan = mildest_eviction([row.evict for row in rows])
    return Notice(settle=min(row.settle for row in rows), plan=plan)


def goal(demands: tuple[Demand, ...]) -> Effect:
    """Return the strongest effect that enforce mode goes for."""
    strongest: Effect = "None"
    for demand in demands:
        if demand.row.mode == "enforce":
            strongest = stronger(strongest, demand.goal)
    return strongest


def leading(demands: tuple[Demand, ...]) -> Demand | None:
    """Return the demand of the worst class."""
    return max(demands, key=lambda demand: severity(demand.fault.fault_class), default=None)


def reason(case: Case, incident: Incident, demands: tuple[Demand, ...]) -> str:
    """Return the reason, from the demand that goes furthest."""
    first = leading(demands)
    parts: list[str] = []
    over = all(demand.effect == demand.goal and demand.goal not in EVICTING for demand in demands)
    if isinstance(case.verdict, Healthy) and over:
        return f"verifying: {case.verdict.evidence}"
    if first is not None and first.row.mode != "enforce":
        parts.append(f"{first.row.mode}: enforce would go up to {first.goal}")
        parts += _would_wait(case, first)
    elif first is not None and not first.targets:
        why = f": {case.unbound}" if case.unbound else ""
        parts.append(UNPUBLISHED if first.fault.instance else f"no published device to taint{why}")
    elif first is not None:
        parts.append(first.reason)
    if isinstance(case.verdict, Healthy):
        parts.append(f"verifying: {case.verdict.evidence}")
    stands = sorted({demand.fault.cause for demand in demands if demand.fault.ended is None})
    if first is not None and first.fault.ended is not None and stands:
        parts.append(f"not untainted while {', '.join(stands)} stands")
    return "; ".join(parts) or f"{incident.status.cause} still stands"
