"""One vendor process: how it is started, what its end is called, how it is reaped."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping

from exporter import wire
from exporter.children import appetite
from exporter.readings import Hang

REAP_SECONDS = 5.0
"""A process that is not gone so long after SIGKILL sleeps in the kernel."""


class Ended(Exception):  # noqa: N818 - how a child's life ended
    """The reason is a stable word, the message says what to do."""

    def __init__(self, reason: str, message: str, hang: Hang | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.hang = hang


class Process:
    """A running `python -m MODULE SOCKET NOTES PARENT`; `title` is for sentences."""

    def __init__(
        self, module: str, title: str, notes_fd: int, environment: Mapping[str, str]
    ) -> None:
        ours, theirs = socket.socketpair()
        descriptors = (theirs.fileno(), notes_fd)
        self._title = title
        with theirs:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, (*descriptors, os.getpid()))],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # vendor libraries print there
                env={**os.environ, **environment},
            )
        self.channel = wire.Channel(ours)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def taken(self) -> appetite.Taken | None:
        return appetite.taken(self.pid)

    def death(self) -> Ended:
        """Say how a process that closed its socket came to its end."""
        title = self._title
        try:
            code = self._popen.wait(REAP_SECONDS)
        except subprocess.TimeoutExpired:
            return Ended("Crashed", f"the {title} process closed its socket and did not end")
        if code < 0:
            return Ended(
                "Crashed", f"the {title} process was ended by {_name(-code)}; it is started again"
            )
        return Ended(
            "Crashed", f"the {title} process ended by itself with code {code}; see its output"
        )

    def end(self) -> bool:
        """Kill and reap; returns whether it is gone."""
        self._popen.kill()
        self.channel.close()
        return self._gone_within(REAP_SECONDS)

    def await_end(self, stopping: Callable[[], bool]) -> None:
        """Wait for a process that sleeps in the kernel, however long."""
        while not stopping() and not self._gone_within(1.0):
            pass

    def _gone_within(self, seconds: float) -> bool:
        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
