"""Ends this process when its parent does, whatever the parent dies of."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send a signal when the parent's starting thread ends.

    Exits at once when the parent is gone already. What a terminal sends to all of a
    group (SIGHUP, SIGINT) is the parent's to understand.
    """
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:
        sys.exit(0)
