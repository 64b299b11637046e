"""Nodes that wait for a decision, each at most once.

Two lanes. Where a disruption or restriction may be due (a report changed, a taint waits for its
next step) the newest goes first: in a burst, what just failed is tainted before what has been
tainted already is looked at again. All others go oldest first. Each fourth take is the oldest of
both lanes, so that neither untainting nor an old fault waits for the end of a burst.
"""

import heapq
import threading
from collections.abc import Callable
from time import monotonic

EVERY = 4
"""One take in so many is the oldest node, whichever lane it is in."""


class Queue:
    """Thread-safe. Times are seconds of `clock`, which never goes back."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._urgent: dict[str, float] = {}
        self._rest: dict[str, float] = {}
        """Both by node, in order of coming: since when it waits."""
        self._later: dict[str, tuple[float, bool]] = {}
        """By node: when it comes due, and whether it is urgent then."""
        self._dates: list[tuple[float, str]] = []
        """A heap over `_later`; entries that were overtaken are skipped."""
        self._takes = 0
        self._changed = threading.Condition()

    def add(self, node: str, delay: float = 0.0, *, urgent: bool = False) -> None:
        """Add a node that is due after `delay` seconds, or sooner if it was added so before."""
        with self._changed:
            if delay <= 0:
                self._put(node, urgent=urgent)
            # A node that is due already needs no date.
            elif node not in self._urgent and node not in self._rest:
                date = self._clock() + delay
                known, was_urgent = self._later.get(node, (date, False))
                self._later[node] = (min(known, date), urgent or was_urgent)
                heapq.heappush(self._dates, (min(known, date), node))
            self._changed.notify()

    def take(self, timeout: float) -> str | None:
        """Return the next node, None when none came due in `timeout` seconds."""
        until = self._clock() + timeout
        with self._changed:
            while True:
                now = self._clock()
                self._ripen(now)
                if self._urgent or self._rest:
                    return self._take_next()
                if now >= until:
                    return None
                self._changed.wait(min(until, self._dates[0][0] if self._dates else until) - now)

    def has_urgent(self) -> bool:
        """Whether a node waits where a disruption or restriction may be due."""
        with self._changed:
            return bool(self._urgent)

    def age(self) -> float:
        """Return for how many seconds the oldest node has waited beyond its date."""
        with self._changed:
            self._ripen(self._clock())
            since = [next(iter(lane.values())) for lane in (self._urgent, self._rest) if lane]
            return self._clock() - min(since) if since else 0.0

    def __len__(self) -> int:
        """How many nodes are due now."""
        with self._changed:
            self._ripen(self._clock())
            return len(self._urgent) + len(self._rest)

    def _put(self, node: str, *, urgent: bool) -> None:
        if node in self._urgent or (node in self._rest and not urgent):
            return
        date, was_urgent = self._later.pop(node, (self._clock(), False))
        # It keeps the time since when it waits, also when it becomes urgent.
        since = self._rest.pop(node, min(date, self._clock()))
        (self._urgent if urgent or was_urgent else self._rest)[node] = since

    def _ripen(self, now: float) -> None:
        while self._dates and self._dates[0][0] <= now:
            date, node = heapq.heappop(self._dates)
            # Otherwise it was taken, or added with an earlier date, since this entry was made.
            if self._later.get(node, (None, False))[0] == date:
                self._put(node, urgent=False)

    def _take_next(self) -> str:
        self._takes += 1
        if self._takes % EVERY == 0:
            lane = min(
                (candidate for candidate in (self._urgent, self._rest) if candidate),
                key=lambda waiting: next(iter(waiting.values())),
            )
            node = next(iter(lane))
            del lane[node]
            return node
        if self._urgent:
            # `popitem` takes the newest entry.
            return self._urgent.popitem()[0]
        node = next(iter(self._rest))
        del self._rest[node]
        return node
