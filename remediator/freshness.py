"""Whether a node's agent is alive, and what it has confirmed, measured on our own clock.

Age counts from when a change of the node's Lease or report was seen here, so a node's wrong clock
neither hides nor invents an agent. Only what came in a list may have been written long ago. Its age
counts from its date, by the API server's clock. If that is in the future, one further renewal is
waited for. Pure but for its memory.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Literal, get_args

from remediator.plan.board import RENEWALS_NEEDED

Sign = Literal["report", "Lease"]
"""Signs of life of an agent. Only the thread of its own watch writes the times of each."""
_SIGNS: tuple[Sign, ...] = get_args(Sign)
_AHEAD = 2.0
"""Seconds by which a node's clock may be ahead of the API server's, whose dates have no fractions
of a second."""
_INTERVALS = 2
"""A report older than so many of its intervals is stale, whatever the Lease shows."""
_LONGEST_INTERVAL = 3600.0
SILENT = timedelta(seconds=_INTERVALS * _LONGEST_INTERVAL)
"""A report that is older is stale, whatever its interval is."""


class Freshness:
    """`tick` gives monotonic seconds; `stale_after` is in seconds."""

    def __init__(self, stale_after: float, tick: Callable[[], float]) -> None:
        self._stale_after = stale_after
        self._tick = tick
        self._seen: dict[tuple[str, Sign], float] = {}
        self._reported: dict[str, float] = {}
        """When each node's report was written, as far as is known."""

    def note_change(self, node: str, sign: Sign) -> None:
        """Note that the node's agent wrote this just now."""
        self._seen[node, sign] = self._tick()
        if sign == "report":
            self._reported[node] = self._tick()

    def note_list(self, node: str, sign: Sign, written_at: datetime | None, now: datetime) -> None:
        """Note what came in a list, and count its own age; `now` is the API server's time.

        A date in the future has no age: the next renewal will have one.
        """
        age = None if written_at is None else (now - written_at).total_seconds()
        seen = self._tick() - max(age or 0.0, 0.0)
        if sign == "report":
            # A list may be older than a change that was seen before.
            self._reported[node] = max(seen, self._reported.get(node, seen))
        if age is not None and age >= -_AHEAD:
            self._seen[node, sign] = max(seen, self._seen.get((node, sign), seen))

    def forget(self, node: str) -> None:
        self._reported.pop(node, None)
        for sign in _SIGNS:
            self._seen.pop((node, sign), None)

    def why_stale(self, node: str, report_interval: float | None = None) -> str:
        """Return why the node's report is not trusted now, "" when it is fresh.

        The youngest sign counts. With `report_interval` (seconds) the report itself must not be
        older than two of them.
        """
        seen = [self._seen.get((node, sign)) for sign in _SIGNS]
        youngest = max((at for at in seen if at is not None), default=None)
        if youngest is None:
            return f"the agent of {node} has not reported yet"
        now = self._tick()
        if now - youngest > self._stale_after:
            return f"the agent of {node} has not reported for more than {self._stale_after:g} s"
        written = self._reported.get(node)
        if report_interval is None or written is None:
            return ""
        longest = _INTERVALS * max(self._stale_after, min(report_interval, _LONGEST_INTERVAL))
        if now - written > longest:
            return f"the report of {node} is older than {longest:g} s, two of its intervals"
        return ""


class Renewals:
    """When agents confirmed their reports, by the clock of this process.

    A renewal confirms the report that is stored when its Lease is seen: both carry one hash. It
    is kept in memory alone, so a restart of this process counts anew, which only delays an
    untaint.
    """

    def __init__(self) -> None:
        self._confirmed: dict[str, deque[datetime]] = {}
        self._latest: dict[str, str] = {}

    def note_renewal(self, node: str, content_hash: str, stored: str, now: datetime) -> None:
        """Take in one renewal, and the hash of the report as it is stored."""
        self._latest[node] = content_hash
        if content_hash and content_hash == stored:
            kept = self._confirmed.setdefault(node, deque(maxlen=RENEWALS_NEEDED))
            kept.append(now)

    def note_list(self, node: str, content_hash: str) -> None:
        """Take in the last renewal from a list; it does not count, as its time is unknown here."""
        self._latest[node] = content_hash

    def is_overtaken(self, node: str, stored: str) -> bool:
        """Whether the last renewal carries the hash of another report than the stored one."""
        latest = self._latest.get(node, "")
        return bool(latest and stored) and latest != stored

    def of(self, node: str, stored: str) -> tuple[datetime, ...]:
        """Return the last confirmations; () while the present report has none."""
        if not stored or self._latest.get(node) != stored:
            return ()
        return tuple(self._confirmed.get(node, ()))

    def forget(self, node: str) -> None:
        self._latest.pop(node, None)
        self._confirmed.pop(node, None)


TRUSTED = timedelta(seconds=30)
"""How far apart the dates of two replicas may be: far less than any soak time, and more than a busy
API server needs for an answer."""


def clock_doubt(ahead: timedelta) -> str:
    """Return why no time that we count may end now, "" when it may.

    `ahead` is how far our clock is ahead of the API server's, negative where it is behind.
    """
    if abs(ahead) <= TRUSTED:
        return ""
    # Without the figure: it is in a metric, and would make each status another one.
    return f"our clock and the API server's are more than {TRUSTED.total_seconds():.0f} s apart"
