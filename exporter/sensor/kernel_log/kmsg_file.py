"""A file of kernel-log records that grows, in the place of /dev/kmsg: simulated nodes have one."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from exporter.sensor.kernel_log import driver_lines
from kubeapi import clock

LONGEST_RECORD = 1 << 16
"""Bytes. The kernel's own limit is 8 KiB with continuation lines."""

_POLL_SECONDS = 0.01
"""Between looks at the file; the device wakes its readers."""


class KernelLogError(Exception):
    """The log cannot be read; `reason` is a stable word, the message says what to do."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Replaced(Exception):  # noqa: N818 - the ordinary sign of a reboot
    """The file is another one than before, or was cut: another boot."""


class RecordFile:
    """An open file. `ends` says when it must be let go, `on_rejected` takes a reason."""

    def __init__(
        self,
        path: Path,
        descriptor: int,
        ends: Callable[[], bool],
        on_rejected: Callable[[str], None],
    ) -> None:
        self._path = path
        self._descriptor = descriptor
        self._ends = ends
        self._on_rejected = on_rejected

    def boot_time(self) -> datetime:
        """Work out when the log's clock began: its last record was written at its mtime."""
        newest = timedelta()
        with contextlib.suppress(OSError):
            with self._path.open("rb") as file:
                while line := file.readline(LONGEST_RECORD):
                    with contextlib.suppress(driver_lines.Rejected):
                        newest = max(newest, driver_lines.split(line).since_boot)
            with contextlib.suppress(OverflowError):
                written = datetime.fromtimestamp(self._path.stat().st_mtime, clock.now().tzinfo)
                return written - newest
        return clock.now()

    def records(self) -> Iterator[bytes | None]:
        """Give records, None whenever all that was written is read.

        Raises Replaced when the file is another one or was cut, KernelLogError
        when it cannot be read.
        """
        rest = b""
        skipping = False
        checked = time.monotonic()
        while not self._ends():
            try:
                piece = os.read(self._descriptor, LONGEST_RECORD)
            except OSError as error:
                raise KernelLogError("ReadFailed", f"{self._path}: {error}") from error
            if not piece:
                yield None
                if time.monotonic() - checked > 10 * _POLL_SECONDS:
                    checked = time.monotonic()
                    self._check_same()
                time.sleep(_POLL_SECONDS)
                continue
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if skipping:
                    skipping = False
                elif line and not line.startswith(b" "):  # ` KEY=value` belongs to the one before
                    yield line
            if skipping:
                rest = b""
            elif len(rest) > LONGEST_RECORD:
                rest, skipping = b"", True
                self._on_rejected("too_long")

    def _check_same(self) -> None:
        ours = os.fstat(self._descriptor)
        try:
            there = self._path.stat()
        except OSError as error:
            raise Replaced from error
        if (there.st_ino, there.st_dev) != (ours.st_ino, ours.st_dev):
            raise Replaced
        if there.st_size < os.lseek(self._descriptor, 0, os.SEEK_CUR):
            raise Replaced
