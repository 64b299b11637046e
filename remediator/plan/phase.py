"""The phase of an incident, by what is true and never by what is only desired; and its timeline.

The timeline has one entry for each change, never two for the same; the opening is kept whatever
comes after it.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from remediator.diagnose.fault import Healthy, Unknown
from remediator.model.incident_status import TIMELINE_LIMIT, IncidentStatus, Phase, TimelineEntry
from remediator.model.taint_rule import EFFECTS, EVICTING
from remediator.plan import overrides
from remediator.plan.board import Board
from remediator.plan.pods import seen_twice
from remediator.plan.stages import Planned
from remediator.plan.words import ordinal, some

KERNEL = 1024
"""Characters by which two sentences are compared: fewer than any of them is cut to."""
NAMED = 5
"""Pods that one line names; the status lists them all."""


def timeline(
    old: IncidentStatus, new: IncidentStatus, planned: Planned, now: datetime
) -> tuple[TimelineEntry, ...]:
    """Return the stored entries and those for what has changed."""
    fresh = tuple(TimelineEntry(now, new.phase, text) for text in _changes(old, new, planned))
    entries = (*old.timeline, *fresh)
    if len(entries) <= TIMELINE_LIMIT:
        return entries
    return (entries[0], *entries[1 - TIMELINE_LIMIT :])


def _changes(old: IncidentStatus, new: IncidentStatus, planned: Planned) -> Iterator[str]:
    opening = not old.timeline
    if opening or (new.phase, new.policy.mode) != (old.phase, old.policy.mode):
        # What is deferred has a line of its own, below.
        decided, done = planned.course.reason, _what_was_done(old, new)
        seen = _what_was_seen(planned, opening=opening)
        yield f"seen: {seen}; decided: {decided}; done: {done}; {_row(planned)}"
    held = next(
        (condition.message for condition in old.conditions if condition.type == "Deferred"), ""
    )
    deferred = planned.granted.deferred
    # The rest changes with each decision, such as how much of a budget is used: the same deferral
    # must not fill the timeline.
    if deferred and kernel(deferred) != kernel(held):
        seen = _what_was_seen(planned, opening=False)
        yield f"seen: {seen}; decided: {deferred}; {_row(planned)}"
    if new.history.recurrence > 1 and new.history.recurrence != old.history.recurrence:
        count = ordinal(new.history.recurrence)
        yield f"seen: {count} incident of the GPU that counts; {_row(planned)}"
    # Those that are read later have their lines already.
    for record in new.policy.intents if opening else ():
        yield overrides.in_words(record)


def kernel(text: str) -> str:
    """Return what is held and by what, without the figures of the moment behind it."""
    return text.partition(" (")[0][:KERNEL]


def _what_was_seen(planned: Planned, *, opening: bool) -> str:
    if planned.incident is None:
        return "nothing"
    found = planned.incident.status
    return (
        "; ".join(found.fault.evidence)
        if opening and found.fault.evidence
        else found.fault.cause or "nothing"
    )


def _row(planned: Planned) -> str:
    return f"row {planned.record.row}" if planned.record.row else "no row"


def _what_was_done(old: IncidentStatus, new: IncidentStatus) -> str:
    """Return which rules are new, changed or gone, and which pods."""
    before = {rule.uid: rule.effect for rule in old.scope.rules}
    after = {rule.uid for rule in new.scope.rules}
    changed = [rule.effect for rule in new.scope.rules if before.get(rule.uid) != rule.effect]
    parts = [
        f"{effect} on {number} device{'s' if number > 1 else ''}"
        for effect in EFFECTS
        if (number := changed.count(effect))
    ]
    if uids := before.keys() - after:
        parts.append(f"{len(uids)} rule{'s' if len(uids) > 1 else ''} deleted")
    # Pods are named once the devices are empty.
    if new.phase == "Drained" and old.phase != "Drained":
        pods = sorted({f"{pod.namespace}/{pod.pod}" for pod in new.eviction.evicted})
        parts += [f"pods gone: {some(pods, NAMED)}"] if pods else []
    return ", ".join(parts) or "nothing"


class Progress(msgspec.Struct, frozen=True):
    """How far the cluster has followed what is desired."""

    tainted: bool
    """Every desired taint is stored."""
    evicting: bool
    """Pods are evicted wherever that is desired: by NoExecute, or by the Eviction API."""
    empty: bool
    """No pod uses the devices: seen twice."""

    @property
    def drained(self) -> bool:
        return self.tainted and self.empty


def progress(board: Board, planned: Planned, old: IncidentStatus, now: datetime) -> Progress:
    stored = {rule.device: rule.effect for rule in board.rules.stored}
    taints = {rule.device for rule in planned.rules if rule.effect != "None"}
    moves = planned.granted.emptying
    return Progress(
        tainted=bool(taints) and all(stored.get(device, "None") != "None" for device in taints),
        evicting=bool(moves) and all(stored.get(device) in EVICTING for device in moves),
        empty=seen_twice(old, now),
    )


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of an incident, as far as a phase depends on it."""

    ruled: bool
    """A rule of ours stands."""
    ended: bool
    """It ends without verified recovery."""
    verified: bool
    """Recovery is verified, and nothing else is waited for."""
    repairing: bool
    """A repair of the GPU is under way, and no pod is in its way."""
    unknown: bool
    healthy: bool
    human: bool
    """Nothing but a user takes it further."""
    unreported: bool
    """Of what is tainted no source will report the end."""
    settled: bool
    """Nothing more is to be tainted, and no pod to be evicted."""
    done: Progress


