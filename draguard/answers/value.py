"""The annotation that an answer is, from what a person typed. Pure."""

from datetime import datetime, timedelta

import msgspec

from remediator.objects import answers
from remediator.objects.answers import FOREVER, Kind, Unreadable
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


def until_of(
    length: str | None, moment: str | None, now: datetime, *, forever: bool, standard: str
) -> str:
    """Return until when an answer counts, as the annotation says it. Raises WrongAnswerError."""
    if forever:
        return FOREVER
    if moment is not None:
        return moment
    try:
        end = now + duration(length or standard, LONGEST)
    except ValueError as error:
        raise WrongAnswerError(f"--for {error}") from error
    return f"{end:%Y-%m-%dT%H:%M:%SZ}"


def value_of(kind: Kind, until: str, by: str, why: str, now: datetime) -> str:
    """Return an annotation that the remediator reads as it was meant. Raises WrongAnswerError."""
    if ";" in by:
        raise WrongAnswerError(f"--by {by!r} must not hold a semicolon")
    value = f"{until}; by={by}; why={why}"
    read = answers.read(kind, value)
    if isinstance(read, Unreadable):
        raise WrongAnswerError(read.error.partition("changes nothing: ")[2] or read.error)
    if read.until is not None and read.until <= now:
        raise WrongAnswerError(f"--until {until} has passed already")
    return value
