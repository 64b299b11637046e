"""A real systemd-journald, and what happens to it on nodes: the sensor's reader beside it."""

import os
import shutil
import signal
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from exporter.sensor.kernel_log.journal import Journal
from exporter.sensor.kernel_log.kmsg import AUTO, KernelLogReader
from exporter.sensor.kernel_log.kmsg_file import KernelLogError
from tests.exporter.running import wait_for
from tests.exporter.sensor.kernel_log.ring import Ring
from tests.exporter.sensor.kernel_log.test_kmsg import Received, running
from tests.lab.journald import BOOT_ID, Journald, fill

XID = "NVRM: Xid (PCI:0000:3b:00): 119, pid=1, name=x"


class Node:
    """A node of journald's and of syslog(2)'s, with the sensor's reader in mode auto."""

    def __init__(self, journald: Journald) -> None:
        self.journald = journald
        self.ring = Ring()
        self.taken = Received()
        self.records: list[tuple[bytes, str]] = []
        self.reader = KernelLogReader(
            AUTO,
            on_record=self._on_record,
            on_rejected=self.taken.rejected.append,
            on_source=self.taken.sources.append,
            on_replaced=lambda: None,
            boot_id=self.boot_id,
            journals=journald.folders,
            device=Path("/nowhere/kmsg"),
            read_text=self.ring.read,
        )

    @staticmethod
    def boot_id() -> str:
        return BOOT_ID.read_text(encoding="ascii").strip()

    def print(self, seconds: float, text: str = XID, level: int = 4) -> None:
        """Have the kernel print a record."""
        self.ring.write(seconds, text, level)
        self.journald.print(seconds, text, level)

    def await_mode(self, via: str, reason: str = "") -> None:
        try:
            wait_for(lambda: self._mode() == (via, reason))
        except AssertionError:
            raise AssertionError(f"no {via} {reason}: {self.taken.sources}") from None

    def await_records(self, *records: tuple[float, str]) -> None:
        """Wait for the driver's records: seconds and source of each, none twice."""
        wait_for(lambda: len(self.records_read()) >= len(records), what=f"{len(records)} records")
        assert self.records_read() == list(records)

    def _mode(self) -> tuple[str | None, str] | None:
        sources = self.taken.sources
        return (sources[-1].via, sources[-1].reason) if sources else None

    def records_read(self) -> list[tuple[float, str]]:
        return [
            (int(raw.split(b",")[2]) / 1e6, source)
            for raw, source in self.records.copy()
            if b"NVRM: Xid" in raw
        ]

    def _on_record(self, raw: bytes, _at: datetime | None, _boot: datetime) -> None:
        self.records.append((raw, self.reader.source))


@contextmanager
def node(
    folder: Path,
    conf: str = "",
    *,
    mode: tuple[str, str] = ("Journal", ""),
    size: str = "64m",
    on_disk: bool = False,
) -> Generator[Node]:
    with Journald(folder, conf, size=size, on_disk=on_disk) as journald:
        found = Node(journald)
        with running(found.reader):
            found.print(0.5, "Linux version 6.18", 6)
            found.await_mode(*mode)
            yield found


def test_the_journal_below_run_is_read_and_no_folder_is_made(tmp_path: Path) -> None:
    with node(tmp_path) as here:
        here.print(1)
        here.await_records((1, "kmsg"))
        assert not here.journald.folders[0].exists()


def test_what_journald_copies_to_the_disk_is_not_counted_again(tmp_path: Path) -> None:
    with node(tmp_path, on_disk=True) as here:
        here.print(1)
        here.await_records((1, "kmsg"))
        here.journald.send(signal.SIGUSR1)
        wait_for(lambda: list(here.journald.folders[0].rglob("system.journal")), what="the disk")
        here.print(2)
        here.await_records((1, "kmsg"), (2, "kmsg"))
        here.await_mode("Journal")


def test_a_journal_that_begins_new_files_loses_nothing(tmp_path: Path) -> None:
    with node(tmp_path) as here:
        here.print(1)
        for second in range(2, 8):
            here.journald.send(signal.SIGUSR2)
            here.print(second)
        here.await_records(*((float(second), "kmsg") for second in range(1, 8)))
        assert len(list(here.journald.folders[1].rglob("*.journal"))) > 1


def test_a_rate_limit_of_journald_drops_no_record_of_the_kernels(tmp_path: Path) -> None:
    with node(tmp_path, "RateLimitIntervalSec=1h\\nRateLimitBurst=1\\n") as here:
        for second in range(1, 101):
            here.print(second)
        here.await_records(*((float(second), "kmsg") for second in range(1, 101)))
        here.await_mode("Journal")


def test_with_readkmsg_no_the_records_come_by_syslog(tmp_path: Path) -> None:
    with node(tmp_path, "ReadKMsg=no\\n", mode=("Syslog", "NoKernelRecords")) as here:
        here.ring.write(1, XID, 4)
        here.await_records((1, "syslog"))
        assert "ReadKMsg=yes" in here.taken.sources[-1].message


def test_with_a_full_disk_journald_goes_on_below_run_and_is_followed_there(tmp_path: Path) -> None:
    with node(tmp_path, size="20m", on_disk=True) as here:
        on_disk, below_run = here.journald.folders
        here.journald.send(signal.SIGUSR1)
        wait_for(lambda: list(on_disk.rglob("system.journal")), what="the disk")
        fill(on_disk)
        second = 1
        while not list(below_run.rglob("system.journal")):
            # Its file has some space, which it took before.
            here.print(second, os.urandom(200).hex())
            second += 1
        here.print(second)
        here.await_records((second, "kmsg"))
        here.await_mode("Journal")


