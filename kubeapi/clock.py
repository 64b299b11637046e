"""The one place that reads the wall clock; all other code takes the time as a value."""

import datetime as dt
from collections.abc import Callable
from time import CLOCK_BOOTTIME, clock_gettime

_PAUSE = 0.1
"""Seconds between two looks at one clock in which another process ran."""
_LOOKS = 3


def now() -> dt.datetime:
    """Return the current time, in UTC and aware of it."""
    return dt.datetime.now(dt.UTC)  # noqa: TID251 - the place the ban names


def boot_time(wall: Callable[[], dt.datetime] = now) -> dt.datetime | None:
    """Return when this machine booted, by the wall clock of now; None where pauses disturb it.

    It changes only when the wall clock is set: both clocks are slewed alike, and the one since
    boot goes on while the machine is suspended (CLOCK_BOOTTIME).
    """
    for _ in range(_LOOKS):
        before = clock_gettime(CLOCK_BOOTTIME)
        at = wall()
        after = clock_gettime(CLOCK_BOOTTIME)
        if after - before < _PAUSE:
            return at - dt.timedelta(seconds=after)
    return None
