"""What an incident's status should read, from what is desired and what is stored.

The status is written after the world has followed: rules appear in it with the
UIDs they have in the cluster, and a phase is entered when it is true. Pure.
"""

from datetime import datetime

import msgspec

from remediator.case import Case, Desired
from remediator.fault import Healthy, Unknown, faults_of
from remediator.incident import (
    TIMELINE_LIMIT,
    Condition,
    IncidentStatus,
    Phase,
    PodHold,
    RuleRecord,
    TimelineEntry,
    WouldFence,
)
from remediator.ladder import all_fenced
from remediator.policy import Mode
from remediator.taints import Rule


def status(case: Case, desired: Desired, mode: Mode, now: datetime) -> IncidentStatus:
    """Return the status that the incident of `desired` should have now."""
    story = desired.incident
    if story is None:
        raise ValueError(f"{case.uuid} has no incident to write a status for")
    old, targets = story.status, story.spec.scope.devices
    fenced = all_fenced(case.rules, targets)
    evicting = fenced and all(rule.effect == "NoExecute" for rule in _on(case, desired))
    drained = evicting and not _in_scope(case, desired)
    closed = desired.closing and not case.rules
    phase = _phase(case, desired, fenced=fenced, evicting=evicting, drained=drained)
    new = IncidentStatus(
        phase=phase,
        phase_since=old.phase_since if phase == old.phase and old.phase_since else now,
        mode=mode,
        message=desired.held or desired.reason,
        fenced_at=(old.fenced_at or now) if fenced else None,
        evicting_at=old.evicting_at or (now if evicting else None),
        drained_at=old.drained_at or (now if drained else None),
        healthy_since=case.verdict.since if isinstance(case.verdict, Healthy) else None,
        closed_at=now if closed else None,
        handled_through=_handled_through(case, now) if closed else None,
        conditions=_conditions(case, desired, old.conditions, now),
        rules=tuple(_record(rule) for rule in _on(case, desired)),
        would_fence=_would_fence(desired, mode),
        hit=_in_scope(case, desired),
        evicted=_evicted(case, desired, old),
    )
    return msgspec.structs.replace(new, timeline=_timeline(old, new, desired, now))


def _on(case: Case, desired: Desired) -> tuple[Rule, ...]:
    """Return the stored rules on the devices of the scope."""
    targets = desired.incident.spec.scope.devices if desired.incident else ()
    names = {target.name for target in targets}
    return tuple(sorted((rule for rule in case.rules if rule.device in names), key=_name))


def _name(rule: Rule) -> str:
    return str(rule.device)


def _in_scope(case: Case, desired: Desired) -> tuple[PodHold, ...]:
    targets = desired.incident.spec.scope.devices if desired.incident else ()
    names = {str(target.name) for target in targets}
    return tuple(hold for hold in case.holds if hold.device in names)


def _phase(case: Case, desired: Desired, *, fenced: bool, evicting: bool, drained: bool) -> Phase:
    old: Phase = desired.incident.status.phase if desired.incident else "Suspected"
    if isinstance(case.verdict, Unknown):
        return old
    if desired.closing:
        return "Verifying" if case.rules else "Recovered"
    moving = any(rule.effect == "NoExecute" for rule in desired.rules) and not drained
    if isinstance(case.verdict, Healthy) and not moving and desired.would != "NoExecute":
        return "Verifying"
    if drained:
        return "Verifying" if isinstance(case.verdict, Healthy) else "Drained"
    if evicting:
        return "Evicting"
    return "Fenced" if fenced else "Suspected"


def _handled_through(case: Case, now: datetime) -> datetime:
    return max((fault.last_seen for fault in faults_of(case.verdict)), default=now)


def _record(rule: Rule) -> RuleRecord:
    return RuleRecord(rule.name, rule.uid, str(rule.device), rule.effect)


def _would_fence(desired: Desired, mode: Mode) -> tuple[WouldFence, ...]:
    if mode == "enforce" or desired.would is None or desired.incident is None or desired.closing:
        return ()
    targets = desired.incident.spec.scope.devices
    return tuple(WouldFence(str(target.name), desired.would) for target in targets)


def _evicted(case: Case, desired: Desired, old: IncidentStatus) -> tuple[PodHold, ...]:
    """Return who held a device when it carried NoExecute and holds it no longer."""
    evicting = {str(rule.device) for rule in case.rules if rule.effect == "NoExecute"}
    still = set(_in_scope(case, desired))
    gone = {hold for hold in old.hit if hold.device in evicting and hold not in still and hold.pod}
    return tuple(sorted({*old.evicted, *gone}))


def _conditions(
    case: Case, desired: Desired, old: tuple[Condition, ...], now: datetime
) -> tuple[Condition, ...]:
    unknown = case.verdict.why if isinstance(case.verdict, Unknown) else ""
    found = (("Held", "Budget", desired.held), ("Unknown", "ReportUnusable", unknown))
    stored = {one.type: one for one in old}
    return tuple(
        _condition(kind, reason, message, stored.get(kind), now) for kind, reason, message in found
    )


def _condition(
    kind: str, reason: str, message: str, old: Condition | None, now: datetime
) -> Condition:
    state = "True" if message else "False"
    since = old.last_transition_time if old and old.status == state else now
    return Condition(kind, state, reason if message else "AsExpected", since, message)


def _timeline(
    old: IncidentStatus, new: IncidentStatus, desired: Desired, now: datetime
) -> tuple[TimelineEntry, ...]:
    """Add an entry when the phase or the mode changed, or something began to be held."""
    held_now = bool(desired.held) and desired.held not in {one.text for one in old.timeline[-1:]}
    if old.timeline and not held_now and (new.phase, new.mode) == (old.phase, old.mode):
        return old.timeline
    first = not old.timeline
    text = desired.held or _story_line(new, desired, opening=first)
    return (*old.timeline, TimelineEntry(now, new.phase, text))[-TIMELINE_LIMIT:]


def _story_line(new: IncidentStatus, desired: Desired, *, opening: bool) -> str:
    story = desired.incident
    if opening and story is not None:
        return f"{'; '.join(story.spec.evidence)}. {desired.reason}"
    pods = sorted({f"{hold.namespace}/{hold.pod}" for hold in new.evicted})
    gone = f" Pods moved: {', '.join(pods)}." if new.phase == "Drained" and pods else ""
    return f"{desired.reason}.{gone}"
