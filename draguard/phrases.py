"""Ages and counts as people write them. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from math import ceil

_MINUTE = 60
_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def age(since: datetime | None, now: datetime) -> str:
    """Return how long ago something was, in its largest unit, such as `3h`; "" for never."""
    return "" if since is None else short(now - since)


def short(time: timedelta) -> str:
    """Return a length of time rounded down to its largest unit; less than a second is `0s`."""
    seconds = max(int(time.total_seconds()), 0)
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return "0s"


def moment(at: datetime | None, now: datetime) -> str:
    """Return a time and how far it is, such as `2026-01-05T12:00:00Z, 3h ago`; "" for never."""
    if at is None:
        return ""
    distance = f"in {short(_ahead(at - now))}" if at > now else f"{short(now - at)} ago"
    return f"{stamp(at)}, {distance}"


def stamp(at: datetime) -> str:
    """Return a time in UTC, whatever zone it was written in, such as `2026-01-05T12:00:00Z`."""
    try:
        return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    except OverflowError:
        return at.isoformat()  # in the first or the last hours of the calendar


def _ahead(time: timedelta) -> timedelta:
    """Round up to the minute: who has just asked for four hours is not told `in 3h`."""
    seconds = time.total_seconds()
    return timedelta(seconds=seconds if seconds < _MINUTE else ceil(seconds / _MINUTE) * _MINUTE)


def some(names: Iterable[str], most: int = 3) -> str:
    """Name the first of several and count the others: `a, b, c and 4 more`."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def count(number: int, one: str, many: str) -> str:
    """Return `1 agent is`, `2 agents are`."""
    return f"{number} {one if number == 1 else many}"
