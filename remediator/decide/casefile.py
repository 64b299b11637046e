"""What an incident's status should read, from what is desired and what is stored.

The status is written after the world has followed: rules appear in it with the
UIDs they have in the cluster, and a phase is entered when it is true. Its dates
are ours, but for `seenThrough` and `handledThrough`, which are compared with
the node's signals and so keep the node's clock. Pure.
"""

from datetime import datetime

import msgspec

from remediator.decide import person
from remediator.decide.case import Case, Desired
from remediator.decide.emptiness import empty_since, holds_in_scope
from remediator.decide.foreign import in_words
from remediator.decide.ladder import AWAITING
from remediator.decide.phase import phase, progress
from remediator.decide.recovery import errors_rose
from remediator.decide.timeline import kernel, timeline
from remediator.judge.fault import Healthy, Unknown
from remediator.judge.surroundings import NEAR
from remediator.objects.incident import (
    INFORMED_LIMIT,
    PODS_LIMIT,
    Condition,
    Incident,
    IncidentStatus,
    PodHold,
    RuleRecord,
    TimelineEntry,
)
from remediator.objects.taints import Rule
from remediator.policy.table import Mode


def status(case: Case, desired: Desired, mode: Mode, now: datetime) -> IncidentStatus:
    """Return what the incident should read now, but for `needs_since`: `handover` says that."""
    story = desired.incident
    if story is None:
        raise ValueError(f"{case.uuid} has no incident to write a status for")
    old, done = story.status, progress(case, desired, story.status, now)
    closed = bool(desired.closing or desired.ending) and not case.rules
    stands = phase(case, desired, old, done)
    spared = old.would_fence if isinstance(case.verdict, Unknown) else desired.would
    new = IncidentStatus(
        phase=stands,
        phase_since=old.phase_since if stands == old.phase and old.phase_since else now,
        mode=mode,
        message=desired.held or desired.reason,
        fenced_at=_fenced_at(case, old, now, fenced=done.fenced),
        evicting_at=old.evicting_at or (now if done.evicting else None),
        drained_at=old.drained_at or (now if done.drained else None),
        closed_at=now if closed else None,
        seen_through=desired.seen_through or old.seen_through,
        handled_through=(desired.seen_through or old.seen_through) if closed else None,
        conditions=_conditions(case, desired, old.conditions, now),
        rules=tuple(_record(rule) for rule in sorted(case.rules, key=_device)),
        would_fence=() if closed or desired.closing else spared,
        informed=case.peers[:INFORMED_LIMIT],
        foreign=in_words(case),
        needs=desired.needs,
        device_classes=tuple(sorted(case.place.device_classes)),
        recurrence=desired.recurrence,
        sticky=desired.sticky,
        empty_since=empty_since(case, desired, story, now),
        node_gone_since=(old.node_gone_since or now) if case.node_gone else None,
        deleted_rules=desired.deleted,
        probation_until=now + desired.probation if closed and desired.closing else None,
        answers=desired.answers,
    )
    new = _pods(case, new, old, story)
    new = _soak(case, new, old, now)
    new = _opening(case, desired, new, old)
    return msgspec.structs.replace(new, timeline=timeline(old, new, desired, now))


def duplicate(one: Incident, leading: Incident, now: datetime) -> IncidentStatus:
    """Return how a younger open incident of a GPU is closed in favour of the one that leads."""
    why = f"{leading.name} is the older incident of this GPU and tells the story"
    return msgspec.structs.replace(
        one.status,
        phase="Closed",
        phase_since=now,
        message=why,
        rules=(),
        closed_at=now,
        duplicate_of=leading.name,
        timeline=(*one.status.timeline, TimelineEntry(now, "Closed", why)),
    )


def undecided(old: IncidentStatus, why: str, now: datetime) -> IncidentStatus:
    """Return how an incident reads about whose GPU nothing is decided: as before, and why.

    Health that was seen until now has a gap. Words that differ in figures only are not news.
    """
    known = next((one for one in old.conditions if one.type == "Unknown"), None)
    said = known.message if known and kernel(known.message) == kernel(why) else why
    condition = _condition("Unknown", "ReportUnusable", said, known, now)
    others = (one for one in old.conditions if one.type != "Unknown")
    return msgspec.structs.replace(
        old, message=said, healthy_since=None, conditions=(*others, condition)
    )


def removing(status: IncidentStatus, uids: frozenset[str]) -> IncidentStatus:
    """Return a status that says beforehand which rules we take away.

    Without it a rule that is gone after a crash would look as if a person had
    taken it, and would not be made again for a day.
    """
    marked = tuple(
        msgspec.structs.replace(one, leaving=True) if one.uid in uids else one
        for one in status.rules
    )
    return msgspec.structs.replace(status, rules=marked)


