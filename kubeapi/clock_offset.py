"""Clocks against each other: the wall clock, one that cannot be set, and the API server's.

Times that users and other processes read are of the wall clock. A duration that decides something
must not end early because NTP corrected the clock, or because another replica's clock is ahead.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from time import monotonic

from kubeapi import clock

_WHOLE_SECONDS = timedelta(milliseconds=500)
"""A Date header leaves out half a second on average."""


def apart(wall: datetime, steady: float, before: tuple[datetime, float]) -> timedelta:
    """Return by how much a wall clock is ahead of what it ought to be, by an earlier look.

    `steady` is in seconds of a monotonic clock, read at the same moment.
    """
    return (wall - before[0]) - timedelta(seconds=steady - before[1])


class ServerClock:
    """By how much this machine's wall clock is ahead of the API server's. Thread-safe.

    Each answer dates itself (the Date header); between two answers a monotonic clock goes on from
    there, so a wall clock that is set is seen at once. Before the first answer the wall clock at
    the start takes the server's place.
    """

    def __init__(
        self, now: Callable[[], datetime] = clock.now, steady: Callable[[], float] = monotonic
    ) -> None:
        self._now, self._steady = now, steady
        self._before = (now(), steady())
        self.known = False
        """Whether an answer has carried a date."""

    def dated(self, header: str | None) -> None:
        """Take in the Date header of an answer that has just come; one that is no date is none."""
        try:
            date = parsedate_to_datetime(header or "")
        except ValueError:
            return
        date = date.replace(tzinfo=UTC) if date.tzinfo is None else date
        self._before = (date + _WHOLE_SECONDS, self._steady())
        self.known = True

    def now(self) -> datetime | None:
        """Return the server's time, None before its first answer."""
        date, at = self._before
        return date + timedelta(seconds=self._steady() - at) if self.known else None

    def ahead(self) -> timedelta:
        """Return how far our wall clock is ahead, negative where it is behind."""
        before = self._before
        return apart(self._now(), self._steady(), before)
