"""Lengths of time as a policy file writes them. Pure."""

import re
from datetime import timedelta

_FORM = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST = timedelta(days=90)
"""A longer time is taken for a mistake."""


def duration(text: str, longest: timedelta = LONGEST) -> timedelta:
    """Read `500ms`, `3s`, `10m`, `24h` or `30d`. Raises ValueError saying what to write."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a duration; write 500ms, 3s, 10m, 24h or 30d")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds > longest.total_seconds():
        raise ValueError(f"{text} is longer than {longest.days} days")
    return timedelta(seconds=seconds)


def spell(time: timedelta) -> str:
    """Return a length of time in the largest unit that is whole; `duration` reads it.

    What is less than a millisecond is left out.
    """
    whole = time // timedelta(milliseconds=1)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if whole and not whole % size:
            return f"{whole // size}{unit}"
    return f"{whole}ms" if whole else "0s"
