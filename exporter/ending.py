"""How a process is asked to end, or to read its files again.

A signal handler runs in the middle of whatever the main thread does, also of
`Event.set`, whose lock it would then wait for for ever when a second signal
comes. So handlers only put into a queue that allows it, and the main thread
takes from there.
"""

import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType


class Ending:
    """`asked` is set once the process should end; only the main thread waits for signals."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._signals: SimpleQueue[int] = SimpleQueue()
        self._on_hangup: Callable[[], None] = lambda: None

    def listen(self, *numbers: signal.Signals) -> None:
        """Take these signals as the wish to end."""
        for number in numbers:
            signal.signal(number, self._heard)

    def on_hangup(self, act: Callable[[], None]) -> None:
        """Do this on the main thread whenever SIGHUP comes; before it is said, nothing."""
        self._on_hangup = act

    def await_signal(self) -> None:
        """Return when the process was asked to end."""
        while self._signals.get() == signal.SIGHUP:
            self._on_hangup()
        self.asked.set()

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        self._signals.put(number)
