"""Whether the sensor makes progress: a time that it writes, and the answer for a liveness probe.

A thread takes the locks under which everything in the sensor happens, and then writes the time into
a file beside the socket. In a deadlock it waits, too, and the time stays. A vendor library that
hangs, a GPU that does not answer, a driver that sleeps in the kernel: all that is in child
processes, or in threads that hold no lock meanwhile, so the time goes on, and no probe restarts a
sensor for it. A thread that ends by an error ends the process by itself (`exporter.shutdown`).
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

EVERY = 5.0
"""Seconds between two times."""
STALLED = 60.0
"""Seconds without a new time after which the sensor is stalled. A busy machine is slow."""
_LONGEST = 64


def beside(socket: Path) -> Path:
    """Return the file of the sensor that serves at a socket."""
    return socket.with_name(f"{socket.name}.alive")


class Heartbeat:
    """The thread; each of `locks` takes one lock and gives it back."""

    def __init__(self, file: Path, locks: Sequence[Callable[[], None]]) -> None:
        """Make the file. Raises OSError."""
        self._file = file
        self._locks = locks
        # The agent may write to this folder. It must not make the sensor write to another file.
        file.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(file, flags, 0o640)
        self._stopping = threading.Event()
        self._beat()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(EVERY)
        self._file.unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._stopping.wait(EVERY):
            for lock in self._locks:
                lock()
            self._beat()

    def _beat(self) -> None:
        # Not the clock on the wall, which may be set. As long as the one before, or longer.
        text = f"{time.monotonic():.3f}\n".encode("ascii")
        os.pwrite(self._descriptor, text, 0)


def stalled(file: Path, now: float) -> str:
    """Return why the sensor of a file is not alive at a monotonic time, "" when it is."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            text = os.read(descriptor, _LONGEST)
        finally:
            os.close(descriptor)
        age = now - float(text)
    except (OSError, ValueError) as error:
        return f"{file} cannot be read ({error}): no sensor runs there, or another user's"
    if age <= STALLED:
        return ""
    return f"the sensor has made no progress for {age:.0f} s"
