"""A kernel log that wakes its readers and gives one record a read, as /dev/kmsg does.

A terminal in line mode: a character device that can be polled. A plain file, as simulated nodes
have it elsewhere, must be looked at a hundred times a second, which would be measured as well.
"""

import os
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from simulator.kernel_log import ERROR, KERNEL, KernelLog, record


class KernelLogDevice(KernelLog):
    """Takes the place of a simulated node's kernel log; lines are written by this process only."""

    def __init__(self) -> None:
        self._writing, self._reading = os.openpty()
        super().__init__(Path(os.ttyname(self._reading)))
        _, _, cflag, lflag, *rest = termios.tcgetattr(self._reading)
        lflag = lflag & ~(termios.ECHO | termios.ISIG) | termios.ICANON
        termios.tcsetattr(self._reading, termios.TCSANOW, [0, 0, cflag, lflag, *rest])
        self._number = 0
        self._printed: list[str] = []

    def close(self) -> None:
        os.close(self._writing)
        os.close(self._reading)

    def text(self) -> str:
        return "\n".join(self._printed)

    def write_all(
        self,
        messages: list[str],
        *,
        facility: int = KERNEL,
        level: int = ERROR,
        keys: Mapping[str, str] | None = None,
    ) -> int:
        """Append records and return the sequence number of the last."""
        now = time.monotonic_ns() // 1000
        for count, message in enumerate(messages):
            whole = record(
                message,
                sequence=self._number,
                microseconds=now + count,
                facility=facility,
                level=level,
                keys=keys,
            )
            while whole:
                whole = whole[os.write(self._writing, whole) :]
            self._number += 1
        self._printed = [*self._printed, *messages][-100:]
        return self._number - 1
