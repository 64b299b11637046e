"""Ctrl-C at any moment: an end in order, never in the middle of starting or ending something."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Turns the signals that ask a program to end into KeyboardInterrupt."""

    def __init__(self) -> None:
        self._held = 0
        self._asked = False

    def install(self) -> None:
        """Only a main thread can do this."""
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    @contextmanager
    def held(self) -> Generator[None]:
        """Let what is inside finish first; an interrupt in the meantime comes at its end."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if self._asked and not self._held:
            self._asked = False
            raise KeyboardInterrupt

    @contextmanager
    def ignored(self) -> Generator[None]:
        """Do not be disturbed any more: for the cleaning up, which is bounded in time."""
        self._held += 1
        try:
            yield
        finally:
            self._asked = False
            self._held -= 1

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._held:
            self._asked = True
        else:
            raise KeyboardInterrupt
