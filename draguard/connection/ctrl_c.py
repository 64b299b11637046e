"""Ctrl-C while threads work: put off to a place where it does no harm.

Python raises KeyboardInterrupt wherever its main thread is. Where that is between taking a lock and
the block that gives it back, the lock stays taken, and whoever wants it waits for ever
(bugs.python.org/issue29988); a pool of threads has several such locks.
"""

import signal
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def put_off() -> Generator[None]:
    """Let a Ctrl-C come at the end of the block. Threads made inside do not get it either."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def is_waiting() -> bool:
    """Say whether one was put off."""
    return signal.SIGINT in signal.sigpending()
