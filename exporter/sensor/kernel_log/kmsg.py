"""Reads the kernel log and hands its records on.

From /dev/kmsg where it opens, else by syslog(2); from a folder of systemd's journal,
or from a file of records that grows. All of this boot is read at the start. What is
wrong with the log is a state with a sentence, never the end of the thread.
Understanding is `driver_lines`'s.
"""

import contextlib
import errno
import logging
import os
import select
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from exporter.model.node_health import SourceHealth
from exporter.sensor.kernel_log.journal import JournalFolder
from exporter.sensor.kernel_log.journal_file import KernelRecord
from exporter.sensor.kernel_log.kmsg_file import (
    LONGEST_RECORD,
    KernelLogError,
    RecordFile,
    Replaced,
)
from exporter.sensor.kernel_log.quoted import LINE_END
from exporter.sensor.kernel_log.record_order import RecordOrder
from exporter.sensor.kernel_log.syslog import KernelText, SyslogError
from exporter.sensor.kernel_log.syslog_text import LATELY, Clears, Line, Look, SyslogText
from kubeapi import clock

_log = logging.getLogger(__name__)

DEVICE = Path("/dev/kmsg")

_RETRY_SECONDS = 2.0
_SYSLOG_SECONDS = 1.0
"""Between two looks by syslog(2), which nothing wakes."""
_JOURNAL_SECONDS = 0.5
_SYSLOG_SHORTEST, _SYSLOG_LONGEST = 0.1, 10.0
_SYSLOG_SHARE = 50
"""A look is followed by so many times its own length of rest: two percent of a core at most."""
_NULL = os.makedev(1, 3)
"""Device number of /dev/null (the kernel's devices.txt), which stands for /dev/kmsg in containers
that run others: it is always ready and never says anything."""
_LOST_RECORD = {errno.EPIPE: "overwritten", errno.EINVAL: "too_long"}
"""Answers of /dev/kmsg for records that are gone; the next read goes on behind them."""


