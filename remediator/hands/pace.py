"""How fast we write: never faster than agreed, and not at all while a server asks us to wait.

New fences and deletions go at once, because nothing gets safer by their
waiting; they are charged all the same, so that everything else makes room.
Nobody sleeps here: who may not write yet is told when to ask again, and the
fences of other nodes go on meanwhile.
"""

import threading
from collections.abc import Callable
from time import monotonic

LONGEST_PAUSE = 60.0
"""Seconds that a server may stop us for with one answer."""


class PacedError(Exception):
    """A write has to wait; nothing was sent."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"waits {seconds:.2f} s for its turn to write")
        self.seconds = seconds


class Pace:
    """A token bucket: `per_second` writes in the long run, `burst` at once. Thread-safe."""

    def __init__(
        self, per_second: float, burst: float, clock: Callable[[], float] = monotonic
    ) -> None:
        self._rate, self._burst, self._clock = per_second, burst, clock
        self._tokens, self._filled_at = burst, clock()
        self._paused_until = self._slot = clock()
        self._guard = threading.Lock()

    def ask(self, *, urgent: bool = False) -> float:
        """Return 0 and charge a write that may go now, else the seconds to wait with it."""
        with self._guard:
            now = self._clock()
            filled = self._tokens + (now - self._filled_at) * self._rate
            self._tokens, self._filled_at = min(self._burst, filled), now
            if now < self._paused_until:
                return self._turn(self._paused_until)
            if urgent or self._tokens >= 1:
                self._tokens = max(self._tokens - 1, -self._burst)
                return 0.0
            return self._turn(now + (1 - self._tokens) / self._rate)

    def pause(self, seconds: float) -> None:
        """Let nothing go for so long: the server said so."""
        with self._guard:
            until = self._clock() + min(seconds, LONGEST_PAUSE)
            self._paused_until = max(self._paused_until, until)

    def _turn(self, soonest: float) -> float:
        """Hand out turns one after the other, so that not all who wait ask again at once."""
        self._slot = max(self._slot + 1 / self._rate, soonest)
        return self._slot - self._clock()
