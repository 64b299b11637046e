"""One vendor process: how it is started, what its end is called, how it is reaped."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping

from exporter import protocol
from exporter.model.readings import CallNote, Hang
from exporter.sensor.supervisor import resource_limits

REAP_SECONDS = 5.0
"""A process that is not gone so long after SIGKILL sleeps in the kernel."""


class Ended(Exception):  # noqa: N818 - how a child's life ended
    """The reason is a stable word, the message says what to do."""

    def __init__(self, reason: str, message: str, hang: Hang | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.hang = hang


def not_started(title: str, error: OSError) -> Ended:
    """Processes, memory or descriptors are used up, which may be over in a moment."""
    text = f"the {title} process cannot be started ({error}); see the limits of the sensor"
    return Ended("NotStarted", text)


def hung(title: str, note: CallNote, hang: Hang) -> Ended:
    """A call did not come back."""
    known = f" ({hang.uuid})" if hang.uuid else ""
    where = title if hang.gpu is None else f"GPU {hang.gpu}{known}"
    return Ended(
        "Hung",
        f"{where} hangs in {note.call} for {note.seconds:.0f} s; the {title} process is killed "
        "and started again. If this goes on, drain the node and reset the GPU",
        hang,
    )


def slow(title: str, seconds: float, hang: Hang | None) -> Ended:
    """A whole sample takes too long, though every call comes back; `hang`: the one that is made."""
    where = f"; it is at GPU {hang.gpu}, in {hang.call}" if hang else ""
    return Ended("Slow", f"{title} needs more than {seconds:.0f} s for one sample{where}", hang)


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
        self.channel = protocol.Channel(ours)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def listen(self, take: Callable[[protocol.FromChild | None], None]) -> None:
        """Hand on what the process says, on a thread of its own; None when it says no more.

        Raises OSError when there is no room for one thread more.
        """
        thread = threading.Thread(
            target=self._hear, args=(take,), name=f"{self._title} child", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            self.channel.close()
            raise OSError(errno.EAGAIN, str(error)) from error

    def _hear(self, take: Callable[[protocol.FromChild | None], None]) -> None:
        try:
            while True:
                take(self.channel.receive(protocol.from_child))
        except protocol.WireError:
            take(None)
        finally:
            # Here alone: closed by another thread, the descriptor could be that of the next process
            # by the time that this one reads from it.
            self.channel.close()

    def taken(self) -> resource_limits.Taken | None:
        return resource_limits.taken(self.pid)

    def death(self) -> Ended:
        """Say how a process that closed its socket came to its end."""
        title = self._title
        try:
            code = self._popen.wait(REAP_SECONDS)
        except subprocess.TimeoutExpired:
            return Ended("Crashed", f"the {title} process closed its socket and did not end")
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"signal {-code}"
            return Ended("Crashed", f"the {title} process was ended by {name}; it is started again")
        return Ended(
            "Crashed", f"the {title} process ended by itself with code {code}; see its output"
        )

    def end(self) -> bool:
        """Kill and reap; returns whether it is gone."""
        self._popen.kill()
        self.channel.end()
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
