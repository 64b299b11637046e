"""Limits the rate of our writes, and stops them all while the API server requests a pause.

New taints and deletions go at once, because waiting makes nothing safer. They are charged all the
same, so everything else makes room. While nodes that just failed wait, writes that only report
taints make way for them. While everything else uses up the rate, Events get a small share of it:
evictions come first. Nothing sleeps here: a write that must wait gets the time of its next try, and
the taints of other nodes go on meanwhile.
"""

import threading
from collections.abc import Callable
from time import monotonic

LONGEST_PAUSE = 60.0
"""Seconds for which one answer of the API server may stop us."""
AFTER_THE_HURRY = 1.0
"""Seconds after which a write that made way tries again."""
LONGEST_HURRY = 10.0
"""Seconds without a break for which writes make way: a storm without end is reported, too."""
NEWS = 4
"""While there is other work, one write in so many is an Event."""


class PacedError(Exception):
    """A write has to wait; nothing was sent."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"waits {seconds:.2f} s for its turn to write")
        self.seconds = seconds


class Pace:
    """A token bucket: `per_second` writes in the long run, `burst` at once. Thread-safe.

    `has_urgent` returns whether some node waits that may have to be tainted.
    """

    def __init__(
        self,
        per_second: float,
        burst: float,
        clock: Callable[[], float] = monotonic,
        has_urgent: Callable[[], bool] = lambda: False,
    ) -> None:
        self.has_urgent = has_urgent
        self._hurried_since: float | None = None
        self._rate, self._burst, self._clock = per_second, burst, clock
        self._tokens, self._filled_at = burst, clock()
        self._paused_until = self._slot = self._urgent_at = clock()
        self._guard = threading.Lock()

    def ask(self, *, urgent: bool = False, patient: bool = False) -> float:
        """Return 0 and charge a write that may go now, else the seconds to wait with it.

        A `patient` one makes way while there is a hurry.
        """
        with self._guard:
            now = self._refill()
            if now < self._paused_until:
                return self._next_turn(self._paused_until)
            if patient and not urgent and self._makes_way(now):
                return self._next_turn(now + AFTER_THE_HURRY)
            if urgent or self._tokens >= 1:
                # An urgent write may leave a debt, for which the others wait; it is bounded.
                self._tokens = max(self._tokens - 1, -self._burst)
                return 0.0
            return self._next_turn(now + (1 - self._tokens) / self._rate)

    def ask_for_event(self) -> float:
        """Return 0 and charge an Event that may go now, else the seconds to wait with it."""
        with self._guard:
            now = self._refill()
            turn = max(self._urgent_at + NEWS / self._rate, self._paused_until)
            idle = self._tokens >= 1 + self._burst / 2 and now >= self._paused_until
            # Less than a whole token is enough: others take each one as soon as it comes.
            if idle or (now >= turn and self._tokens > 0):
                self._tokens, self._urgent_at = self._tokens - 1, now
                return 0.0
            return max(turn - now, 1 / self._rate)

    def pause(self, seconds: float) -> None:
        """Send nothing for so long, as the API server requested."""
        with self._guard:
            until = self._clock() + min(seconds, LONGEST_PAUSE)
            self._paused_until = max(self._paused_until, until)

    def _refill(self) -> float:
        """Add the tokens that came since the last time; return the time."""
        now = self._clock()
        filled = self._tokens + (now - self._filled_at) * self._rate
        self._tokens, self._filled_at = min(self._burst, filled), now
        return now

    def _makes_way(self, now: float) -> bool:
        if not self.has_urgent():
            self._hurried_since = None
            return False
        if self._hurried_since is None:
            self._hurried_since = now
        return now - self._hurried_since < LONGEST_HURRY

    def _next_turn(self, soonest: float) -> float:
        """Give out turns one after the other, so that not all waiting writes try again at once."""
        self._slot = max(self._slot + 1 / self._rate, soonest)
        return self._slot - self._clock()
