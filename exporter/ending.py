"""How a process is asked to end.

A signal handler runs in the middle of whatever the main thread does, also of
`Event.set`, whose lock it would then wait for for ever when a second signal
comes. So handlers only put into a queue that allows it, and the main thread
takes from there.
"""

import signal
import threading
from queue import SimpleQueue
from types import FrameType


class Ending:
    """`asked` is set once the process should end; only the main thread waits for signals."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._signals: SimpleQueue[int] = SimpleQueue()

    def listen(self, *numbers: signal.Signals) -> None:
        """Take these signals as the wish to end."""
        for number in numbers:
            signal.signal(number, self._heard)

    def await_signal(self) -> None:
        """Return when the process was asked to end."""
        self._signals.get()
        self.asked.set()

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        self._signals.put(number)
