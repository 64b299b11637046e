"""By how much the wall clock was set between two looks at it.

The report's times are of the wall clock, because people and other processes read
them; a duration that decides something must not end early because NTP found the
right hour. Pure: both clocks come in.
"""

from datetime import datetime, timedelta

_NOISE = timedelta(seconds=1)
"""Less than this is slewing, or the time between reading the two clocks."""


class ClockSteps:
    """Compares the wall clock with one that nobody can set."""

    def __init__(self) -> None:
        self._before: tuple[datetime, float] | None = None

    def step(self, wall: datetime, steady: float) -> timedelta:
        """Return by how much the wall clock was set since the last call, negative for back.

        `steady` is in seconds of a monotonic clock, read at the same moment.
        """
        before, self._before = self._before, (wall, steady)
        if before is None:
            return timedelta(0)
        apart = (wall - before[0]) - timedelta(seconds=steady - before[1])
        return apart if abs(apart) >= _NOISE else timedelta(0)
