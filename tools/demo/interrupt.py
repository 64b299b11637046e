"""Handles Ctrl-C: the demo ends in order, never while something is being started or ended."""

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Turns the signals that ask a program to end into KeyboardInterrupt."""

    def __init__(self) -> None:
        self._held = 0
        self._requested = False

    @contextmanager
    def installed(self) -> Generator[None]:
        """Listen to the signals; only a main thread can do this."""
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def held(self) -> Generator[None]:
        """Defer an interrupt to the end of the block.

        Ctrl-C also reaches a program that the block waits for, so its failure is not an error then.
        """
        self._held += 1
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            if not self._requested:
                raise
            failure = error
        finally:
            self._held -= 1
        if self._requested and not self._held:
            self._requested = False
            raise KeyboardInterrupt from failure

    @contextmanager
    def ignored(self) -> Generator[None]:
        """Ignore signals during cleanup, which has a time limit."""
        self._held += 1
        try:
            yield
        finally:
            self._requested = False
            self._held -= 1

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._held:
            self._requested = True
            # Past all buffers: the signal may have come in the middle of a print.
            os.write(sys.stderr.fileno(), b"\nending, as soon as this step is done\n")
        else:
            raise KeyboardInterrupt