ROWS: tuple[tuple[Phase, str, Callable[[Facts], bool]], ...] = (
    (
        "Closed",
        "it ended without verified recovery and no rule is left; the message has the reason",
        lambda facts: facts.ended and not facts.ruled,
    ),
    (
        "Recovered",
        "recovery was verified and no rule is left",
        lambda facts: facts.verified and not facts.ended and not facts.ruled,
    ),
    (
        "Repairing",
        "no pod uses the devices and there are signs of a repair: the GPU is absent, or has a new "
        "boot or epoch",
        lambda facts: facts.repairing and not (facts.ended or facts.verified or facts.unreported),
    ),
    (
        "NeedsHuman",
        "a user has to act: confirm the repair, or check the GPU",
        # Before Verifying: a GPU that waits for a confirmation is healthy, too.
        lambda facts: (facts.human or facts.unreported) and not facts.verified,
    ),
    (
        "Verifying",
        "the GPU is healthy and no pod is left to evict; the soak time runs, or rules are deleted",
        lambda facts: facts.verified or (facts.healthy and facts.settled),
    ),
    (
        "Drained",
        "all desired rules exist, and no claim or pod uses the devices",
        # Before Evicting: the rules that have evicted pods still stand when none is left.
        lambda facts: facts.done.drained,
    ),
    (
        "Evicting",
        "pods are being deleted by NoExecute or evicted through the Eviction API, and some are "
        "left",
        lambda facts: facts.done.evicting,
    ),
    (
        "Tainted",
        "all desired rules exist, with NoSchedule or stronger",
        lambda facts: facts.done.tainted,
    ),
    (
        "Suspected",
        "a fault was detected; at least one desired rule does not exist yet, or none is desired",
        lambda _: True,
    ),
)
"""Each phase with what is true in it; the first row that is true holds."""


def phase(board: Board, planned: Planned, old: IncidentStatus, done: Progress) -> str:
    """Return the phase that is true now; while that cannot be known, the one before."""
    facts = _facts(board, planned, old, done)
    ends = facts.ended or facts.verified
    # What ends without recovery goes through no further phase while its rules are deleted. And a
    # GPU that is taken out for its repair is Unknown: that is a sign of the repair, and no reason
    # to wait.
    goes_on = ends or facts.repairing or facts.unreported
    unclear = (facts.ended and facts.ruled) or (facts.unknown and not goes_on)
    return old.phase if unclear and old.phase else phase_of(facts)


def phase_of(facts: Facts) -> Phase:
    return next(phase for phase, _, holds in ROWS if holds(facts))


def _facts(board: Board, planned: Planned, old: IncidentStatus, done: Progress) -> Facts:
    healthy = isinstance(board.verdict, Healthy)
    waits = planned.course.verified or (not healthy and done.tainted and done.empty)
    joined = bool(planned.joined_too_often and planned.blocked)
    unprovable = bool(planned.record.unprovable) and done.tainted and not healthy
    moving = bool(planned.granted.emptying)
    # Pods that nothing evicts are in no repair's way: under NoSchedule they may run through it.
    emptied = old.eviction.drained_at is not None or not (moving or planned.course.pending)
    return Facts(
        ruled=bool(board.rules.stored),
        ended=planned.course.kind == "ends",
        verified=planned.course.kind in ("releases", "closes"),
        repairing=bool(planned.record.repair_seen) and not healthy and emptied,
        unknown=isinstance(board.verdict, Unknown),
        healthy=healthy,
        human=bool(planned.record.confirmation and waits) or unprovable or joined,
        unreported=(bool(planned.record.end_unreported) and done.tainted)
        or planned.demanded.repair.away,
        settled=not planned.course.pending and (done.drained or not moving),
        done=done,
    )
