"""Reads the kernel log and hands its records on.

From /dev/kmsg where it opens, else from systemd's journal and by syslog(2) (`two_logs`);
from a file of records that grows. All of this boot is read at the start. What is
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
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from exporter.model.node_health import SourceHealth
from exporter.sensor.kernel_log.journal import Journal
from exporter.sensor.kernel_log.kmsg_file import (
    LONGEST_RECORD,
    KernelLogError,
    RecordFile,
    Replaced,
)
from exporter.sensor.kernel_log.record_order import RecordOrder
from exporter.sensor.kernel_log.syslog import KernelText
from exporter.sensor.kernel_log.syslog_text import Look
from exporter.sensor.kernel_log.two_logs import LogSource, TwoLogs
from kubeapi import clock

_log = logging.getLogger(__name__)

DEVICE = Path("/dev/kmsg")
AUTO = Path("auto")
"""The device where it opens, else the journal where it has the kernel's records, else syslog(2)."""

_RETRY_SECONDS = 2.0
_LOOK_SECONDS = 30.0
"""For a first look, which reads all of this boot."""
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
    While the thread works `progress` moves at least every `pace` seconds.
    `journals` are the folders of systemd's journal, `device` is /dev/kmsg, for AUTO.
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
        journals: Sequence[Path] = (),
        device: Path = DEVICE,
        read_text: Callable[[], Look] | None = None,
    ) -> None:
        self._path = path
        self._pace = pace
        self.progress: tuple[int, float] = (0, time.monotonic())
        """Looks at the log, and when the last one was (monotonic)."""
        self._journals = journals
        self._device_file = device
        self._boot_id = boot_id
        self._on_record = on_record
        self._on_rejected = on_rejected
        self._on_source = on_source
        self._on_replaced = on_replaced
        self._read_text = read_text or (KernelText().read if path in (DEVICE, AUTO) else None)
        self.source: LogSource = "kmsg"
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
                text = _as_text(str(error))
                if text != reported:
                    _log.warning("%s", text)
                reported = text
                self._report_down(error.reason, text)
            except Exception as error:  # noqa: BLE001 - logged; GPUs are watched all the same
                text = _as_text(f"the kernel log cannot be read: {error!r}")
                if text != reported:
                    _log.exception("the kernel log cannot be read")
                reported = text
                self._report_down("Failed", text)

    def _report_down(self, reason: str, message: str) -> None:
        self._on_source(SourceHealth(name="kmsg", state="Down", reason=reason, message=message))
        self._stopping.wait(_RETRY_SECONDS)

    def _read(self) -> None:
        auto = self._path == AUTO
        path = self._device_file if auto else self._path
        if path.is_dir():
            journal = self._journal(path)
            self._follow(TwoLogs(journal, None, self._on_rejected, seen=self._seen))
            return
        try:
            descriptor = open_log(path)
        except KernelLogError as error:
            if self._read_text is None:
                raise
            journal = self._journal(*self._journals) if auto else None
            self._follow(
                TwoLogs(journal, self._read_text, self._on_rejected, seen=self._seen, without=error)
            )
            return
        with os.fdopen(descriptor, "rb", buffering=0):
            device = stat.S_ISCHR(os.fstat(descriptor).st_mode)
            self.source = "kmsg"
            self._on_source(
                SourceHealth(name="kmsg", state="Up", last_success=clock.now(), via="Device")
            )
            log = RecordFile(path, descriptor, self._ends, self._on_rejected)
            boot = clock.now() - timedelta(seconds=time.monotonic()) if device else log.boot_time()
            records = self._device(descriptor) if device else log.records()
            live = False
            for raw in records:
                if raw is None:
                    live = True
                else:
                    self._on_record(raw, clock.now() if live else None, boot)

    def _journal(self, *folders: Path) -> Journal:
        return Journal(folders, self._boot_id(), self._on_rejected, self._ends)

    def _follow(self, logs: TwoLogs) -> None:
        """Read journal and syslog(2) until stopped, or until another boot begins.

        The journal has the records of /dev/kmsg whole, so that they are taken as read there.
        """
        reported: SourceHealth | None = None
        with contextlib.closing(logs):
            while not self._ends():
                for new in logs.look():
                    if self._stopping.is_set():
                        return
                    self._seen, self.source = new.line.place, new.source
                    for _ in range(new.line.hidden):
                        self._on_rejected("continuation")
                    # Anew each time: a step of the wall clock must not move what comes after it.
                    boot = clock.now() - timedelta(seconds=time.monotonic())
                    since = new.since_boot
                    at = None if since is None else boot + since
                    self._on_record(new.line.raw, at, boot)
                if (health := logs.health()) != reported:
                    reported, now = health, clock.now() if health.up else None
                    text = _as_text(health.message)
                    self._on_source(msgspec.structs.replace(health, last_success=now, message=text))
                until = time.monotonic() + logs.rest
                while (left := until - time.monotonic()) > 0 and not self._ends():
                    self._stopping.wait(min(left, self._pace))

    def _ends(self) -> bool:
        """Note that the thread is at work, and say whether the log must be let go."""
        self.progress = self.progress[0] + 1, time.monotonic()
        return self._stopping.is_set() or self._restart.is_set()

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


def mode_now(
    path: Path, journals: Sequence[Path], boot_id: str, device: Path = DEVICE
) -> SourceHealth:
    """Look once how the log would be read, as `KernelLogReader` reads it."""
    taken: list[SourceHealth] = []
    looked = threading.Event()

    def take(health: SourceHealth) -> None:
        taken.append(health)
        looked.set()

    reader = KernelLogReader(
        path,
        on_record=lambda _raw, _at, _boot: None,
        on_rejected=lambda _reason: None,
        on_source=take,
        on_replaced=lambda: None,
        boot_id=lambda: boot_id,
        journals=journals,
        device=device,
    )
    reader.start()
    looked.wait(_LOOK_SECONDS)
    reader.stop()
    slow = SourceHealth(name="kmsg", state="Unknown", reason="Slow", message="no answer in time")
    return taken[0] if taken else slow


def _as_text(message: str) -> str:
    """Return what can be sent: names of files may be any bytes."""
    return message.encode("utf-8", "backslashreplace").decode()


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
