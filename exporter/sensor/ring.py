"""The bounded ring that keeps the last signals for the agent.

It lets an agent that was away take up where its report ends, and one that begins
with nothing count what left the ring long ago. Pure.
"""

from collections import deque
from collections.abc import Iterable

from exporter.model.node_health import Cursor
from exporter.model.signals import Signal
from exporter.sensor.overflow import Overflow


class Ring:
    """The last signals of one sensor run."""

    def __init__(self, run: str, boot_id: str, capacity: int = 8192) -> None:
        self.run = run
        self.boot_id = boot_id
        self.dropped = 0
        """Signals that an agent had not taken when it requested them, and that it cannot have."""
        self.last_number = 0
        self._signals: deque[Signal] = deque(maxlen=capacity)
        self._overflow = Overflow()

    def number_next(self) -> int:
        """Return the number that the next signal must carry."""
        return self.last_number + 1

    def append(self, signal: Signal) -> None:
        """Keep a signal that carries `number_next()`."""
        if len(self._signals) == self._signals.maxlen:
            self._overflow.add(self._signals[0])
        self.last_number = signal.number
        self._signals.append(signal)

    def after(self, number: int, counted_to: int | None = None) -> list[Signal]:
        """Return the kept signals above a number of this run, oldest first; counts the others.

        What has left the ring meanwhile comes first, in sums.
        Without those of kernel records up to `counted_to`: an agent may come before a new
        sensor has read so far, and must not take old records for news.
        """
        newer: list[Signal] = []
        for signal in reversed(self._signals):
            if signal.number <= number:
                break
            newer.append(signal)
        newer.reverse()
        left = self._overflow.signals(number)
        there = sum(signal.times for signal in left) + len(newer)
        newer = [*left, *newer]
        self.dropped += max(self.last_number - number - there, 0)
        return newer if counted_to is None else _above(newer, counted_to)

    def resume(self, cursor: Cursor, boot_id: str) -> list[Signal]:
        """Return what an agent with this cursor, written in boot `boot_id`, has not counted.

        Within the same sensor run the signal numbers decide. In a new run the kernel's
        sequence decides, as a new sensor reads the whole kernel log again; its NVML
        events are all new. In another boot everything is new.
        """
        seen = self.counted_to(cursor, boot_id)
        if cursor.sensor_run == self.run:
            return self.after(cursor.signal_sequence, seen)
        if seen is None:
            self.dropped += self._overflow.forgotten
            return [*self._overflow.signals(), *self._signals]
        # Which of them it has counted cannot be told: never twice.
        self.dropped += self._overflow.above(seen)
        return _above(self._signals, seen)

    def counted_to(self, cursor: Cursor, boot_id: str) -> int | None:
        """Return the last kernel record that an agent with this cursor has counted."""
        return cursor.kernel_sequence if boot_id == self.boot_id else None


def _above(signals: Iterable[Signal], kernel_sequence: int) -> list[Signal]:
    """Return the signals that are not of a kernel record up to this one."""
    return [
        signal
        for signal in signals
        if signal.kernel_sequence is None or signal.kernel_sequence > kernel_sequence
    ]