class KernelLogReader:
    """A thread that calls `on_record(raw, read_at, boot_time)` for each record.

    `read_at` is None for records that were there before: their time is boot time
    plus what they say. New ones happened when they are read, as the kernel's clock
    drifts away from wall time over weeks. `on_rejected` takes a reason,
    `on_source` the state, and `on_replaced` is called before the log is read from
    its start again. `boot_id` tells which records of a journal are of this boot.
    The time `looked_at` moves at least every `pace` seconds while the thread works.
    `read_text` is syslog(2); by default it stands in for /dev/kmsg
    and for no other path.
    """

    def __init__(
        self,
        path: Path,
        *,
        on_record: Callable[[bytes, datetime | None, datetime], None],
        on_rejected: Callable[[str], None],
        on_source: Callable[[SourceHealth], None],
        on_replaced: Callable[[], None],
        boot_id: Callable[[], str],
        pace: float = 30.0,
        read_text: Callable[[], Look] | None = None,
    ) -> None:
        self._path = path
        self._pace = pace
        self.looked_at = clock.now()
        """When the thread was last at work: reading, or waiting for the next record."""
        self._boot_id = boot_id
        self._on_record = on_record
        self._on_rejected = on_rejected
        self._on_source = on_source
        self._on_replaced = on_replaced
        self._read_text = read_text or (KernelText().read if path == DEVICE else None)
        self.source: Literal["kmsg", "syslog"] = "kmsg"
        """How the record that is handed on now was read."""
        self._seen = -1
        """The last place handed on: what is opened again in one boot must not be reported again."""
        self._restart = threading.Event()
        self._stopping = threading.Event()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Readable once the reader should let go of the log."""
        self._thread = threading.Thread(target=self._run, name="kernel log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        os.eventfd_write(self._wake, 1)
        self._thread.join(3.0)

    def restart(self) -> None:
        """Read the log from its start again: another boot has begun."""
        # In this order: who sees the event set can take the wake-up back.
        os.eventfd_write(self._wake, 1)
        self._restart.set()

    def _run(self) -> None:
        reported = ""
        while not self._stopping.is_set():
            if self._restart.is_set():
                self._restart.clear()
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
                self._seen = -1
                self._on_replaced()
            try:
                self._read()
            except Replaced:
                _log.info("%s starts again: taken as a reboot", self._path)
                self._restart.set()
            except KernelLogError as error:
                if str(error) != reported:
                    _log.warning("%s", error)
                reported = str(error)
                self._on_source(
                    SourceHealth(name="kmsg", state="Down", reason=error.reason, message=reported)
                )
                self._stopping.wait(_RETRY_SECONDS)

    def _read(self) -> None:
        if self._path.is_dir():
            self._follow(JournalFolder(self._path, self._boot_id(), self._on_rejected))
            return
        try:
            descriptor = open_log(self._path)
        except KernelLogError as error:
            if self._read_text is None:
                raise
            self._poll(self._read_text, error)
            return
        with os.fdopen(descriptor, "rb", buffering=0):
            device = stat.S_ISCHR(os.fstat(descriptor).st_mode)
            self.source = "kmsg"
            self._on_source(
                SourceHealth(name="kmsg", state="Up", last_success=clock.now(), via="Device")
            )
            log = RecordFile(self._path, descriptor, self._ends, self._on_rejected)
            boot = clock.now() - timedelta(seconds=time.monotonic()) if device else log.boot_time()
            records = self._device(descriptor) if device else log.records()
            live = False
            for raw in records:
                if raw is None:
                    live = True
                else:
                    self._on_record(raw, clock.now() if live else None, boot)

    def _follow(self, folder: JournalFolder) -> None:
        """Read systemd's journal until stopped, or until another boot begins.

        It has the records of /dev/kmsg whole, so that they are taken as read there.
        """
        self.source = "kmsg"
        order = RecordOrder()
        before: datetime | None = None
        reported: bool | None = None
        with contextlib.closing(folder):
            while not self._ends():
                now = clock.now()
                boot = now - timedelta(seconds=time.monotonic())
                self._hand_on(
                    (as_line(record, order) for record in folder.records()), boot, before, now
                )
                if folder.found_records != reported:
                    reported = folder.found_records
                    self._on_source(_journal_state(self._path, now, found_records=reported))
                before = now
                self._rest(_JOURNAL_SECONDS)

    def _poll(self, read_text: Callable[[], Look], refused: KernelLogError) -> None:
        """Read by syslog(2) until stopped, or until another boot begins."""
        known, clears = SyslogText(), Clears()
        self.source = "syslog"
        before: datetime | None = None
        reported: bool | None = None
        while not self._ends():
            begun = time.monotonic()
            try:
                look = read_text()
            except SyslogError as error:
                raise KernelLogError(error.reason, f"{refused}; {error}") from error
            changes = known.read(look.text, look.held)
            if changes.lost:
                self._on_rejected(changes.lost)
            now = clock.now()
            # Anew each time: a step of the wall clock must not move what comes after it.
            if not changes.timed:
                raise KernelLogError(
                    "NoTimes",
                    "syslog(2) gives lines without their time, so that records cannot be told from "
                    "lines that users write: write Y to /sys/module/printk/parameters/time, or "
                    "mount /dev/kmsg",
                )
            self._hand_on(changes.lines, now - timedelta(seconds=time.monotonic()), before, now)
            cleared = clears.note(begun, changes.lost)
            if cleared != reported:
                reported = cleared
                self._on_source(_syslog_state(refused, now, cleared=cleared))
            before = now
            took = time.monotonic() - begun
            rest = min(max(_SYSLOG_SECONDS, _SYSLOG_SHARE * took), _SYSLOG_LONGEST)
            if 4 * changes.size > len(look.text):
                # Sooner while the ring fills fast.
                rest = min(max(_SYSLOG_SHORTEST, 4 * took), _SYSLOG_SECONDS)
            self._rest(rest)

    def _hand_on(
        self, lines: Iterable[Line], boot: datetime, before: datetime | None, now: datetime
    ) -> None:
        """Hand on what is new; after the first look it happened since the look before."""
        for line in lines:
            if line.place > self._seen:
                self._seen = line.place
                for _ in range(line.hidden):
                    self._on_rejected("continuation")
                at = boot + timedelta(microseconds=line.microseconds)
                self._on_record(line.raw, before and min(now, max(before, at)), boot)

    def _ends(self) -> bool:
        """Note that the thread is at work, and say whether the log must be let go."""
        self.looked_at = clock.now()
        return self._stopping.is_set() or self._restart.is_set()

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._ends():
            self._stopping.wait(min(left, self._pace))

    def _device(self, descriptor: int) -> Iterator[bytes | None]:
        """Give what was not handed on before, None whenever all that was written is read."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        order = RecordOrder()
        for raw in device_records(
            lambda: os.read(descriptor, LONGEST_RECORD),
            lambda: poll.poll(1000 * self._pace),
            self._ends,
            self._on_rejected,
        ):
            placed = order.renumber(raw) if raw is not None else None
            if placed is None:
                yield raw
            elif placed[0] > self._seen:
                self._seen = placed[0]
                yield placed[1]


