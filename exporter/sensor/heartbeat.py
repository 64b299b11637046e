"""Whether the sensor makes progress: a time that it notes, and the answer for a liveness probe.

A thread takes the locks under which everything in the sensor happens, and then notes the time. In a
deadlock it waits, too, and the time stays. A vendor library that hangs, a GPU that does not answer,
a driver that sleeps in the kernel: all that is in child processes, or in threads that hold no lock
meanwhile, so the time goes on, and no probe restarts a sensor for it. A thread that ends by an
error ends the process by itself (`exporter.shutdown`).

The note is the time stamp of the socket's file: nothing is written, so a full disk is no matter.
"""

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

EVERY = 5.0
"""Seconds between two times."""
STALLED = 60.0
"""Seconds without a new time after which the sensor is stalled. A busy machine is slow."""


class Heartbeat:
    """The thread; each of `locks` takes one lock and gives it back."""

    def __init__(self, socket: Path, locks: Sequence[Callable[[], None]]) -> None:
        self._socket = socket
        self._locks = locks
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(EVERY)

    def _run(self) -> None:
        while not self._stopping.is_set():
            for lock in self._locks:
                lock()
            # The kernel's own clock: that on the wall may be set. The agent may write to this
            # folder, so a link is not followed. Without the socket there is nothing to note: no
            # agent can come either, and the probe says so.
            now = time.monotonic_ns()
            with contextlib.suppress(OSError):
                os.utime(self._socket, ns=(now, now), follow_symlinks=False)
            self._stopping.wait(EVERY)


def stalled(socket: Path, now: float) -> str:
    """Return why the sensor at a socket is not alive at a monotonic time, "" when it is.

    A socket that is new has the time on the wall, which is later than any monotonic one.
    """
    try:
        found = socket.lstat()
    except OSError as error:
        return f"{socket} is not there ({error.strerror or error}): no sensor serves"
    if not stat.S_ISSOCK(found.st_mode):
        return f"{socket} is not a socket: no sensor serves"
    age = now - found.st_mtime
    return f"the sensor has made no progress for {age:.0f} s" if age > STALLED else ""
