"""One GPU's case into what should be so: its incident and its rules.

Level triggered: everything is computed anew from the verdict, the incident, the
rules and the claims as stored. Each fault asks for itself, by its own row of
the policy and its own scope (`ladder`); a device gets the strongest that any of
them asks for. Promises that hold here:

- An Unknown verdict changes no rule, in either direction.
- Inside one episode severity and effects only rise; only the policy (a lower
  mode or ceiling), verified recovery, another board under the same name, and a
  witness that names the slice take a rule down.
- Recovery is soaked on our own clock, without a gap, and it needs an incident
  that says so: rules without a story get one first.
- A lowered mode takes rules down at once, whatever the verdict.

How much at once is `budget`; in which order, `plan`. Pure.
"""

from datetime import datetime

import msgspec

from exporter.report import ObjectMeta
from remediator.decide.case import Case, Desired
from remediator.decide.ladder import Demand, demand, milder, stronger, together
from remediator.judge.fault import (
    SEVERITY,
    Fault,
    FaultClass,
    Healthy,
    Unknown,
    faults_of,
    most_needed,
    worst,
)
from remediator.judge.scope import displaced, in_words, parts_of
from remediator.objects import incident as words
from remediator.objects.incident import Incident, IncidentSpec, ScopeRecord, Target, WouldFence
from remediator.objects.taints import Effect, Rule
from remediator.policy.table import Policy, Row


def decide(case: Case, policy: Policy, now: datetime) -> Desired:
    """Return what should be so for one GPU."""
    kept = _kept(case, policy)
    faults = _unhandled(case, policy)
    current = _open_incident(case)
    if current is None:
        if not kept and not any(_opens(case, fault, policy, now) for fault in faults):
            return Desired(uuid=case.uuid, reason="nothing to do")
        current = _new_incident(case, kept)
    rows = [(one, policy.row(one.fault_class, case.place)) for one in faults]
    asked = together(case, current, [demand(case, current, one, row, now) for one, row in rows])
    kept = tuple(rule for rule in kept if not _narrowed(case, current, rule, asked))
    story = msgspec.structs.replace(current, spec=_spec(case, current, asked, kept))
    why = _unknown(case, story)
    if why:
        reason = f"unknown, so nothing changes: {why}"
        return Desired(uuid=case.uuid, incident=story, rules=_kept(case, policy), reason=reason)
    verified_at = _verified_at(case, story, policy, now)
    if verified_at is not None and now >= verified_at:
        return Desired(uuid=case.uuid, incident=story, closing=True, reason=_proof(case))
    return _standing(case, story, asked, kept, verified_at)


def class_of(name: str) -> FaultClass:
    """Read a class back from an object; one that this version does not know counts as `gpu`."""
    known: dict[str, FaultClass] = {one: one for one in SEVERITY}
    return known.get(name, "gpu")


def _open_incident(case: Case) -> Incident | None:
    return next((one for one in reversed(case.incidents) if one.open), None)


def _new_incident(case: Case, standing: tuple[Rule, ...]) -> Incident:
    """Begin an episode; for rules that somebody left without a story it starts from them."""
    episode = max((words.episode_of(one.name) for one in case.incidents), default=0) + 1
    meta = ObjectMeta(name=words.incident_name(case.uuid, episode))
    if not standing:
        return Incident(meta, IncidentSpec(case.node, case.uuid, SEVERITY[0]))
    leading = max(standing, key=lambda rule: SEVERITY.index(class_of(rule.fault)))
    spec = IncidentSpec(
        case.node,
        case.uuid,
        leading.fault,
        leading.cause,
        ("rules of ours stand and their incident is gone",),
        ScopeRecord("", tuple(sorted(_target(rule) for rule in standing))),
    )
    return Incident(meta, spec)


def _target(rule: Rule) -> Target:
    return Target(rule.device.driver, rule.device.pool, rule.device.device, rule.uuid)


def _unhandled(case: Case, policy: Policy) -> tuple[Fault, ...]:
    """Return the faults that no closed incident has dealt with, in classes that are not off."""
    ends = [one.status.handled_through for one in case.incidents if not one.open]
    handled = max((end for end in ends if end is not None), default=None)
    return tuple(
        fault
        for fault in faults_of(case.verdict)
        if policy.row(fault.fault_class, case.place).mode != "off"
        and (handled is None or fault.last_seen > handled or fault.ended is None)
    )


