"""Demands of the faults of one GPU into rules, and into the reason for them. Pure."""

import msgspec

from exporter.model.device import Device
from remediator.diagnose.fault import Fault, Healthy, weight
from remediator.model.incident import Incident, Target, WouldTaint
from remediator.model.taint_rule import EVICTING, LOST, Effect, Rule
from remediator.plan.case import Case, Notice
from remediator.plan.escalation import UNPUBLISHED, Demand, stronger
from remediator.plan.words import severity
from remediator.policy.table import Evict, mildest_eviction


def rules(
    case: Case,
    incident: Incident,
    asked: tuple[Demand, ...],
    kept: tuple[Rule, ...],
) -> tuple[Rule, ...]:
    """Return the strongest of what is asked for each device and of what stands on it.

    What stands is told under the incident that leads.
    """
    held = {hold.device for hold in case.holds}
    wanted = {rule.device: msgspec.structs.replace(rule, incident=incident.name) for rule in kept}
    for demand in sorted(asked, key=_by_class):
        for target in demand.targets:
            effect = _effect(demand, allocated=str(target.name) in held)
            if effect is not None:
                rule = _rule(case, incident, demand.fault, target, effect)
                wanted[target.name] = _joined(rule, wanted.get(target.name))
    return tuple(wanted[device] for device in sorted(wanted))


def _by_class(asked: Demand) -> tuple[object, ...]:
    """Order demands from the mildest class; among equals as an incident is named (`weight`)."""
    return severity(asked.fault.fault_class), *weight(asked.fault)[1:]


def _effect(asked: Demand, *, allocated: bool) -> Effect | None:
    if asked.row.mode == "enforce":
        return asked.effect
    shown = asked.row.mode == "dry-run" and asked.row.ceiling != "observe"
    return "None" if shown and allocated else None


def _joined(rule: Rule, standing: Rule | None) -> Rule:
    """Return one rule for a device, in the words of who asks for the strongest effect.

    Among equals what stands keeps its words, if it has any, unless a worse class speaks.
    A rule must not say a class whose ceiling is below its effect: it would be lowered to it.
    """
    if standing is None:
        return rule
    effect = stronger(rule.effect, standing.effect)
    worse = severity(rule.fault) > severity(standing.fault)
    silent = standing.cause == LOST and standing.fault == rule.fault
    asks = effect == rule.effect and (worse or silent or standing.effect != effect)
    words_of = rule if asks else standing
    return msgspec.structs.replace(
        words_of, effect=effect, incident=rule.incident, uuid=rule.uuid, uid="", resource_version=""
    )


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


def would(asked: tuple[Demand, ...]) -> tuple[WouldTaint, ...]:
    """Return what enforce mode would do to each device that a milder mode spares."""
    spared: dict[str, Effect] = {}
    for demand in asked:
        if demand.row.mode != "enforce" and demand.effect is not None:
            for target in demand.targets:
                name = str(target.name)
                spared[name] = stronger(demand.goal, spared.get(name, demand.goal))
    return tuple(WouldTaint(device, effect) for device, effect in sorted(spared.items()))


def pending(asked: tuple[Demand, ...]) -> bool:
    """Whether enforce mode has not reached its goal; what is only observed has none.

    Who is evicted under `Evict` need not be there for what would follow.
    """
    return any(
        demand.effect not in (demand.goal, "Evict")
        for demand in asked
        if demand.row.mode == "enforce" and demand.row.ceiling != "observe"
    )


def _evicting(asked: tuple[Demand, ...]) -> list[Demand]:
    return [
        demand for demand in asked if demand.row.mode == "enforce" and demand.effect in EVICTING
    ]


def evicting(asked: tuple[Demand, ...]) -> tuple[Device, ...]:
    """Return the devices for which a fault asks now that their pods are evicted."""
    return tuple(sorted({target.name for demand in _evicting(asked) for target in demand.targets}))


def evict_plan(asked: tuple[Demand, ...]) -> Evict | None:
    """Return how they are evicted: the mildest of what their classes say."""
    plans = [demand.row.evict for demand in _evicting(asked)]
    return mildest_eviction(plans) if plans else None


def notice(asked: tuple[Demand, ...]) -> Notice | None:
    """Return what is to come for pods, at the earliest, once their devices are tainted."""
    rows = [
        demand.row for demand in asked if demand.row.mode == "enforce" and demand.goal in EVICTING
    ]
    if not rows:
        return None
    plan = mildest_eviction([row.evict for row in rows])
    return Notice(settle=min(row.settle for row in rows), plan=plan)


def goal(asked: tuple[Demand, ...]) -> Effect:
    """Return the strongest effect that enforce mode goes for."""
    strongest: Effect = "None"
    for demand in asked:
        if demand.row.mode == "enforce":
            strongest = stronger(strongest, demand.goal)
    return strongest


def leading(asked: tuple[Demand, ...]) -> Demand | None:
    """Return the demand of the worst class."""
    return max(asked, key=lambda demand: severity(demand.fault.fault_class), default=None)


def reason(case: Case, incident: Incident, asked: tuple[Demand, ...]) -> str:
    """Say why, by the demand that goes furthest."""
    first = leading(asked)
    parts: list[str] = []
    over = all(demand.effect == demand.goal and demand.goal not in EVICTING for demand in asked)
    if isinstance(case.verdict, Healthy) and over:
        return f"verifying: {case.verdict.evidence}"
    if first is not None and first.row.mode != "enforce":
        parts.append(f"{first.row.mode}: enforce would go up to {first.goal}")
    elif first is not None and not first.targets:
        why = f": {case.unbound}" if case.unbound else ""
        parts.append(UNPUBLISHED if first.fault.instance else f"no published device to taint{why}")
    elif first is not None:
        parts.append(first.reason)
    if isinstance(case.verdict, Healthy):
        parts.append(f"verifying: {case.verdict.evidence}")
    stands = sorted({demand.fault.cause for demand in asked if demand.fault.ended is None})
    if first is not None and first.fault.ended is not None and stands:
        parts.append(f"not untainted while {', '.join(stands)} stands")
    return "; ".join(parts) or f"{incident.status.cause} still stands"
