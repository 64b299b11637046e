"""What an incident's status should read, from what is desired and what is stored.

The status is written after the world has followed: rules appear in it with the
UIDs they have in the cluster, and a phase is entered when it is true. Its dates
are ours, but for `seenThrough` and `handledThrough`, which are compared with
the node's signals and so keep the node's clock. Pure.
"""

from datetime import datetime

import msgspec

from remediator.decide.case import Case, Desired
from remediator.judge.fault import Healthy, Unknown
from remediator.objects.incident import (
    TIMELINE_LIMIT,
    Condition,
    Incident,
    IncidentStatus,
    PodHold,
    RuleRecord,
    TimelineEntry,
)
from remediator.objects.taints import Rule
from remediator.policy.table import Mode


class _Progress(msgspec.Struct, frozen=True):
    """How far the world has followed what is desired."""

    fenced: bool
    """Every wanted fence is stored."""
    evicting: bool
    """NoExecute is wanted, and stored wherever it is."""
    drained: bool
    """And nobody holds those devices."""


def status(case: Case, desired: Desired, mode: Mode, now: datetime) -> IncidentStatus:
    """Return the status that the incident of `desired` should have now."""
    story = desired.incident
    if story is None:
        raise ValueError(f"{case.uuid} has no incident to write a status for")
    old, done = story.status, _progress(case, desired)
    hit = _holds_in_scope(case, story)
    closed = desired.closing and not case.rules
    phase = _phase(case, desired, old, done)
    new = IncidentStatus(
        phase=phase,
        phase_since=old.phase_since if phase == old.phase and old.phase_since else now,
        mode=mode,
        message=desired.held or desired.reason,
        fenced_at=_fenced_at(case, old, now) if done.fenced else None,
        evicting_at=old.evicting_at or (now if done.evicting else None),
        drained_at=old.drained_at or (now if done.drained else None),
        healthy_since=_healthy_since(case, old, now),
        closed_at=now if closed else None,
        seen_through=desired.seen_through or old.seen_through,
        handled_through=(desired.seen_through or old.seen_through) if closed else None,
        conditions=_conditions(case, desired, old.conditions, now),
        rules=tuple(_record(rule) for rule in sorted(case.rules, key=_device)),
        would_fence=() if desired.closing else desired.would,
        hit=hit,
        evicted=_evicted(case, old, hit),
    )
    return msgspec.structs.replace(new, timeline=_timeline(old, new, desired, now))


def _progress(case: Case, desired: Desired) -> _Progress:
    stored = {rule.device: rule.effect for rule in case.rules}
    fences = {rule.device for rule in desired.rules if rule.effect != "None"}
    moves = {rule.device for rule in desired.rules if rule.effect == "NoExecute"}
    holding = {hold.device for hold in case.holds}
    evicting = bool(moves) and all(stored.get(device) == "NoExecute" for device in moves)
    return _Progress(
        fenced=bool(fences) and all(stored.get(device, "None") != "None" for device in fences),
        evicting=evicting,
        drained=evicting and not any(str(device) in holding for device in moves),
    )


def _fenced_at(case: Case, old: IncidentStatus, now: datetime) -> datetime:
    """Return since when the fence is whole; a rule that is new in it starts the time anew."""
    recorded = {one.uid for one in old.rules if one.effect != "None"}
    new = [one for one in case.rules if one.effect != "None" and one.uid not in recorded]
    return now if new or old.fenced_at is None else old.fenced_at


def _healthy_since(case: Case, old: IncidentStatus, now: datetime) -> datetime | None:
    """Return since when we saw health without a gap; not knowing is a gap."""
    return (old.healthy_since or now) if isinstance(case.verdict, Healthy) else None


def _device(rule: Rule) -> str:
    return str(rule.device)


def _holds_in_scope(case: Case, story: Incident) -> tuple[PodHold, ...]:
    names = {str(target.name) for target in story.spec.scope.devices}
    return tuple(hold for hold in case.holds if hold.device in names)


def _phase(case: Case, desired: Desired, old: IncidentStatus, done: _Progress) -> str:
    if isinstance(case.verdict, Unknown):
        return old.phase
    if desired.closing:
        return "Verifying" if case.rules else "Recovered"
    moving = any(rule.effect == "NoExecute" for rule in desired.rules)
    healthy = isinstance(case.verdict, Healthy)
    if healthy and not desired.pending and (done.drained or not moving):
        return "Verifying"
    if done.evicting:
        return "Drained" if done.drained else "Evicting"
    return "Fenced" if done.fenced else "Suspected"


def _record(rule: Rule) -> RuleRecord:
    return RuleRecord(rule.name, rule.uid, str(rule.device), rule.effect)


def _evicted(case: Case, old: IncidentStatus, hit: tuple[PodHold, ...]) -> tuple[PodHold, ...]:
    """Return who held a device when it carried NoExecute and holds it no longer."""
    evicting = {str(rule.device) for rule in case.rules if rule.effect == "NoExecute"}
    gone = {one for one in old.hit if one.device in evicting and one not in hit and one.pod}
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
    """Add an entry when the phase or the mode changed, or something began to be held.

    The opening is kept whatever comes after it.
    """
    told = old.timeline
    held_now = bool(desired.held) and all(one.text != desired.held for one in told[-1:])
    if told and not held_now and (new.phase, new.mode) == (old.phase, old.mode):
        return told
    entry = TimelineEntry(now, new.phase, desired.held or _line(new, desired, opening=not told))
    return (*told[:1], *told[1:][-(TIMELINE_LIMIT - 2) :], entry)


def _line(new: IncidentStatus, desired: Desired, *, opening: bool) -> str:
    if opening and desired.incident is not None:
        return f"{'; '.join(desired.incident.spec.evidence)}. {desired.reason}"
    pods = sorted({f"{hold.namespace}/{hold.pod}" for hold in new.evicted})
    gone = f" Pods gone: {', '.join(pods)}." if new.phase == "Drained" and pods else ""
    return f"{desired.reason}.{gone}"
