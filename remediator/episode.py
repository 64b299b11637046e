"""One GPU's case into what should be so: its incident and its rules.

Level triggered: everything is computed anew from the verdict, the incident, the
rules and the claims as stored. Three promises hold here:

- An Unknown verdict changes no rule, in either direction.
- Inside one episode severity and effects only rise; only the policy (a lower
  mode or ceiling) and verified recovery take them down.
- A lowered mode takes rules down at once, whatever the verdict.

How far a story may go now is `ladder`; how much at once, `budget`; in which
order, `plan`. Pure.
"""

from datetime import datetime

import msgspec

from exporter.device import Device
from exporter.report import ObjectMeta
from remediator import incident as words
from remediator.case import Case, Desired
from remediator.fault import SEVERITY, Fault, FaultClass, Healthy, Unknown, faults_of, worst
from remediator.incident import Incident, IncidentSpec, ScopeRecord, Target
from remediator.ladder import doubt_of, milder, rung, stronger
from remediator.policy import Policy, Row
from remediator.scope import scope
from remediator.taints import Effect, Rule


def decide(case: Case, policy: Policy, now: datetime) -> Desired:
    """Return what should be so for one GPU."""
    current = _open_incident(case)
    faults = _unhandled(case, policy)
    if current is None:
        if not any(_opens(fault, policy, now) for fault in faults):
            kept = _without_story(case, policy)
            return Desired(uuid=case.uuid, rules=kept, reason="nothing to do")
        current = _new_incident(case)
    story = msgspec.structs.replace(current, spec=_spec(case, current, faults))
    if isinstance(case.verdict, Unknown):
        why = f"unknown, so nothing changes: {case.verdict.why}"
        return Desired(uuid=case.uuid, incident=story, rules=_kept(case, policy), reason=why)
    soak = policy.row(class_of(story.spec.fault)).soak
    if isinstance(case.verdict, Healthy) and now >= case.verdict.since + soak:
        why = f"{case.verdict.evidence} since {_clock(case.verdict.since)}: recovery verified"
        return Desired(uuid=case.uuid, incident=story, closing=True, reason=why)
    return _standing(case, story, policy, faults, now)


def class_of(name: str) -> FaultClass:
    """Read a class back from an object; one that this version does not know counts as `gpu`."""
    known: dict[str, FaultClass] = {one: one for one in SEVERITY}
    return known.get(name, "gpu")


def _open_incident(case: Case) -> Incident | None:
    return next((one for one in reversed(case.incidents) if one.open), None)


def _new_incident(case: Case) -> Incident:
    episode = max((words.episode_of(one.name) for one in case.incidents), default=0) + 1
    name = words.incident_name(case.uuid, episode)
    return Incident(ObjectMeta(name=name), IncidentSpec(case.node, case.uuid, SEVERITY[0]))


def _unhandled(case: Case, policy: Policy) -> tuple[Fault, ...]:
    """Return the faults that no closed incident has dealt with, in classes that are not off."""
    ends = [one.status.handled_through for one in case.incidents if not one.open]
    handled = max((end for end in ends if end is not None), default=None)
    return tuple(
        fault
        for fault in faults_of(case.verdict)
        if policy.row(fault.fault_class).mode != "off"
        and (handled is None or fault.last_seen > handled or fault.ended is None)
    )


def _opens(fault: Fault, policy: Policy, now: datetime) -> bool:
    """A fault that stands opens an incident; one that is over does so only while it is fresh."""
    return fault.ended is None or now < fault.last_seen + policy.row(fault.fault_class).soak


def _without_story(case: Case, policy: Policy) -> tuple[Rule, ...]:
    """Rules whose incident is closed or gone stay until there is evidence of health."""
    return () if isinstance(case.verdict, Healthy) else _kept(case, policy)


def _kept(case: Case, policy: Policy) -> tuple[Rule, ...]:
    """Return the stored rules as they are, but for what the policy no longer allows."""
    rows = [(rule, policy.row(class_of(rule.fault))) for rule in case.rules]
    return tuple(_capped(rule, row) for rule, row in rows if _may_stand(row))


