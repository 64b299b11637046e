"""What people have said and done about an incident: answers by annotation, and deleted rules.

A person outranks us, for a time. What was read is recorded in the status, so
that it is told once and survives a restart. Pure.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from remediator.decide.case import Case
from remediator.decide.ladder import is_later
from remediator.decide.words import severity
from remediator.objects import answers
from remediator.objects.answers import Answer, Kind, Unreadable
from remediator.objects.incident import AnswerRecord, DeletedRule, Incident

RESPECTED_FOR = timedelta(hours=24)
"""How long a rule that a person took away is not made again: a working day and the night after it,
so that whoever did it can also come back to it."""


def given(
    case: Case, story: Incident, signal: datetime | None, now: datetime
) -> tuple[AnswerRecord, ...]:
    """Return what people have said, and whether it counts now.

    `signal` is the youngest signal of the story, by the node's clock.
    """
    before = {(one.kind, one.said): one for one in story.status.answers}
    found: list[AnswerRecord] = []
    for kind, value in answers.said(_annotations(case, story, now)).items():
        said = value[: answers.VALUE_LIMIT + 1]
        known = before.get((kind, said))
        seen_at = known.seen_at if known else now
        through = known.seen_through if known else signal
        later = signal is not None and is_later(signal, through, case.reported_at)
        later |= known is not None and known.state == "Overtaken"
        state = _state(answers.read(kind, said), now, later=later)
        found.append(AnswerRecord(kind, said, state, seen_at, through))
    return tuple(found)


def _annotations(case: Case, story: Incident, now: datetime) -> dict[str, str]:
    """Return the story's own and, where it has none that counts, those of its duplicates.

    Whoever answers sees two open incidents of one GPU and cannot know which of them leads.
    An answer that has run out, or cannot be read, hides none that counts; else the oldest leads.
    """
    doubles = [
        one
        for one in case.incidents
        if one.name != story.name and (one.open or one.status.duplicate_of == story.name)
    ]
    doubles.sort(key=lambda one: one.name, reverse=True)
    merged: dict[str, str] = {}
    for counts in (False, True):
        for one in (*doubles, story):
            said = answers.said(one.metadata.annotations)
            merged |= {
                answers.annotation(kind): value
                for kind, value in said.items()
                if _counts(answers.read(kind, value), now) >= counts
            }
    return merged


def _counts(answer: Answer | Unreadable, now: datetime) -> bool:
    """Whether an answer can be read and has not run out."""
    return isinstance(answer, Answer) and (answer.until is None or now < answer.until)


def _state(answer: Answer | Unreadable, now: datetime, *, later: bool) -> str:
    if isinstance(answer, Unreadable):
        return "Unreadable"
    if not _counts(answer, now):
        return "Expired"
    return "Overtaken" if answer.kind == "confirmed-repaired" and later else "InForce"


def in_force(records: Iterable[AnswerRecord], kind: Kind) -> Answer | None:
    """Return the answer of a kind that counts now."""
    for one in records:
        if one.kind == kind and one.state == "InForce":
            answer = answers.read(kind, one.said)
            return answer if isinstance(answer, Answer) else None
    return None


def errors(records: Iterable[AnswerRecord]) -> str:
    """Say what could not be read, "" when everything could."""
    found = [_read(one) for one in records if one.state == "Unreadable"]
    return "; ".join(one.error for one in found if isinstance(one, Unreadable))


def in_words(record: AnswerRecord) -> str:
    """Say what became of an answer."""
    answer = _read(record)
    if isinstance(answer, Unreadable):
        return answer.error
    words = answers.in_words(answer)
    became = {
        "InForce": "a person's answer counts",
        "Expired": "a person's answer has run out",
        "Overtaken": "a person's answer was overtaken by a later signal",
    }
    return f"{became.get(record.state, record.state)}: {words}"


def _read(record: AnswerRecord) -> Answer | Unreadable:
    known: dict[str, Kind] = {one: one for one in answers.KINDS}
    return answers.read(known.get(record.kind, "hold"), record.said)


def next_expiry(records: Iterable[AnswerRecord]) -> datetime | None:
    """Return when the first answer that counts now runs out."""
    read = [_read(one) for one in records if one.state == "InForce"]
    ends = [one.until for one in read if isinstance(one, Answer) and one.until is not None]
    return min(ends, default=None)


def deletions(
    case: Case, story: Incident, signal: datetime | None, now: datetime
) -> tuple[DeletedRule, ...]:
    """Return the rules that a person took away and that are not made again yet.

    Our own deletions are marked in the status before they are done, so a rule
    that is recorded, not marked and not stored was taken by somebody else. A
    worse class or a later signal than then is news that the person did not
    have. A rule that is stored after all was only late to be seen.
    """
    stored = {str(rule.device) for rule in case.rules}
    known = {one.device: one for one in story.status.deleted_rules}
    for device in _missed(case, story) - known.keys():
        through = story.status.seen_through
        known[device] = DeletedRule(device, now, now + RESPECTED_FOR, _class(case, story), through)
    return tuple(
        one
        for device, one in sorted(known.items())
        if device not in stored
        and now < one.respected_until
        and not _news(one, story, signal, case.reported_at)
    )


def _class(case: Case, story: Incident) -> str:
    """Return the class that the incident had when it was stored."""
    stored = [one.spec.fault for one in case.incidents if one.name == story.name]
    return stored[0] if stored else story.spec.fault


def _missed(case: Case, story: Incident) -> set[str]:
    """Return the devices, published now, whose recorded rule somebody else took away."""
    stored = {str(rule.device) for rule in case.rules}
    hardware = {str(one.name): one.uuid for one in story.spec.scope.devices}
    published = {
        str(one.device)
        for one in case.inventory
        # A slice whose own UUID no rule can carry is in scope by its GPU's.
        if hardware.get(str(one.device), "") in (one.uuid, one.parent_uuid) or one.uuid is None
    }
    recorded = {one.device for one in story.status.rules if not one.leaving}
    return (recorded - stored) & published


def _news(
    deleted: DeletedRule, story: Incident, signal: datetime | None, clock: datetime | None
) -> bool:
    worse = bool(deleted.fault) and severity(story.spec.fault) > severity(deleted.fault)
    return worse or (signal is not None and is_later(signal, deleted.seen_through, clock))
