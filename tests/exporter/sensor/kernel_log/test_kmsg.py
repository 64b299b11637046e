"""Reading the kernel log: the device, syslog(2) in its place, a file in the place of both."""

import errno
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.kernel_log_device import KernelLogDevice
from exporter.model.node_health import SourceHealth
from exporter.sensor.kernel_log import driver_lines, kmsg
from exporter.sensor.kernel_log.kmsg import KernelLogReader, device_records
from exporter.sensor.kernel_log.kmsg_file import LONGEST_RECORD, KernelLogError
from exporter.sensor.kernel_log.syslog import KernelText, SyslogError
from exporter.sensor.kernel_log.syslog_text import Look
from kubeapi import clock
from tests.exporter.running import wait_for
from tests.exporter.sensor.kernel_log.ring import Ring

PLACES_PER_MICROSECOND = 16
"""As exporter/sensor/kernel_log/record_order.py gives them."""
A_STALL = timedelta(seconds=30)
"""Longer than a busy machine lets a thread wait between two looks at its clocks."""
BOOT_ID = "01234567-89ab-cdef-0123-456789abcdef"
XID = "NVRM: Xid (PCI:0000:18:00): 31, x"


class Received:
    """What a reader reported."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, datetime | None, datetime]] = []
        self.rejected: list[str] = []
        self.sources: list[SourceHealth] = []
        self.replaced = 0

    def reader(self, path: Path, read_text: Callable[[], Look] | None = None) -> KernelLogReader:
        return KernelLogReader(
            path,
            on_record=self._on_record,
            on_rejected=self.rejected.append,
            on_source=self.sources.append,
            on_replaced=self._on_replaced,
            boot_id=lambda: BOOT_ID,
            read_text=read_text,
        )

    def reported(self) -> list[tuple[int, str]]:
        """The place and the message of each record that had come by one moment."""
        heads = [driver_lines.split(raw) for raw, _, _ in self.records.copy()]
        return [(head.sequence, head.message) for head in heads]

    def messages(self) -> list[str]:
        return [message for _, message in self.reported()]

    def places(self) -> list[int]:
        return [place for place, _ in self.reported()]

    def _on_record(self, raw: bytes, at: datetime | None, boot: datetime) -> None:
        self.records.append((raw, at, boot))

    def _on_replaced(self) -> None:
        self.replaced += 1


@contextmanager
def running(*readers: KernelLogReader) -> Generator[None]:
    """Readers that end with the test, also with one that fails."""
    for reader in readers:
        reader.start()
    try:
        yield
    finally:
        for reader in readers:
            reader.stop()


@pytest.fixture
def received() -> Received:
    return Received()


@pytest.fixture
def ring() -> Ring:
    return Ring()


@pytest.fixture
def by_syslog(received: Received, ring: Ring, tmp_path: Path) -> Iterator[KernelLogReader]:
    """A reader that cannot open the device."""
    reader = received.reader(tmp_path / "kmsg", ring.read)
    yield reader
    reader.stop()


def test_without_the_device_syslog_gives_the_records_and_the_state_says_so(
    received: Received, ring: Ring, by_syslog: KernelLogReader
) -> None:
    ring.write(1, "before")
    by_syslog.start()
    wait_for(lambda: received.sources)
    ring.write(2, XID)
    wait_for(lambda: len(received.records) == 2)
    assert received.messages() == ["before", XID]
    [source] = received.sources
    assert source.up
    assert source.message.startswith("read by syslog(2)")
    assert (source.via, by_syslog.source) == ("Syslog", "syslog")
    assert "kmsg is not there" in source.message


def test_old_records_have_the_kernels_time_and_new_ones_that_of_the_look(
    received: Received, ring: Ring, by_syslog: KernelLogReader
) -> None:
    ring.write(1, "before")
    by_syslog.start()
    wait_for(lambda: received.records)
    before = clock.now()
    ring.write(2, "says an hour ago at least")
    ring.write(10**8, "says years from now")
    wait_for(lambda: len(received.records) == 3)
    _, at, _ = received.records[0]
    assert at is None
    for _, at, boot in received.records[1:]:
        assert at is not None
        assert before - A_STALL <= at <= clock.now()
        assert abs(boot - received.records[0][2]) < A_STALL


def test_user_space_is_marked_in_the_text_too(
    received: Received, ring: Ring, by_syslog: KernelLogReader
) -> None:
    ring.write(1, XID, priority=11)
    by_syslog.start()
    wait_for(lambda: received.records)
    with pytest.raises(driver_lines.Rejected, match="user_space"):
        driver_lines.understand(
            driver_lines.split(received.records[0][0]), datetime(2026, 1, 5, tzinfo=UTC)
        )


def test_what_the_ring_lost_is_counted_and_nothing_is_reported_twice(
    received: Received, ring: Ring, by_syslog: KernelLogReader
) -> None:
    for second in range(1, 300):
        ring.write(second, f"line {second}")
    by_syslog.start()
    wait_for(lambda: len(received.records) == 299)
    ring.text = b""
    wait_for(lambda: received.rejected)
    ring.write(400, "line 400")
    wait_for(lambda: len(received.records) == 300)
    assert received.rejected == ["cleared"]
    assert received.places() == sorted(set(received.places()))


def test_a_refusal_is_a_state_that_names_both_ways_and_ends_by_itself(
    received: Received, ring: Ring, by_syslog: KernelLogReader
) -> None:
    ring.write(1, "first")
    ring.refusal = SyslogError("PermissionDenied", "syslog(2) answers no")
    by_syslog.start()
    wait_for(lambda: received.sources)
    assert (received.sources[0].up, received.sources[0].reason) == (False, "PermissionDenied")
    assert "kmsg is not there" in received.sources[0].message
    assert "syslog(2) answers no" in received.sources[0].message
    ring.refusal = None
    wait_for(lambda: received.sources[-1].up)
    assert received.messages() == ["first"]


def test_after_a_refusal_the_same_lines_are_not_reported_again(
    received: Received, ring: Ring, by_syslog: KernelLogReader
) -> None:
    ring.write(1, "first")
    by_syslog.start()
    wait_for(lambda: received.sources)
    ring.refusal = SyslogError("NotSupported", "syslog(2) answers no")
    wait_for(lambda: not received.sources[-1].up)
    ring.write(2, "second")
    ring.refusal = None
    wait_for(lambda: received.sources[-1].up)
    assert received.messages() == ["first", "second"]


def test_another_boot_is_read_from_its_start(
    received: Received, ring: Ring, by_syslog: KernelLogReader
) -> None:
    ring.write(1000, "old boot")
    by_syslog.start()
    wait_for(lambda: received.records)
    ring.text = b""
    ring.write(1, "new boot")
    by_syslog.restart()
    wait_for(lambda: len(received.records) == 2)
    assert (received.replaced, received.messages()) == (1, ["old boot", "new boot"])


def test_lines_without_times_are_refused_with_what_to_do(
    received: Received, ring: Ring, by_syslog: KernelLogReader
) -> None:
    ring.text = b"<6>no time\n<6>here neither\n"
    by_syslog.start()
    wait_for(lambda: received.sources)
    assert received.sources[0].reason == "NoTimes"
    assert "/sys/module/printk/parameters/time" in received.sources[0].message
    assert received.records == []


def test_one_line_without_a_time_is_enough(
    received: Received, ring: Ring, by_syslog: KernelLogReader
) -> None:
    """Where the kernel prints no times, what looks like one is written by a user."""
    ring.text = (
        b"<3>tmpfs: Unknown parameter 'x\n<3>[    9.000001] NVRM: Xid (PCI:0000:3b:00): 79\n"
    )
    by_syslog.start()
    wait_for(lambda: received.sources)
    assert (received.sources[0].reason, received.records) == ("NoTimes", [])


def test_a_log_of_another_name_is_never_replaced_by_this_machines(
    received: Received, tmp_path: Path
) -> None:
    with running(received.reader(tmp_path / "kmsg")):
        wait_for(lambda: received.sources)
    assert (received.sources[0].up, received.sources[0].reason) == (False, "NotFound")
    assert received.records == []


def test_this_machines_log_is_the_same_both_ways(tmp_path: Path) -> None:
    device, text = Received(), Received()
    with running(device.reader(kmsg.DEVICE), text.reader(tmp_path / "kmsg", KernelText().read)):
        wait_for(lambda: device.sources and text.sources)
        down = [source.sources[0] for source in (device, text) if not source.sources[0].up]
        if down:
            assert {source.reason for source in down} <= {
                "PermissionDenied",
                "NotFound",
                "NotSupported",
            }
            return
        # The machine goes on writing: what stood in the log at one moment is compared.
        reported = text.reported()
        if not reported:
            return  # somebody has cleared it
        (oldest, _), (newest, _) = reported[0], reported[-1]
        wait_for(lambda: max(device.places(), default=0) > newest - PLACES_PER_MICROSECOND)
        # Records of one moment are one to syslog(2), as if they were its lines. Only the device
        # escapes control characters; tests of forged lines leave such records here.
        moments = Counter(place // PLACES_PER_MICROSECOND for place, _ in device.reported())
        seen = {
            (place, message)
            for place, message in device.reported()
            if oldest <= place <= newest
            and moments[place // PLACES_PER_MICROSECOND] == 1
            and "\\x" not in message
        }
        assert len(seen.intersection(reported)) >= 0.9 * len(seen) > 0


def test_a_device_gives_records_in_order_and_says_when_it_cannot(received: Received) -> None:
    device = KernelLogDevice()

    def logged_with_its_time(pause: float) -> bool:
        # Only once the reader has met the end of what was there; when that is, nobody tells.
        time.sleep(pause)
        before = len(received.records)
        device.write("new")
        wait_for(lambda: len(received.records) > before)
        return received.records[-1][1] is not None

    with closing(device), running(received.reader(device.path)):
        device.write_all(["one", "two"])
        wait_for(lambda: len(received.records) == 2)
        device.write("three")
        wait_for(lambda: len(received.records) == 3)
        assert received.messages() == ["one", "two", "three"]
        assert received.places() == sorted(set(received.places()))
        assert any(logged_with_its_time(pause) for pause in (0.0, 0.1, 1.0, 10.0, 60.0))


def answers(*logged_text: bytes | int) -> Callable[[], bytes]:
    """A device that gives these records and errors, and then fails."""
    waiting = list(logged_text)

    def read() -> bytes:
        one = waiting.pop(0) if waiting else errno.EIO
        if isinstance(one, int):
            raise OSError(one, os.strerror(one))
        return one

    return read


def test_overwritten_and_overlong_records_are_counted_and_reading_goes_on() -> None:
    rejected: list[str] = []
    waits: list[int] = []
    read = answers(b"a", errno.EPIPE, b"b", errno.EAGAIN, errno.EINVAL, b"c")
    records = device_records(read, lambda: waits.append(1), lambda: False, rejected.append)
    with pytest.raises(KernelLogError, match="cannot be read any more") as failed:
        list(records)
    assert failed.value.reason == "ReadFailed"
    assert rejected == ["overwritten", "too_long"]
    assert waits == [1]


def test_what_was_read_before_a_gap_and_behind_it_is_handed_on() -> None:
    read = answers(b"a", errno.EPIPE, b"b", errno.EAGAIN, b"c")
    records = device_records(read, lambda: None, lambda: False, lambda _: None)
    assert [next(records) for _ in range(4)] == [b"a", b"b", None, b"c"]


def test_a_log_that_has_an_end_is_no_log_and_is_not_read_again_at_once() -> None:
    records = device_records(answers(b"a", b""), lambda: None, lambda: False, lambda _: None)
    assert next(records) == b"a"
    with pytest.raises(KernelLogError) as failed:
        next(records)
    assert failed.value.reason == "NoLog"


def test_where_the_device_is_dev_null_the_log_is_not_called_read(received: Received) -> None:
    with running(received.reader(Path(os.devnull))):
        wait_for(lambda: received.sources)
    assert (received.sources[0].up, received.sources[0].reason) == (False, "NoLog")
    assert not received.records


def test_syslog_takes_the_place_of_dev_null(received: Received, ring: Ring) -> None:
    ring.write(1, XID)
    with running(received.reader(Path(os.devnull), ring.read)):
        wait_for(lambda: received.records)
    assert received.messages() == [XID]


def test_a_line_without_end_costs_no_memory_and_one_count(
    received: Received, tmp_path: Path
) -> None:
    path = tmp_path / "kmsg"
    with path.open("wb") as file:
        file.write(b"3,1,1,-;one\n")
        for _ in range(200):
            file.write(b"x" * LONGEST_RECORD)
        file.write(b"\n3,2,2,-;two\n")
    with running(received.reader(path)):
        wait_for(lambda: len(received.records) == 2)
    assert (received.messages(), received.rejected) == (["one", "two"], ["too_long"])


def test_a_million_garbage_records_in_a_file_are_all_refused(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(b"garbage\n" * 1_000_000 + b"3,1,1,-;one\n")
    refused = 0
    done = threading.Event()

    def take(raw: bytes, _at: datetime | None, _boot: datetime) -> None:
        nonlocal refused
        try:
            driver_lines.split(raw)
            done.set()
        except driver_lines.Rejected:
            refused += 1

    reader = KernelLogReader(
        path,
        on_record=take,
        on_rejected=lambda _: None,
        on_source=lambda _: None,
        on_replaced=lambda: None,
        boot_id=lambda: BOOT_ID,
    )
    with running(reader):
        assert done.wait(300)
    assert refused == 1_000_000


def test_an_error_that_nobody_expected_is_a_state_and_no_end(tmp_path: Path) -> None:
    received, ring = Received(), Ring()
    errors = iter([RuntimeError("no such thing")])

    def read() -> Look:
        for error in errors:
            raise error
        return ring.read()

    ring.write(1, "one")
    with running(received.reader(tmp_path / "kmsg", read)):
        wait_for(lambda: received.messages() == ["one"], what="the record")
    first, last = received.sources[0], received.sources[-1]
    assert (first.up, first.reason, last.up) == (False, "Failed", True)
    assert "no such thing" in first.message
