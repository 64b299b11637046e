"""What a user wants for a GPU, from what was typed. Pure."""

from datetime import UTC, datetime, timedelta

import msgspec

from draguard.phrases import moment
from remediator.model.intent import BY_LIMIT, REASON_LIMIT, Intent, Kind, in_words
from remediator.policy.duration import duration

LONGEST = timedelta(days=3660)
FOREVER = "forever"
_EXAMPLE = "2030-07-30T18:00:00Z"


class WrongIntentError(ValueError):
    """The API server would refuse it, or it would change nothing; the message says what to do."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a user wants for the GPU of one incident."""

    kind: Kind
    incident: str
    intent: Intent | None
    """As it is written; None: it is removed."""
    before: str = ""
    """What was there, in words; "" for nothing."""
    unheard: str = ""
    """Why the remediator may not act on it for now; "" where it does, as far as can be seen."""


def until_of(text: str, now: datetime) -> datetime | None:
    """Return when an intent expires, None for `forever`.

    Takes a length of time from now, a moment, or `forever`. Raises WrongIntentError.
    """
    if text == FOREVER:
        return None
    end = _end(text, now).replace(microsecond=0)
    if end <= now:
        raise WrongIntentError(f"{text} is in the past; give a future time")
    return end


def _end(text: str, now: datetime) -> datetime:
    at = _moment(text)
    if at is not None:
        return at
    try:
        return now + duration(text, LONGEST)
    except ValueError as error:
        raise WrongIntentError(f"{error}; or give a time, such as {_EXAMPLE}") from error


def _moment(text: str) -> datetime | None:
    """Return a moment with its zone, in UTC; None for anything else."""
    try:
        at = msgspec.convert(text, datetime)
        return at.astimezone(UTC) if at.tzinfo else None
    except (msgspec.ValidationError, OverflowError):
        return None


def until_in_words(intent: Intent, now: datetime) -> str:
    """Return the end of an intent with how far it is."""
    return moment(intent.until, now) or "no end time"


def intent_of(until: datetime | None, by: str, reason: str) -> Intent:
    """Return an intent that the API server takes. Raises WrongIntentError."""
    reason = reason.strip()
    if not by:
        raise WrongIntentError(
            "the API server did not return your user name, so nothing was written"
        )
    for name, text, most in (("your user name", by, BY_LIMIT), ("--reason", reason, REASON_LIMIT)):
        if len(text) > most:
            raise WrongIntentError(f"{name} is longer than {most} characters")
        if not text.isprintable():
            raise WrongIntentError(f"{name} contains characters that are not printable")
    return Intent(until=until, by=by, reason=reason)


def patch(intent: Intent | None) -> dict[str, object] | None:
    """Return it as a merge patch: an end that it has not must be removed by name."""
    if intent is None:
        return None
    return {"until": intent.until, "by": intent.by, "reason": intent.reason}


def before_in_words(kind: Kind, intent: Intent | None) -> str:
    return in_words(kind, intent) if intent else ""
