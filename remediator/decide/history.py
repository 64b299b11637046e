"""What closed incidents are good for: counting repeats, telling a relapse, keeping people's words.

An episode counts by its opening. Pure.
"""

from collections import Counter
from datetime import datetime, timedelta

from remediator.decide.ladder import ACTED
from remediator.decide.words import class_of, days, ordinal
from remediator.objects import answers
from remediator.objects.answers import Answer, Kind
from remediator.objects.incident import Incident
from remediator.policy.table import Policy, Row

KEPT_FOR = timedelta(days=30)
"""At least; a longer repeat window of the policy keeps them longer."""
KEPT_PER_GPU = 32
KEPT_PER_NODE = 1024
"""So many of 32 GPUs: a node that tells of ever new GPUs fills no more than that."""
PRUNED_AT_ONCE = 20
"""So that an upgrade that finds thousands does not delete them in one breath."""
LASTING: tuple[Kind, ...] = ("hold", "ignore")
"""Answers about a GPU and not about one repair: they count until they run out, in any episode."""
RELAPSE = "relapse: "
"""How the evidence of one begins."""


def opened_at(incident: Incident, now: datetime) -> datetime:
    """Return when an episode began; one that is about to be opened begins now."""
    return incident.metadata.creation_timestamp or now


def recurrence(incidents: tuple[Incident, ...], story: Incident, row: Row, now: datetime) -> int:
    """Return which episode of its GPU a story is within the row's repeat window.

    A relapse goes on counting from the episode that it belongs to. The count
    never falls, so that pruning does not forgive anything.
    """
    since = opened_at(story, now) - row.repeat.within
    earlier = _earlier(incidents, story)
    recent = sum(opened_at(one, now) > since and _mattered(one) for one in earlier)
    before = relapse_of(incidents, story, now)
    continued = before.status.recurrence if before else 0
    return max(story.status.recurrence, recent + 1, continued + 1)


def _mattered(incident: Incident) -> bool:
    """Whether anything was done in an episode, or would have been in a milder mode.

    One that was over before it was fenced, such as an error of a peer, is no repeat.
    """
    acted = any(entry.phase in ACTED for entry in incident.status.timeline)
    return acted or incident.status.mode != "enforce"


def relapse_of(incidents: tuple[Incident, ...], story: Incident, now: datetime) -> Incident | None:
    """Return the episode in whose probation a story began."""
    begun = opened_at(story, now)
    ends = [(one.status.probation_until, one) for one in _earlier(incidents, story)]
    running = [(until, one) for until, one in ends if until is not None and begun < until]
    return max(running, key=lambda pair: pair[0])[1] if running else None


def _earlier(incidents: tuple[Incident, ...], story: Incident) -> list[Incident]:
    return [
        one
        for one in incidents
        if not one.open and one.name != story.name and not one.status.duplicate_of
    ]


def relapse_in_words(before: Incident) -> str:
    until = before.status.probation_until
    return f"{RELAPSE}{before.name} was in probation until {until:%Y-%m-%dT%H:%M:%SZ}"


def answers_left(incidents: tuple[Incident, ...]) -> dict[str, str]:
    """Return, as annotations, what people said last in earlier episodes, run out or not.

    Each names the incident to which it was said, where it can be taken back. What cannot be
    read is nobody's word.
    """
    found: dict[str, str] = {}
    for kind in LASTING:
        key = answers.annotation(kind)
        for one in incidents:
            value = one.metadata.annotations.get(key, "")
            if not one.open and isinstance(answers.read(kind, value), Answer):
                found[key] = f"{value} (said to {one.name})"[: answers.VALUE_LIMIT]
    return found


def _heeded(incident: Incident, now: datetime) -> bool:
    notes = incident.metadata.annotations
    return any(answers.in_force(notes, kind, now) for kind in LASTING)


def stickiness(story: Incident, rows: tuple[Row, ...], count: int) -> str:
    """Return why recovery alone does not release a GPU, "" when it does.

    `rows` are those of its classes that are not off: with none left, nobody waits.
    """
    if not rows:
        return ""
    repeats = [row.repeat for row in rows if 0 < row.repeat.count <= count]
    if repeats:
        within = max(one.within for one in repeats)
        return f"{ordinal(count)} episode in {days(within)}"
    classes = [row.fault_class for row in rows if row.sticky]
    if classes:
        return f"class {classes[0]} is released by a person only"
    return "it has needed a person before" if story.status.sticky else ""


def pruned(incidents: tuple[Incident, ...], policy: Policy, now: datetime) -> tuple[Incident, ...]:
    """Return closed incidents that are too old to matter, oldest first, a few at a time.

    Those of one GPU, or of one node, beyond a number go too. An open one never does, nor for
    its age one that carries a person's word which still counts.
    """
    closed = [(one.status.closed_at, one) for one in incidents if one.status.closed_at is not None]
    newest = sorted(closed, key=lambda pair: (pair[0], pair[1].name), reverse=True)
    kept: Counter[str] = Counter()
    found: list[Incident] = []
    for closed_at, one in newest:
        kept.update((one.spec.uuid, one.spec.node))
        many = kept[one.spec.uuid] > KEPT_PER_GPU or kept[one.spec.node] > KEPT_PER_NODE
        old = now - closed_at > _lifetime(one, policy) and not _heeded(one, now)
        if old or many:
            found.append(one)
    return tuple(reversed(found))[:PRUNED_AT_ONCE]


def _lifetime(one: Incident, policy: Policy) -> timedelta:
    row = policy.row(class_of(one.spec.fault))
    return max(row.repeat.within, KEPT_FOR) + row.probation
