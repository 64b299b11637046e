"""Reads the kernel log, /dev/kmsg or a file of its records that grows, and hands records on.

The whole ring is read at the start. What is wrong with the log is a state with
a sentence, never the end of the thread. Understanding is `kernel_log`'s.
"""

import contextlib
import errno
import logging
import os
import select
import stat
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from exporter import kernel_log
from exporter.report import SourceHealth
from kubeapi import clock

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.01
"""Between looks at a plain file; /dev/kmsg wakes its readers."""
_RETRY_SECONDS = 2.0
_LONGEST_RECORD = 1 << 16
"""The kernel's own limit is 8 KiB with continuation lines."""
_WAKE_SECONDS = 1.0
_LOST_RECORD = {errno.EPIPE: "overwritten", errno.EINVAL: "too_long"}
"""Answers of /dev/kmsg for records that are gone; the next read goes on behind them."""


class KernelLogError(Exception):
    """The log cannot be read; `reason` is a stable word, the message says what to do."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Replaced(Exception):  # noqa: N818 - the ordinary sign of a reboot
    """The file is another one than before, or was cut: another boot."""


class KernelLogReader:
    """A thread that calls `on_record(raw, read_at, boot_time)` for each record.

    `read_at` is None for records that were there before: their time is boot time
    plus what they say. New ones happened when they are read, as the kernel's clock
    drifts away from wall time over weeks. `on_rejected` takes a reason,
    `on_source` the state, and `on_replaced` is called before the log is read from
    its start again.
    """

    def __init__(
        self,
        path: Path,
        *,
        on_record: Callable[[bytes, datetime | None, datetime], None],
        on_rejected: Callable[[str], None],
        on_source: Callable[[SourceHealth], None],
        on_replaced: Callable[[], None],
    ) -> None:
        self._path = path
        self._on_record = on_record
        self._on_rejected = on_rejected
        self._on_source = on_source
        self._on_replaced = on_replaced
        self._restart = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kernel log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(3.0)

    def restart(self) -> None:
        """Read the log from its start again: another boot has begun."""
        self._restart.set()

    def _run(self) -> None:
        told = ""
        while not self._stopping.is_set():
            if self._restart.is_set():
                self._restart.clear()
                self._on_replaced()
            try:
                self._read()
            except Replaced:
                _log.info("%s starts again: taken as a reboot", self._path)
                self._restart.set()
            except KernelLogError as error:
                if str(error) != told:
                    _log.warning("%s", error)
                told = str(error)
                self._on_source(
                    SourceHealth(name="kmsg", up=False, reason=error.reason, message=told)
                )
                self._stopping.wait(_RETRY_SECONDS)

    def _read(self) -> None:
        descriptor = _open(self._path)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            device = stat.S_ISCHR(os.fstat(descriptor).st_mode)
            self._on_source(SourceHealth(name="kmsg", up=True, last_success=clock.now()))
            boot = _boot_of_device() if device else _boot_of_file(self._path)
            records = self._device(descriptor) if device else self._file(file.fileno())
            live = False
            for raw in records:
                if raw is None:
                    live = True
                else:
                    self._on_record(raw, clock.now() if live else None, boot)

    def _device(self, descriptor: int) -> Iterator[bytes | None]:
        """Give records, None whenever all that was written is read."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while not self._stopping.is_set():
            try:
                yield os.read(descriptor, _LONGEST_RECORD)
            except BlockingIOError:
                yield None
                poll.poll(int(_WAKE_SECONDS * 1000))
            except OSError as error:
                if error.errno not in _LOST_RECORD:
                    raise KernelLogError("ReadFailed", f"{self._path}: {error}") from error
                self._on_rejected(_LOST_RECORD[error.errno])

    def _file(self, descriptor: int) -> Iterator[bytes | None]:
        rest = b""
        skipping = False
        checked = time.monotonic()
        while not self._stopping.is_set():
            try:
                piece = os.read(descriptor, _LONGEST_RECORD)
            except OSError as error:
                raise KernelLogError("ReadFailed", f"{self._path}: {error}") from error
            if not piece:
                yield None
                if time.monotonic() - checked > 10 * _POLL_SECONDS:
                    checked = time.monotonic()
                    self._same_file(descriptor)
                self._stopping.wait(_POLL_SECONDS)
                continue
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if skipping:
                    skipping = False
                elif line and not line.startswith(b" "):  # ` KEY=value` belongs to the one before
                    yield line
            if skipping:
                rest = b""
            elif len(rest) > _LONGEST_RECORD:
                rest, skipping = b"", True
                self._on_rejected("too_long")

    def _same_file(self, descriptor: int) -> None:
        if self._restart.is_set():
            raise Replaced
        ours = os.fstat(descriptor)
        try:
            there = self._path.stat()
        except OSError as error:
            raise Replaced from error
        if (there.st_ino, there.st_dev) != (ours.st_ino, ours.st_dev):
            raise Replaced
        if there.st_size < os.lseek(descriptor, 0, os.SEEK_CUR):
            raise Replaced


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError as error:
        raise KernelLogError(
            "PermissionDenied",
            f"{path} may not be read, so XIDs that NVML does not report go unseen: run the sensor "
            "as root and give its container the device (a hostPath alone gives no access)",
        ) from error
    except FileNotFoundError as error:
        raise KernelLogError(
            "NotFound", f"{path} is not there: mount it, or name the log with --kernel-log"
        ) from error
    except OSError as error:
        raise KernelLogError("OpenFailed", f"{path} cannot be opened: {error}") from error


def _boot_of_device() -> datetime:
    return clock.now() - timedelta(seconds=time.monotonic())


def _boot_of_file(path: Path) -> datetime:
    """Work out when a recorded log's clock began: its last record was written at its mtime."""
    newest = timedelta()
    with contextlib.suppress(OSError):
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(kernel_log.Rejected):
                newest = max(newest, kernel_log.split(line).since_boot)
        with contextlib.suppress(OverflowError):
            written = datetime.fromtimestamp(path.stat().st_mtime, clock.now().tzinfo)
            return written - newest
    return clock.now()
