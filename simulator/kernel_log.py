"""Writes a kernel log in the record format of /dev/kmsg, into a file that only grows.

A record is `<facility*8+level>,<sequence>,<microseconds since boot>,<flags>;<message>`
and then ` KEY=value` lines (kernel: Documentation/ABI/testing/dev-kmsg). What the
NVIDIA driver writes is composed in `simulator.driver_messages`.
"""

import fcntl
import os
import time
from collections.abc import Mapping
from pathlib import Path

KERNEL, USER = 0, 1
"""Facilities; whatever user space writes to /dev/kmsg never gets 0."""
ERROR = 3
"""Level of the driver's own error lines."""


def record(
    message: str,
    *,
    sequence: int,
    microseconds: int,
    facility: int = KERNEL,
    level: int = ERROR,
    keys: Mapping[str, str] | None = None,
) -> bytes:
    r"""Compose one record; what is not printable ASCII, and backslashes, become `\xNN`."""
    head = f"{facility * 8 + level},{sequence},{microseconds},-;{_escaped(message)}\n"
    return (head + "".join(f" {k}={_escaped(v)}\n" for k, v in (keys or {}).items())).encode()


def _escaped(text: str) -> str:
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte != ord("\\") else f"\\x{byte:02x}"
        for byte in text.encode()
    )


class KernelLog:
    """The log of one node. Several processes may write; each record is written whole.

    Times are the machine's own since boot, as in a real log, so that a reader can
    turn them into times of day; a simulated reboot does not set them back.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = -1
        self._next = 0

    def reboot(self) -> None:
        """Start an empty log whose sequence begins at 0."""
        self.path.unlink(missing_ok=True)
        self.path.touch()
        self._size, self._next = 0, 0

    def write(
        self,
        message: str,
        *,
        facility: int = KERNEL,
        level: int = ERROR,
        keys: Mapping[str, str] | None = None,
    ) -> int:
        """Append one record and return its sequence number."""
        return self.write_all([message], facility=facility, level=level, keys=keys)

    def write_all(
        self,
        messages: list[str],
        *,
        facility: int = KERNEL,
        level: int = ERROR,
        keys: Mapping[str, str] | None = None,
    ) -> int:
        """Append several records at one go and return the sequence number of the last."""
        with self.path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            first = self._sequence(file.fileno())
            now = time.monotonic_ns() // 1000
            records = (
                record(
                    message,
                    sequence=first + count,
                    microseconds=now + count,
                    facility=facility,
                    level=level,
                    keys=keys,
                )
                for count, message in enumerate(messages)
            )
            self._append(file.fileno(), b"".join(records), first + len(messages))
        return self._next - 1

    def write_raw(self, data: bytes) -> None:
        """Append bytes as they are: garbage, torn records."""
        with self.path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._append(file.fileno(), data, self._sequence(file.fileno()))

    def skip(self, count: int) -> None:
        """Leave a gap in the sequence, as when the ring was overwritten before it was read."""
        self.write("simulated gap", facility=USER)
        self._next += count

    def text(self) -> str:
        return self.path.read_text(encoding="utf-8", errors="replace")

    def _append(self, file: int, data: bytes, following: int) -> None:
        os.write(file, data)
        self._size = os.fstat(file).st_size
        self._next = following

    def _sequence(self, file: int) -> int:
        """The next number; the file is read only when another process wrote to it."""
        if os.fstat(file).st_size != self._size:
            lines = self.path.read_bytes().splitlines()
            heads = [line.partition(b";")[0].split(b",") for line in lines]
            numbers = [int(head[1]) for head in heads if len(head) >= 4 and head[1].isdigit()]
            self._next = max(numbers, default=-1) + 1
        return self._next