def _opens(case: Case, fault: Fault, policy: Policy, now: datetime) -> bool:
    """A fault that stands opens an incident; a contained one, while it is fresh, too.

    Any other that is over is over by the driver's own word.
    """
    fresh = now < fault.last_seen + policy.row(fault.fault_class, case.place).soak
    return fault.ended is None or (fault.fault_class == "contained" and fresh)


def _kept(case: Case, policy: Policy) -> tuple[Rule, ...]:
    """Return the stored rules that may stay, each within what the policy allows its class."""
    proper = [rule for rule in case.rules if not displaced(rule, case.inventory)]
    capped: list[tuple[Rule, Effect | None]] = [
        (rule, _ceiling(policy.row(class_of(rule.fault), case.place))) for rule in proper
    ]
    return tuple(
        msgspec.structs.replace(rule, effect=milder(rule.effect, ceiling))
        for rule, ceiling in capped
        if ceiling is not None
    )


def _ceiling(row: Row) -> Effect | None:
    """Return the strongest effect that a stored rule of a class may keep, None for no rule."""
    ceiling: Effect | None = None if row.ceiling == "observe" else row.ceiling
    if row.mode == "enforce":
        return ceiling
    return "None" if row.mode == "dry-run" and ceiling else None


def _narrowed(case: Case, story: Incident, rule: Rule, asked: tuple[Demand, ...]) -> bool:
    """Whether a later witness has named another slice than the one that this rule fences.

    Only a contained error, and only while nobody was moved.
    """
    contained = {story.spec.fault, rule.fault, *(one.fault.fault_class for one in asked)}
    wanted = {target.name for one in asked for target in one.targets}
    published = any(one.device == rule.device and one.uuid for one in case.inventory)
    mild = rule.effect != "NoExecute" and contained == {"contained"}
    return mild and published and bool(asked) and rule.device not in wanted


def _spec(
    case: Case, current: Incident, asked: tuple[Demand, ...], kept: tuple[Rule, ...]
) -> IncidentSpec:
    """Return the story so far: class and evidence only grow, the scope follows the evidence."""
    if not asked:
        return current.spec
    faults = tuple(one.fault for one in asked)
    fault_class = worst((class_of(current.spec.fault), *(one.fault_class for one in faults)))
    targets = {target for one in asked for target in one.targets}
    targets |= {_target(rule) for rule in kept}
    targets |= _unpublished(case, current)
    found = tuple(sorted(targets))
    mine = parts_of(case.gpu, case.inventory) if case.gpu else []
    return msgspec.structs.replace(
        current.spec,
        fault=fault_class,
        cause=_cause(current.spec, faults, fault_class),
        evidence=tuple(dict.fromkeys(one.evidence for one in faults)),
        scope=ScopeRecord(in_words(found, mine), found) if case.gpu else current.spec.scope,
    )


def _unpublished(case: Case, current: Incident) -> set[Target]:
    """Return what was in scope and is not published, or not under its UUID, now."""
    known = {one.device for one in case.inventory if one.uuid is not None}
    return {one for one in current.spec.scope.devices if one.name not in known}


def _cause(spec: IncidentSpec, faults: tuple[Fault, ...], fault_class: FaultClass) -> str:
    """Return the signal that names the incident; once chosen it stays while its class leads."""
    leading = {one.cause: one for one in faults if one.fault_class == fault_class}
    if not leading or (spec.fault == fault_class and spec.cause in leading):
        return spec.cause
    return max(leading.values(), key=_telling).cause


def _telling(fault: Fault) -> tuple[bool, bool, datetime]:
    """Order faults by how well they name an incident."""
    return fault.certain, fault.xid is not None, fault.last_seen


def _unknown(case: Case, story: Incident) -> str:
    if isinstance(case.verdict, Unknown):
        return case.verdict.why
    remap = case.gpu.memory.remap_failure if case.gpu else None
    if isinstance(case.verdict, Healthy) and story.spec.fault == "memory" and remap is None:
        return "whether rows can be remapped could not be read"
    return ""


def _verified_at(case: Case, story: Incident, policy: Policy, now: datetime) -> datetime | None:
    """Return when recovery will have held for the soak time, None while health is not recorded.

    It counts from when we recorded health, without a gap; a younger date of the
    node counts too, unless the node's clock is ahead of ours.
    """
    recorded = story.status.healthy_since
    if not isinstance(case.verdict, Healthy) or recorded is None:
        return None
    soak = policy.row(class_of(story.spec.fault), case.place).soak
    claimed = case.verdict.since
    return (max(recorded, claimed) if claimed <= now else recorded) + soak


