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
from remediator.plan.case import Desired
from remediator.plan.words import ordinal

KERNEL = 1024
"""Characters by which two sentences are compared: fewer than any of them is cut to."""
NAMED = 5
"""Pods that one line names; the status lists them all."""


def timeline(
    old: IncidentStatus, new: IncidentStatus, desired: Desired, now: datetime
) -> tuple[TimelineEntry, ...]:
    """Return the stored entries and those for what has changed."""
    fresh = tuple(TimelineEntry(now, new.phase, text) for text in _changes(old, new, desired))
    entries = (*old.timeline, *fresh)
    if len(entries) <= TIMELINE_LIMIT:
        return entries
    return (entries[0], *entries[1 - TIMELINE_LIMIT :])


def _changes(old: IncidentStatus, new: IncidentStatus, desired: Desired) -> Iterator[str]:
    opening = not old.timeline
    if opening or (new.phase, new.mode) != (old.phase, old.mode):
        yield _line(old, new, desired, opening=opening)
    if desired.deferred and kernel(desired.deferred) != kernel(_held(old)):
        yield f"seen: {_seen(desired, opening=False)}; decided: {desired.deferred}; {_row(desired)}"
    if new.recurrence > 1 and new.recurrence != old.recurrence:
        yield f"seen: {ordinal(new.recurrence)} incident of the GPU that counts; {_row(desired)}"
    yield from _intents(old, new)


def kernel(text: str) -> str:
    """Return what is held and by what, without the figures of the moment behind it."""
    return text.partition(" (")[0][:KERNEL]


def _held(old: IncidentStatus) -> str:
    return next(
        (condition.message for condition in old.conditions if condition.type == "Deferred"), ""
    )


def _line(old: IncidentStatus, new: IncidentStatus, desired: Desired, *, opening: bool) -> str:
    decided = new.message if new.message != desired.deferred else desired.reason
    seen = _seen(desired, opening=opening)
    return f"seen: {seen}; decided: {decided}; done: {_done(old, new)}; {_row(desired)}"


def _seen(desired: Desired, *, opening: bool) -> str:
    if desired.incident is None:
        return "nothing"
    found = desired.incident.status
    return "; ".join(found.evidence) if opening and found.evidence else found.cause or "nothing"


def _row(desired: Desired) -> str:
    return f"row {desired.row}" if desired.row else "no row"


def _done(old: IncidentStatus, new: IncidentStatus) -> str:
    """Return which rules are new, changed or gone, and which pods."""
    before = {rule.uid: rule.effect for rule in old.rules}
    after = {rule.uid for rule in new.rules}
    changed = [rule.effect for rule in new.rules if before.get(rule.uid) != rule.effect]
    parts = [_count(effect, changed.count(effect)) for effect in EFFECTS]
    parts += [_gone(before.keys() - after), _pods(old, new)]
    return ", ".join(part for part in parts if part) or "nothing"


def _count(effect: str, number: int) -> str:
    return f"{effect} on {number} device{'s' if number > 1 else ''}" if number else ""


def _gone(uids: set[str]) -> str:
    return f"{len(uids)} rule{'s' if len(uids) > 1 else ''} taken away" if uids else ""


def _pods(old: IncidentStatus, new: IncidentStatus) -> str:
    """Name the pods that are gone when the devices are empty."""
    if new.phase != "Drained" or old.phase == "Drained":
        return ""
    pods = sorted({f"{pod.namespace}/{pod.pod}" for pod in new.evicted})
    more = f" and {len(pods) - NAMED} more" if len(pods) > NAMED else ""
    return f"pods gone: {', '.join(pods[:NAMED])}{more}" if pods else ""


def _intents(old: IncidentStatus, new: IncidentStatus) -> Iterator[str]:
    for record in overrides.news(old.intents, new.intents):
        yield overrides.in_words(record)
    kinds = {entry.kind for entry in new.intents}
    for record in old.intents:
        if record.state == "InForce" and record.kind not in kinds:
            yield f"a user removed: {intent.in_words(record.kind, record)}"
