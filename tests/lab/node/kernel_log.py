"""The kernel log of a node whose journald is real: the machine's, with the driver's lines in it.

The machine's kernel takes lines from user space as a user's, so that in syslog(2) they stay a
user's. On their way to journald those that a test wrote become the kernel's, at the same time.
"""

import os
import select
import threading
from pathlib import Path
from queue import Queue
from types import TracebackType
from typing import Self

from exporter.sensor.kernel_log.kmsg import DEVICE, device_records
from exporter.sensor.kernel_log.kmsg_file import LONGEST_RECORD
from tests.exporter.running import PATIENCE
from tests.lab.journald import Journald

_LOOK_MILLISECONDS = 50
_LEVEL = 7
"""The bits of a priority that are no facility."""


class NodeLog:
    """Passes the records of this boot on to journald while it is entered."""

    def __init__(self, journald: Journald) -> None:
        self._journald = journald
        self._printed: set[str] = set()
        self._taken: Queue[str] = Queue()
        self._passed = threading.Event()
        """What was there at the start."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._pass_on, name="node log")

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._passed.wait(PATIENCE), "journald does not take the records of this boot"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def print(self, text: str) -> None:
        """Have the kernel print a line, as far as journald can know; returns when that took it."""
        self._printed.add(text)
        Path(DEVICE).write_text(f"<4>{text}\n", encoding="ascii")
        assert self._taken.get(timeout=PATIENCE) == text

    def _pass_on(self) -> None:
        descriptor = os.open(DEVICE, os.O_RDONLY | os.O_NONBLOCK)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        with os.fdopen(descriptor, "rb", buffering=0):
            for raw in device_records(
                lambda: os.read(descriptor, LONGEST_RECORD),
                lambda: poll.poll(_LOOK_MILLISECONDS),
                self._stopping.is_set,
                lambda _: None,
            ):
                if raw is None:
                    self._passed.set()
                else:
                    head, _, text = raw.decode().splitlines()[0].partition(";")
                    priority, _, microseconds, *_ = head.split(",")
                    level, is_printed = int(priority), text in self._printed
                    level = level & _LEVEL if is_printed else level
                    self._journald.print(int(microseconds) / 1e6, text, level)
                    if is_printed:
                        self._taken.put(text)
