"""Stops one thread of another process, as a lock or a file that never answers would (ptrace(2))."""

import ctypes
import os
from collections.abc import Generator
from contextlib import contextmanager

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_WALL = 0x40000000
"""Wait for threads, too (waitpid(2), __WALL)."""


@contextmanager
def stopped(thread: int) -> Generator[None]:
    """Stop a thread by its id. All of it runs on the thread that enters and leaves the block."""
    _ptrace(_SEIZE, thread)
    try:
        _ptrace(_INTERRUPT, thread)
        os.waitpid(thread, _WALL)
        yield
    finally:
        _ptrace(_DETACH, thread)


def _ptrace(request: int, thread: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    call = libc.ptrace
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    call.restype = ctypes.c_long
    if call(request, thread, None, None) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"ptrace of {thread}")