def _may_stand(row: Row) -> bool:
    return row.mode in ("dry-run", "enforce")


def _capped(rule: Rule, row: Row) -> Rule:
    ceiling: Effect = "None" if row.mode == "dry-run" else row.ceiling
    return msgspec.structs.replace(rule, effect=milder(rule.effect, ceiling))


def _spec(case: Case, current: Incident, faults: tuple[Fault, ...]) -> IncidentSpec:
    """Return the story so far: class and evidence only grow, the scope follows the evidence."""
    if not faults:
        return current.spec
    fault_class = worst((class_of(current.spec.fault), *(one.fault_class for one in faults)))
    return msgspec.structs.replace(
        current.spec,
        fault=fault_class,
        cause=_cause(current.spec, faults, fault_class),
        evidence=tuple(dict.fromkeys(one.evidence for one in faults)),
        scope=_scope(case, current, faults),
    )


def _cause(spec: IncidentSpec, faults: tuple[Fault, ...], fault_class: FaultClass) -> str:
    """Return the signal that names the incident; once chosen it stays while its class leads."""
    leading = {one.cause: one for one in faults if one.fault_class == fault_class}
    if not leading or (spec.fault == fault_class and spec.cause in leading):
        return spec.cause
    return max(leading.values(), key=lambda one: (one.certain, one.last_seen)).cause


def _scope(case: Case, current: Incident, faults: tuple[Fault, ...]) -> ScopeRecord:
    """Return the devices in scope; one that is not published at all now stays in."""
    if case.gpu is None:
        return current.spec.scope
    found = scope(faults, case.gpu, case.inventory, case.node)
    published = {one.device for one in case.inventory}
    missing = [one for one in current.spec.scope.devices if one.name not in published]
    if missing and not found.targets:
        return current.spec.scope
    return ScopeRecord(found.kind, found.summary, tuple(sorted({*found.targets, *missing})))


def _standing(
    case: Case, story: Incident, policy: Policy, faults: tuple[Fault, ...], now: datetime
) -> Desired:
    row = policy.row(class_of(story.spec.fault))
    doubt = doubt_of(case, story, faults)
    stand = rung(case, story, row, doubt, now)
    reason, wake_at = stand.reason, stand.wake_at
    if isinstance(case.verdict, Healthy):
        verified_at = case.verdict.since + row.soak
        wake_at = min(verified_at, wake_at) if wake_at else verified_at
        if stand.effect != "NoExecute":
            reason = f"{stand.reason}; {case.verdict.evidence}, verifying"
    return Desired(
        uuid=case.uuid,
        incident=story,
        rules=_wanted(case, story, row, stand.effect) if _may_stand(row) else _kept(case, policy),
        would=milder("NoSchedule" if doubt else "NoExecute", row.ceiling) if stand.effect else None,
        wake_at=wake_at,
        reason=reason,
    )


def _wanted(case: Case, story: Incident, row: Row, effect: Effect | None) -> tuple[Rule, ...]:
    targets = story.spec.scope.devices
    if row.mode == "dry-run":
        held = {hold.device for hold in case.holds}
        return tuple(_rule(case, story, one, "None") for one in targets if str(one.name) in held)
    stored: dict[Device, Effect] = {rule.device: rule.effect for rule in case.rules}
    wanted: list[Rule] = []
    for target in targets:
        standing = stored.get(target.name)
        reached = effect if standing is None else stronger(effect or standing, standing)
        if reached is not None:
            wanted.append(_rule(case, story, target, milder(reached, row.ceiling)))
    return tuple(wanted)


def _rule(case: Case, story: Incident, target: Target, effect: Effect) -> Rule:
    return Rule(
        device=target.name,
        effect=effect,
        fault=story.spec.fault,
        cause=story.spec.cause,
        incident=story.name,
        uuid=target.uuid,
        gpu=case.uuid,
        node=case.node,
    )


def _clock(time: datetime) -> str:
    return time.strftime("%H:%M:%S UTC")
