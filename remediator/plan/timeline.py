"""What an incident records over time: what was seen, decided and done, and by which policy row.

One entry for each change, never two for the same; the opening is kept whatever comes after it.
Pure.
"""

from collections.abc import Iterator
from datetime import datetime

from remediator.model import intent
from remediator.model.incident import (
    TIMELINE_LIMIT,
    IncidentStatus,
    TimelineEntry,
)
from remediator.model.taint_rule import EFFECTS
from remediator.plan import overrides
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
    if opening or (new.phase, new.mode) != (old.phase, old.mode):
        decided = new.message if new.message != planned.granted.deferred else planned.course.reason
        seen = _seen(planned, opening=opening)
        yield f"seen: {seen}; decided: {decided}; done: {_done(old, new)}; {_row(planned)}"
    held = next(
        (condition.message for condition in old.conditions if condition.type == "Deferred"), ""
    )
    deferred = planned.granted.deferred
    if deferred and kernel(deferred) != kernel(held):
        yield f"seen: {_seen(planned, opening=False)}; decided: {deferred}; {_row(planned)}"
    if new.recurrence > 1 and new.recurrence != old.recurrence:
        yield f"seen: {ordinal(new.recurrence)} incident of the GPU that counts; {_row(planned)}"
    for record in overrides.changes(old.intents, new.intents):
        yield overrides.in_words(record)
    kinds = {entry.kind for entry in new.intents}
    for record in old.intents:
        if record.state == "InForce" and record.kind not in kinds:
            yield f"a user removed: {intent.in_words(record.kind, record)}"


def kernel(text: str) -> str:
    """Return what is held and by what, without the figures of the moment behind it."""
    return text.partition(" (")[0][:KERNEL]


def _seen(planned: Planned, *, opening: bool) -> str:
    if planned.incident is None:
        return "nothing"
    found = planned.incident.status
    return "; ".join(found.evidence) if opening and found.evidence else found.cause or "nothing"


def _row(planned: Planned) -> str:
    return f"row {planned.record.row}" if planned.record.row else "no row"


def _done(old: IncidentStatus, new: IncidentStatus) -> str:
    """Return which rules are new, changed or gone, and which pods."""
    before = {rule.uid: rule.effect for rule in old.rules}
    after = {rule.uid for rule in new.rules}
    changed = [rule.effect for rule in new.rules if before.get(rule.uid) != rule.effect]
    parts = [
        f"{effect} on {number} device{'s' if number > 1 else ''}"
        for effect in EFFECTS
        if (number := changed.count(effect))
    ]
    if uids := before.keys() - after:
        parts.append(f"{len(uids)} rule{'s' if len(uids) > 1 else ''} deleted")
    # Pods are named once the devices are empty.
    if new.phase == "Drained" and old.phase != "Drained":
        pods = sorted({f"{pod.namespace}/{pod.pod}" for pod in new.evicted})
        parts += [f"pods gone: {some(pods, NAMED)}"] if pods else []
    return ", ".join(parts) or "nothing"
