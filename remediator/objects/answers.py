"""What a person answers to an incident: annotations of the DeviceIncident.

    draguard.dev/hold: 2026-07-30T18:00:00Z; by=ana; why=a training run must end first
    draguard.dev/ignore: forever; by=ana; why=a test board
    draguard.dev/confirmed-repaired: 2026-07-30T18:00:00Z; by=ana; why=new board, ticket 4711

Until when, who, why: all three, in this order, because a decision that
overrules a machine must be one that somebody can be asked about, and one that
ends. A value that cannot be read changes nothing. Pure.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, get_args

import msgspec

DOMAIN = "draguard.dev"
Kind = Literal["hold", "ignore", "confirmed-repaired"]
"""`hold`: no new harm, what stands stays. `ignore`: the fault is not acted on, our rules come down.
`confirmed-repaired`: somebody vouches for the repair of a GPU that recovery alone does not free."""
KINDS: tuple[Kind, ...] = get_args(Kind)
FOREVER = "forever"
VALUE_LIMIT = 512
"""Characters of a value; a longer one is not read."""
_GRAMMAR = "write `<until>; by=<who>; why=<text>`"
_WORDS = re.compile(r"(?P<until>[^;]*);\s*by=(?P<by>[^;]*);\s*why=(?P<why>.*)", re.DOTALL)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    until: datetime | None
    """None: forever."""
    by: str
    why: str


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    error: str
    """Which annotation, what is wrong with it, and what to write."""


def annotation(kind: Kind) -> str:
    """Return the annotation's key."""
    return f"{DOMAIN}/{kind}"


def said(annotations: Mapping[str, str]) -> dict[Kind, str]:
    """Return the values of our annotations, by kind."""
    return {
        kind: annotations[annotation(kind)] for kind in KINDS if annotation(kind) in annotations
    }


def read(kind: Kind, value: str) -> Answer | Unreadable:
    """Return what one annotation says, or why that cannot be known."""
    found = _WORDS.fullmatch(value.strip())
    if len(value) > VALUE_LIMIT:
        return _error(kind, f"it is longer than {VALUE_LIMIT} characters; shorten the text")
    if found is None:
        return _error(kind, f"it is not of the form that is read; {_GRAMMAR}")
    until, by, why = (found[name].strip() for name in ("until", "by", "why"))
    for name, given in (("by", by), ("why", why)):
        if not given or not given.isprintable():
            return _error(kind, f"{name}= is empty or not printable; {_GRAMMAR}")
    moment = _moment(until)
    if moment is None and until != FOREVER:
        return _error(
            kind,
            f"{until!r} is no time; give RFC 3339 such as 2026-07-30T18:00:00Z, or `{FOREVER}`",
        )
    return Answer(kind=kind, until=moment, by=by, why=why)


def in_force(annotations: Mapping[str, str], kind: Kind, now: datetime) -> str:
    """Return the value of the answer of a kind that can be read and has not run out, or ""."""
    value = said(annotations).get(kind, "")
    answer = read(kind, value)
    counts = isinstance(answer, Answer) and (answer.until is None or now < answer.until)
    return value if counts else ""


def _error(kind: Kind, what: str) -> Unreadable:
    return Unreadable(kind=kind, error=f"annotation {annotation(kind)} changes nothing: {what}")


def _moment(text: str) -> datetime | None:
    """Return an RFC 3339 time; None for anything else, impossible dates among them."""
    if not _MOMENT.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def in_words(answer: Answer) -> str:
    """Say an answer in a sentence."""
    until = FOREVER if answer.until is None else f"until {answer.until:%Y-%m-%dT%H:%M:%SZ}"
    return f"{answer.kind} {until} by {answer.by}: {answer.why}"