def _fenced_at(case: Case, old: IncidentStatus, now: datetime, *, fenced: bool) -> datetime | None:
    """Return since when the fence is whole; a rule that is new in it starts the time anew.

    Once all rules are gone it says since when it was: rates count that (`spending`).
    """
    if not fenced:
        return None if case.rules else old.fenced_at
    recorded = {one.uid for one in old.rules if one.effect != "None"}
    new = [one for one in case.rules if one.effect != "None" and one.uid not in recorded]
    return now if new or old.fenced_at is None else old.fenced_at


def _soak(case: Case, new: IncidentStatus, old: IncidentStatus, now: datetime) -> IncidentStatus:
    """Note since when we saw health without a gap, and the memory errors counted then.

    Not knowing is a gap, and so is an error more, or a signal that is new to us,
    whatever its date.
    """
    if not isinstance(case.verdict, Healthy):
        return new
    quiet = new.seen_through == old.seen_through and not errors_rose(case, old)
    goes_on = old.healthy_since is not None and quiet
    memory = case.gpu.memory if case.gpu else None
    volatile = memory.dbe_volatile if memory else None
    aggregate = memory.dbe_aggregate if memory else None
    if goes_on and old.soak_dbe_volatile is not None:
        volatile = old.soak_dbe_volatile
    if goes_on and old.soak_dbe_aggregate is not None:
        aggregate = old.soak_dbe_aggregate
    return msgspec.structs.replace(
        new,
        healthy_since=old.healthy_since if goes_on else now,
        soak_dbe_volatile=volatile,
        soak_dbe_aggregate=aggregate,
    )


def _opening(
    case: Case, desired: Desired, new: IncidentStatus, old: IncidentStatus
) -> IncidentStatus:
    """Note boot and epoch of the last new signal, as soon as they are known, and its slices."""
    signal = new.seen_through is not None and new.seen_through != old.seen_through
    epoch = case.gpu.epoch if case.gpu else 0
    return msgspec.structs.replace(
        new,
        opened_boot_id=(case.boot_id if signal else "") or old.opened_boot_id or case.boot_id,
        opened_epoch=(epoch if signal else 0) or old.opened_epoch or epoch,
        placed=desired.placed,
    )


def _device(rule: Rule) -> str:
    return str(rule.device)


def _record(rule: Rule) -> RuleRecord:
    return RuleRecord(rule.name, rule.uid, str(rule.device), rule.effect)


def _pods(case: Case, new: IncidentStatus, old: IncidentStatus, story: Incident) -> IncidentStatus:
    """Note who is hit, and who held a device when it carried NoExecute and holds it no longer."""
    hit = holds_in_scope(case, story)
    holding = {_hold(one) for one in case.holds}
    evicting = {str(rule.device) for rule in case.rules if rule.effect == "NoExecute"}
    known = {_hold(one) for one in old.evicted}
    gone = [
        one
        for one in old.hit
        if one.pod and one.via != "gang" and one.device in evicting and _hold(one) not in holding
    ]
    evicted = tuple(sorted({*old.evicted, *(one for one in gone if _hold(one) not in known)}))
    return msgspec.structs.replace(
        new,
        hit=hit[:PODS_LIMIT],
        hit_left_out=max(len(hit) - PODS_LIMIT, 0),
        evicted=evicted[:PODS_LIMIT],
        evicted_left_out=old.evicted_left_out + max(len(evicted) - PODS_LIMIT, 0),
    )


def _hold(one: PodHold) -> tuple[str, str, str, str, str]:
    return (one.namespace, one.pod, one.uid, one.claim, one.device)


def _conditions(
    case: Case, desired: Desired, old: tuple[Condition, ...], now: datetime
) -> tuple[Condition, ...]:
    unknown = case.verdict.why if isinstance(case.verdict, Unknown) else ""
    found = (
        ("Held", desired.held_by, desired.held),
        ("Unknown", "ReportUnusable", unknown),
        ("NeedsHuman", "Sticky", desired.person),
        ("AnswerUnreadable", "BadAnnotation", person.errors(desired.answers)),
        (AWAITING, "Doubtful", _awaited(desired, old, now)),
    )
    stored = {one.type: one for one in old}
    return tuple(
        _condition(kind, reason, message, stored.get(kind), now) for kind, reason, message in found
    )


def _awaited(desired: Desired, old: tuple[Condition, ...], now: datetime) -> str:
    """Return what is waited for, or was within the last minute.

    So a fault that comes and goes does not begin to wait anew each time.
    """
    if desired.awaits or desired.closing or desired.ending:
        return desired.awaits
    began = [one for one in old if one.type == AWAITING and one.status == "True"]
    return next((one.message for one in began if now - one.last_transition_time <= NEAR), "")


def _condition(
    kind: str, reason: str, message: str, old: Condition | None, now: datetime
) -> Condition:
    state = "True" if message else "False"
    since = old.last_transition_time if old and old.status == state else now
    return Condition(kind, state, reason if message else "AsExpected", since, message)