def _proof(case: Case) -> str:
    evidence = case.verdict.evidence if isinstance(case.verdict, Healthy) else ""
    return f"recovery verified: {evidence}, for the whole soak time"


def _standing(
    case: Case,
    story: Incident,
    asked: tuple[Demand, ...],
    kept: tuple[Rule, ...],
    verified_at: datetime | None,
) -> Desired:
    wakes = [one.wake_at for one in asked if one.wake_at] + ([verified_at] if verified_at else [])
    enforced = [one for one in asked if one.row.mode == "enforce"]
    seen = [one.fault.last_seen for one in asked]
    return Desired(
        uuid=case.uuid,
        incident=story,
        rules=_rules(case, story, asked, kept),
        would=_would(asked),
        pending=any(one.effect != one.goal for one in enforced),
        seen_through=max(seen, default=story.status.seen_through),
        wake_at=min(wakes, default=None),
        reason=_reason(case, story, asked),
        needs=most_needed(one.fault.needs for one in asked),
    )


def _rules(
    case: Case, story: Incident, asked: tuple[Demand, ...], kept: tuple[Rule, ...]
) -> tuple[Rule, ...]:
    """Return the strongest of what is asked for each device and of what stands on it."""
    held = {hold.device for hold in case.holds}
    wanted = {rule.device: rule for rule in kept}
    for one in sorted(asked, key=_by_class):
        for target in one.targets:
            effect = _effect(one, allocated=str(target.name) in held)
            if effect is not None:
                rule = _rule(case, story, one.fault, target, effect)
                wanted[target.name] = _joined(rule, wanted.get(target.name))
    return tuple(wanted[device] for device in sorted(wanted))


def _by_class(asked: Demand) -> tuple[int, bool]:
    """Order demands from the mildest class; among equals an XID speaks first."""
    return SEVERITY.index(asked.fault.fault_class), asked.fault.xid is None


def _effect(asked: Demand, *, allocated: bool) -> Effect | None:
    if asked.row.mode == "enforce":
        return asked.effect
    return "None" if asked.row.mode == "dry-run" and allocated else None


def _joined(rule: Rule, standing: Rule | None) -> Rule:
    """Return one rule for a device; what stands keeps its words unless a worse class speaks."""
    if standing is None:
        return rule
    effect = stronger(rule.effect, standing.effect)
    ranks = [SEVERITY.index(class_of(one.fault)) for one in (rule, standing)]
    words_of = rule if ranks[0] > ranks[1] or standing.effect == "None" else standing
    return msgspec.structs.replace(
        words_of, effect=effect, incident=rule.incident, uuid=rule.uuid, uid="", resource_version=""
    )


def _rule(case: Case, story: Incident, fault: Fault, target: Target, effect: Effect) -> Rule:
    return Rule(
        device=target.name,
        effect=effect,
        fault=fault.fault_class,
        cause=fault.cause,
        incident=story.name,
        uuid=target.uuid,
        gpu=case.uuid,
        node=case.node,
    )


def _would(asked: tuple[Demand, ...]) -> tuple[WouldFence, ...]:
    """Return what enforce mode would do to each device that a milder mode spares."""
    spared: dict[str, Effect] = {}
    for one in asked:
        if one.row.mode != "enforce" and one.effect is not None:
            for target in one.targets:
                name = str(target.name)
                spared[name] = stronger(one.goal, spared.get(name, one.goal))
    return tuple(WouldFence(device, effect) for device, effect in sorted(spared.items()))


def _reason(case: Case, story: Incident, asked: tuple[Demand, ...]) -> str:
    """Say why, by the demand that goes furthest."""
    leading = max(asked, key=lambda one: SEVERITY.index(one.fault.fault_class), default=None)
    parts: list[str] = []
    over = all(one.effect == one.goal != "NoExecute" for one in asked)
    if isinstance(case.verdict, Healthy) and over:
        return f"verifying: {case.verdict.evidence}"
    if leading is not None and leading.row.mode != "enforce":
        parts.append(f"{leading.row.mode}: enforce would go up to {leading.goal}")
    elif leading is not None and not leading.targets:
        parts.append("no published device to fence")
    elif leading is not None:
        parts.append(leading.reason)
    if isinstance(case.verdict, Healthy):
        parts.append(f"verifying: {case.verdict.evidence}")
    return "; ".join(parts) or f"{story.spec.cause} still stands"
