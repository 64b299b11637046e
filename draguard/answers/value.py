"""The annotation that an answer is, from what a person typed. Pure."""

from datetime import datetime, timedelta

import msgspec

from draguard.output.amounts import moment
from remediator.objects import answers
from remediator.objects.answers import FOREVER, Answer, Kind, Unreadable
from remediator.policy.duration import duration

LONGEST = timedelta(days=3660)


class WrongAnswerError(ValueError):
    """Such an answer would not be read; the message says what to write."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said about one incident."""

    kind: Kind
    incident: str
    until: str
    by: str
    why: str
    value: str
    """The annotation as it is written."""
    before: str = ""
    """What stood there; "" for nothing."""
    unheard: str = ""
    """Why nobody may act on it for now; "" where somebody does, as far as can be seen."""


def until_of(text: str, now: datetime) -> str:
    """Return until when an answer counts, as the annotation says it.

    Takes a length of time from now, a moment, or `forever`. Raises WrongAnswerError.
    """
    if text == FOREVER:
        return FOREVER
    end = _end(text, now).replace(microsecond=0)
    if end <= now:
        raise WrongAnswerError(f"{text} is over already; give a time to come")
    return f"{end:%Y-%m-%dT%H:%M:%SZ}"


def _end(text: str, now: datetime) -> datetime:
    at = _moment(text)
    if at is not None:
        return at
    try:
        return now + duration(text, LONGEST)
    except ValueError as error:
        raise WrongAnswerError(
            f"{error}; or give a moment, such as 2030-07-30T18:00:00Z"
        ) from error


def _moment(text: str) -> datetime | None:
    """Return a moment as the remediator will read it, None where it would not."""
    read = answers.read("hold", f"{text}; by=x; why=x")
    return read.until if isinstance(read, Answer) else None


def until_in_words(until: str, now: datetime) -> str:
    """Return the end of an answer with how far it is."""
    return moment(_moment(until), now) or until


def value_of(kind: Kind, until: str, by: str, why: str) -> str:
    """Return an annotation that the remediator reads as it was meant. Raises WrongAnswerError."""
    if ";" in by:
        raise WrongAnswerError(f"--by {by!r} must not hold a semicolon")
    value = f"{until}; by={by}; why={why}"
    read = answers.read(kind, value)
    if isinstance(read, Unreadable):
        raise WrongAnswerError(read.error.partition("changes nothing: ")[2] or read.error)
    return value
