"""How a process is asked to end, or to read its files again, and when it ends unasked.

A signal handler runs in the middle of whatever the main thread does, also of
`Event.set`, whose lock it would then wait for for ever when a second signal
comes. And it runs only when the main thread runs: a signal that comes just before
that thread begins to wait for a lock does not wake it, and is heard by nobody. So
the interpreter writes each signal into a pipe, and the main thread waits there.
"""

import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable

_log = logging.getLogger(__name__)

_HANGUP = bytes([signal.SIGHUP])
THREAD_FAILED = 70
"""Exit code of a process that ended because one of its threads did (EX_SOFTWARE of sysexits.h)."""


def end_with_any_thread() -> None:
    """End the whole process when one of its threads ends by an error that nobody expected.

    What that thread kept fresh would stay as it was, and look fresh for ever. Whoever
    started the process starts it again, and it takes up where it was.
    """
    threading.excepthook = _failed


def _failed(thread: threading.ExceptHookArgs) -> None:
    if thread.exc_type is SystemExit:
        return
    name = thread.thread.name if thread.thread else "one"
    _log.critical(
        "the thread %r ended by an error, so this process ends to be started again",
        name,
        exc_info=(thread.exc_type, thread.exc_value or thread.exc_type(), thread.exc_traceback),
    )
    # Not by a signal: the main thread may wait for the one that is gone.
    logging.shutdown()
    os._exit(THREAD_FAILED)


def _leave() -> None:
    # What the main thread waits for.
    main = threading.main_thread().ident
    stack = traceback.extract_stack(sys._current_frames()[main or 0])  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - there is no other way
    _log.warning(
        "not everything ended in time (%s); what is left ends with this process",
        " < ".join(frame.name for frame in reversed(stack[-4:])),
    )
    # 0: it was asked to. Children are ended by the kernel (`pdeathsig`).
    logging.shutdown()
    os._exit(0)


class Ending:
    """`requested` is set once the process should end; only the main thread waits for signals."""

    def __init__(self, seconds: float = 4.5) -> None:
        """`seconds` after it was asked to, the process ends whatever its threads wait for."""
        self._seconds = seconds
        self.requested = threading.Event()
        self._signals = -1
        """Each signal is one byte to be read here (`signal.set_wakeup_fd`)."""
        self._on_hangup: Callable[[], None] = lambda: None

    def listen(self, *numbers: signal.Signals) -> None:
        """Take these signals as the request to end, SIGHUP as the one to read files again."""
        self._signals, written = os.pipe()
        os.set_blocking(written, False)
        # A full pipe holds thousands that nobody has taken yet: one more would say nothing new.
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        for number in numbers:
            # What came is in the pipe; without a handler the signal would end the process.
            signal.signal(number, lambda _number, _frame: None)

    def on_hangup(self, act: Callable[[], None]) -> None:
        """Do this on the main thread whenever SIGHUP comes; before it is said, nothing."""
        self._on_hangup = act

    def await_signal(self) -> None:
        """Return when the process was asked to end."""
        while os.read(self._signals, 1) == _HANGUP:
            self._on_hangup()
        limit = threading.Timer(self._seconds, _leave)
        limit.daemon = True
        limit.start()
        self.requested.set()
