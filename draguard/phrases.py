"""Values into short texts: ages, counts, suggestions; and texts of others made safe. Pure.

Names, messages and annotations of Kubernetes objects may hold escape sequences, line breaks and
marks that turn the direction of writing. A terminal obeys them, so `shown` spells them out.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from math import ceil

LIMIT = 4096
"""Characters shown of one value; the whole of it is in `-o json`."""
_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_MINUTE = 60
_SUGGESTIONS = 3
_ALIKE = 0.75
"""From 0 to 1, as difflib counts: one letter wrong in five, and no more."""


def age(since: datetime | None, now: datetime) -> str:
    """Return how long ago something was, in its largest unit, such as `3h`; "" for never."""
    return "" if since is None else short(now - since)


def short(time: timedelta) -> str:
    """Return a length of time rounded down to its largest unit; less than a second is `0s`."""
    seconds = max(int(time.total_seconds()), 0)
    return next((f"{seconds // size}{unit}" for unit, size in _UNITS if seconds >= size), "0s")


def moment(at: datetime | None, now: datetime) -> str:
    """Return a time and how far it is, such as `2026-01-05T12:00:00Z, 3h ago`; "" for never.

    A time ahead is rounded up to the minute, so that `--until 4h` is not shown as `in 3h`.
    """
    if at is None:
        return ""
    if at <= now:
        return f"{stamp(at)}, {short(now - at)} ago"
    ahead = (at - now).total_seconds()
    ahead = ahead if ahead < _MINUTE else ceil(ahead / _MINUTE) * _MINUTE
    return f"{stamp(at)}, in {short(timedelta(seconds=ahead))}"


def stamp(at: datetime) -> str:
    """Return a time in UTC, whatever zone it was written in, such as `2026-01-05T12:00:00Z`."""
    try:
        return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    except OverflowError:
        return at.isoformat()  # in the first or the last hours of the calendar


def some(names: Iterable[str], most: int = 3) -> str:
    """Name the first of several and count the others: `a, b, c and 4 more`."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def count(number: int, singular: str, plural: str) -> str:
    """Return `1 agent is`, `2 agents are`."""
    return f"{number} {singular if number == 1 else plural}"


def beginning(uuid: str) -> str:
    """Return `GPU-2fa81118` of a UUID: enough to recognize it, and to name its GPU."""
    kind, dash, rest = uuid.partition("-")
    return f"{kind}{dash}{rest.partition('-')[0]}"


def gpu_name(node: str, index: int | None) -> str:
    """Return `gpu-7/3`, as `draguard cordon` takes it, or `gpu-7/?` where the index is unknown."""
    return f"{node}/{'?' if index is None else index}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean X or Y?)` for names that begin so, or else are alike; "" for none."""
    names = {name.lower(): name for name in known if name}
    desired = word.lower()
    begun = [name for name in sorted(names) if desired and name.startswith(desired)]
    near = begun[:_SUGGESTIONS] or get_close_matches(desired, names, _SUGGESTIONS, _ALIKE)
    return f" (did you mean {' or '.join(names[name] for name in near)}?)" if near else ""


def shown(text: str, limit: int = LIMIT) -> str:
    r"""Return a text on one line with nothing in it that a terminal obeys.

    Line breaks and tabs become spaces; any other character that is not printable is
    spelled as Python spells it, such as `\x1b`.
    """
    line = " ".join(text[: limit + 1].splitlines()).replace("\t", " ")[:limit]
    plain = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in line
    )
    return plain + ("..." if len(text) > limit else "")