def test_with_no_space_anywhere_the_records_come_by_syslog_until_there_is_some(
    tmp_path: Path,
) -> None:
    with node(tmp_path, size="20m", on_disk=True) as here:
        here.journald.send(signal.SIGUSR1)
        on_disk = here.journald.folders[0]
        wait_for(lambda: list(on_disk.rglob("system.journal")), what="the disk")
        ballast = [fill(disk) for disk in here.journald.folders]
        second = 1
        while here.taken.sources[-1].via == "Journal":
            here.print(second, os.urandom(200).hex())
            second += 1
        here.await_mode("Syslog", "JournalSilent")
        here.print(second)
        here.await_records((second, "syslog"))

        for file in ballast:
            file.unlink()
        here.journald.send(signal.SIGUSR2)
        # It brings the journal back; which source has it first is open.
        here.print(second + 1)
        here.await_mode("Journal")
        here.print(second + 2)
        wait_for(lambda: len(here.records_read()) >= 3, what="each record once")
        seconds, sources = zip(*here.records_read(), strict=True)
        assert seconds == (second, second + 1, second + 2)
        assert (sources[0], sources[-1]) == ("syslog", "kmsg")


def test_a_journal_that_is_deleted_leaves_its_place_to_syslog_until_there_is_another(
    tmp_path: Path,
) -> None:
    with node(tmp_path) as here:
        here.print(1)
        here.await_records((1, "kmsg"))
        for machine in here.journald.folders[1].iterdir():
            shutil.rmtree(machine)
        here.await_mode("Syslog", "NoJournal")
        here.print(2)  # journald notices, and makes another file
        here.await_records((1, "kmsg"), (2, "kmsg"))
        here.await_mode("Journal")


def test_what_a_removed_file_has_is_read_to_its_end(tmp_path: Path) -> None:
    with node(tmp_path) as here:
        here.print(1)
        here.await_records((1, "kmsg"))
        journal = Journal(here.journald.folders, here.boot_id(), lambda _: None)
        seen = [line.microseconds for line in journal.lines()]
        here.print(2)
        here.await_records((1, "kmsg"), (2, "kmsg"))
        for machine in here.journald.folders[1].iterdir():
            shutil.rmtree(machine)
        assert [line.microseconds for line in journal.lines()] == [2_000_000]
        assert 1_000_000 in seen
        with pytest.raises(KernelLogError, match="no journal of this boot"):
            list(journal.lines())


def test_records_that_journald_missed_come_by_syslog_and_it_says_that_it_did(
    tmp_path: Path,
) -> None:
    with node(tmp_path) as here:
        here.print(1)
        here.await_records((1, "kmsg"))
        here.ring.write(2, XID, 4)
        here.journald.miss(1)
        here.print(3)
        here.await_records((1, "kmsg"), (2, "syslog"), (3, "kmsg"))
        assert "missed" in here.taken.rejected
        here.await_mode("Journal")


def test_a_long_warning_that_journald_compresses_is_read_as_one_of_no_interest(
    tmp_path: Path,
) -> None:
    """Such as the list of modules below a warning of the kernel's."""
    with node(tmp_path) as here:
        here.print(1, "Modules linked in: " + "nvidia_uvm(OE) " * 60)
        wait_for(lambda: len(here.records) > 1, what="its record")
        here.print(2)
        here.await_records((2, "kmsg"))
        assert here.taken.rejected == []
        assert "JournalSilent" not in [source.reason for source in here.taken.sources]


def test_short_records_that_journald_compresses_come_by_syslog_and_are_counted(
    tmp_path: Path,
) -> None:
    with node(tmp_path, "Compress=64\\n") as here:
        here.print(1, XID + " and more of the same" * 5)
        here.await_records((1, "syslog"))
        assert here.taken.rejected == ["compressed"]
        here.await_mode("Journal")


def test_the_kernels_clock_may_run_ahead_by_a_minute_a_month(tmp_path: Path) -> None:
    """NTP sets the other one right, and not the one that dates the kernel's records."""
    month = 30 * 86400.0
    rejected: list[str] = []
    with Journald(tmp_path) as journald:
        journald.print(month + 100, XID)
        folders, boot_id = journald.folders, Node.boot_id()
        journal = Journal(folders, boot_id, rejected.append, monotonic=lambda: month)
        found: list[float] = []

        def look() -> bool:  # journald may not have written it yet
            found.extend(line.microseconds / 1e6 for line in journal.lines())
            return bool(found)

        wait_for(look, what="its record")
        assert found == [month + 100]


def test_a_fifo_in_the_journals_place_holds_nothing_up(tmp_path: Path) -> None:
    with node(tmp_path) as here:
        here.print(1)
        here.await_records((1, "kmsg"))
        (active,) = here.journald.folders[1].rglob("system.journal")
        active.unlink()
        os.mkfifo(active)
        here.await_mode("Syslog", "JournalUnreadable")
        here.print(2)  # journald moves it away
        here.await_records((1, "kmsg"), (2, "kmsg"))
        here.await_mode("Journal")
