"""What a test file changes of its process: the files that run there after it would live with it."""

import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

State = Mapping[str, object]
PATIENCE = 120.0
"""Seconds for threads that were told to end and have not ended yet."""
_SOON = 0.5
_of_the_session: set[threading.Thread] = set()


@contextmanager
def kept() -> Generator[None]:
    """Threads that are started inside belong to the session: no file need end them."""
    before = set(threading.enumerate())
    yield
    _of_the_session.update(set(threading.enumerate()) - before)


def state() -> State:
    """Return what there is of a process that its test files share, threads apart."""
    return {name: look() for name, look in _LOOKS.items()}


def changes(before: State) -> list[str]:
    """Return what is otherwise than it was, as sentences."""
    return [
        f"{name} was {before[name]!r} and is {value!r}"
        for name, value in state().items()
        if value != before[name]
    ]


def threads(before: set[threading.Thread], patience: float) -> list[str]:
    """Return the names of threads that came since and do not end."""
    deadline = time.monotonic() + patience
    while left := set(threading.enumerate()) - before - _of_the_session:
        if time.monotonic() > deadline:
            break
        late = time.monotonic() > deadline - patience + _SOON
        if late:
            # The threads of a pool that nobody has any more end once it is collected.
            gc.collect()
        time.sleep(_SOON if late else 0.02)
    return sorted(thread.name for thread in left)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def _handlers() -> dict[int, object]:
    # SIGALRM is pytest-timeout's, which sets it for each test.
    return {
        number: signal.getsignal(number)
        for number in signal.valid_signals()
        if number != signal.SIGALRM
    }


def _silenced() -> list[str]:
    loggers = list(logging.Logger.manager.loggerDict.items())  # a thread may add one meanwhile
    return sorted(name for name, logger in loggers if getattr(logger, "disabled", False))


def _mask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


_LOOKS: Mapping[str, Callable[[], object]] = {
    "the environment": _environment,
    "the working directory": Path.cwd,
    "the umask": _mask,
    "the signal handlers": _handlers,
    "the default time limit of sockets": socket.getdefaulttimeout,
    "sys.path": lambda: list(sys.path),
    "sys.argv": lambda: list(sys.argv),
    "the hook of failing threads": lambda: threading.excepthook,
    "the collector of cycles": gc.isenabled,
    "the level below which nothing is logged": lambda: logging.root.manager.disable,
    "the level of the root logger": lambda: logging.root.level,
    "the handlers of the root logger": lambda: list(logging.root.handlers),
    "the loggers that are silenced": _silenced,
}
