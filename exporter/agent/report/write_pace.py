"""When a report is written: at once on a change, in a storm once a second, else by the interval.

Pure: moments are seconds of a clock that is never set.
"""

from collections import deque
from collections.abc import Sequence

_PACE = ((2, 1.0), (3, 3.0))
"""At most so many writes in so many seconds: an XID, the recovery action read after it and the
event that names its slice follow each other quickly, and a storm is one write a second."""


class Pace:
    """Remembers what was written last, and when."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._written: object = None
        self._begins: deque[float] = deque(maxlen=max(most for most, _ in _PACE))
        self.due = 0.0
        """The moment from which the report is written though nothing has changed."""

    def wants(self, key: object, now: float) -> bool:
        """Say whether a report with this `outline.change_key` is to be written now."""
        return key != self._written or now >= self.due

    def accepted(self, key: object, begun: float) -> float:
        """Take note of a write; return the moment from which the next one keeps the pace."""
        self._written, self.due = key, begun + self._interval
        self._begins.append(begun)
        return next_slot(self._begins)

    def refused(self) -> None:
        """Have whatever is newest then written after the pause, changed or not."""
        self._written, self.due = None, 0.0


def next_slot(begins: Sequence[float]) -> float:
    """Return the moment from which one more write keeps the pace."""
    return max((begins[-most] + span for most, span in _PACE if len(begins) >= most), default=0.0)