def _syslog_state(refused: KernelLogError, now: datetime, *, cleared: bool) -> SourceHealth:
    message = f"read by syslog(2), some seconds late at most: {refused}"
    if cleared:
        message = (
            f"the kernel log was cleared within the last {LATELY:.0f} seconds, so XIDs and SXids "
            "that only the log reports may be lost: find what clears it (dmesg -c, a pod with the "
            "capability SYSLOG), or read the journal or /dev/kmsg, which a clear leaves whole"
        )
    return SourceHealth(
        name="kmsg",
        state="Up",
        reason="Cleared" if cleared else "",
        message=message,
        last_success=now,
        via="Syslog",
    )


def _journal_state(path: Path, now: datetime, *, found_records: bool) -> SourceHealth:
    if found_records:
        message = f"read from the journal in {path}"
        return SourceHealth(
            name="kmsg", state="Up", message=message, last_success=now, via="Journal"
        )
    return SourceHealth(
        name="kmsg",
        state="Down",
        reason="NoKernelRecords",
        message=f"the journal in {path} has no kernel messages of this boot: either the "
        "kernel logged none, or journald does not read them. Write ReadKMsg=yes into "
        "journald.conf, or read the kernel log another way",
    )


def as_line(record: KernelRecord, order: RecordOrder) -> Line:
    """Return a record of the journal as /dev/kmsg has it."""
    place = order.place(record.microseconds)
    message = (record.message or b"").replace(b"\n", LINE_END.encode())
    head = b"%d,%d,%d,-;" % (record.facility << 3 | record.priority, place, record.microseconds)
    return Line(place, record.microseconds, head + message)


def device_records(
    read: Callable[[], bytes],
    wait: Callable[[], object],
    ends: Callable[[], bool],
    on_rejected: Callable[[str], None],
) -> Iterator[bytes | None]:
    """Give what a device like /dev/kmsg has, None before each wait for more.

    Raises KernelLogError when it cannot be read any more.
    """
    while not ends():
        try:
            raw = read()
        except BlockingIOError:
            yield None
            wait()
        except OSError as error:
            if error.errno not in _LOST_RECORD:
                raise KernelLogError(
                    "ReadFailed", f"the kernel log cannot be read any more: {error}"
                ) from error
            on_rejected(_LOST_RECORD[error.errno])
        else:
            if not raw:
                # Read again at once, it would take a whole core.
                raise KernelLogError(
                    "NoLog", "the kernel log is a file, not a stream: mount /dev/kmsg"
                )
            yield raw


def open_log(path: Path) -> int:
    """Return a descriptor of a kernel log; raises KernelLogError."""
    descriptor = _opened(path)
    if os.fstat(descriptor).st_rdev == _NULL:
        os.close(descriptor)
        raise KernelLogError(
            "NoLog", f"{path} is /dev/null here: mount the node's own, or name another log"
        )
    return descriptor


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError as error:
        raise KernelLogError(
            "PermissionDenied",
            f"{path} may not be read: run the sensor as root and give its container the device (a "
            "hostPath alone gives no access), or the capability SYSLOG",
        ) from error
    except FileNotFoundError as error:
        raise KernelLogError(
            "NotFound", f"{path} is not there: mount it, or name the log with --kernel-log"
        ) from error
    except OSError as error:
        raise KernelLogError("OpenFailed", f"{path} cannot be opened: {error}") from error
