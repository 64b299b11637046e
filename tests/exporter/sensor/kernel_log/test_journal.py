"""The kernel's records from systemd's journal: files that systemd has written."""

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from exporter.model.signals import Signal
from exporter.sensor.kernel_log import driver_lines
from exporter.sensor.kernel_log.driver_lines import Rejected
from exporter.sensor.kernel_log.journal import Journal, as_line
from exporter.sensor.kernel_log.journal_file import (
    JournalError,
    JournalFile,
    KernelRecord,
    size_unpacked,
)
from exporter.sensor.kernel_log.kmsg_file import KernelLogError
from exporter.sensor.kernel_log.quoted import LINE_END
from exporter.sensor.kernel_log.record_order import RecordOrder
from tests.exporter.running import ROOT, wait_for
from tests.exporter.sensor.kernel_log.test_kmsg import BOOT_ID, Received, running
from tests.fuzz.journal_files import whole

BOOT = bytes.fromhex(BOOT_ID.replace("-", ""))
CRASH = b"y[7]: segfault in y\nNVRM: Xid (PCI:0000:3b:00): 95 pid=1[1132]"
XID_31 = b"NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=train, Ch 00000007"
TABLES_AT, HEADER_SIZE = 104, 272
"""Where a file's header says where its tables are (systemd, journal-def.h); zeros until then."""
LONG = b""
"""journald has compressed it, and it is too long for a line of the driver's."""
LOST = b"NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=train, Ch 00000000"


def reader(data: bytes) -> Callable[[int, int], bytes]:
    return lambda at, size: data[at : at + size]


def records(name: str) -> list[KernelRecord]:
    return list(JournalFile(reader(whole(name))).records())


def signals(found: list[KernelRecord]) -> list[Signal]:
    order, taken = RecordOrder(), list[Signal]()
    for record in found:
        try:
            split = driver_lines.split(as_line(record, order).raw)
            signal = driver_lines.understand(split, datetime(2026, 1, 5, tzinfo=UTC))
        except Rejected:
            continue
        taken += [signal] if signal else []
    return taken


@pytest.mark.parametrize("name", ["compact-whole", "regular-whole"])
def test_the_kernels_records_are_read_in_their_order_and_no_others(name: str) -> None:
    found = records(name)

    messages = [record.message for record in found]
    assert messages[:3] == [b"an older boot", b"Linux version 6.18", b"line 0"]
    assert [record.microseconds for record in found[2:62]] == list(range(1000, 1600, 10))
    assert {record.boot for record in found[1:]} == {BOOT}
    assert found[62].facility == 1
    assert messages[63:67] == [XID_31, CRASH, LONG, LOST]
    assert len(found) == 68


def test_what_journald_reads_of_a_forged_line_is_no_signal() -> None:
    """A program crashed whose file name has a line break, and a user wrote to /dev/kmsg."""
    found = records("journald")

    assert [record.facility for record in found] == [1, 0, 0]
    assert found[1].message
    assert b"\nNVRM: Xid (PCI:0000:9a:00): 95" in found[1].message
    assert signals(found) == []


def test_the_drivers_records_are_signals_and_quoted_ones_are_none() -> None:
    taken = signals(records("compact-whole"))
    assert [(signal.kind, signal.code) for signal in taken] == [
        ("xid", 31),
        ("xid", 79),
        ("fell-off", 79),
    ]


def test_of_a_file_that_grows_only_what_is_new_is_given() -> None:
    data = whole("compact-first")
    file = JournalFile(lambda at, size: data[at : at + size])
    before = list(file.records())
    assert list(file.records()) == []

    data = whole("compact-whole")
    assert before + list(file.records()) == records("compact-whole")


def test_a_file_that_ends_too_early_is_refused() -> None:
    data = whole("compact-whole")
    for size in (0, 100, 263, len(data) // 2, len(data) - 500):
        with pytest.raises(JournalError):
            list(JournalFile(reader(data[:size])).records())


@pytest.mark.parametrize(
    ("flags", "head", "size"),
    [
        (2, "3502000000000000 aa", 0x235),
        (4, "28b52ffd 20 c8", 200),
        (4, "28b52ffd 60 3502", 0x335),
        (4, "28b52ffd a0 35020000", 0x235),
        (4, "28b52ffd e1 07 3502000000000000", 0x235),
        (4, "28b52ffd 40 58 3502", 0x335),
        (4, "28b52ffd 00 58", 0),
        (4, "28b52ffd", 0),
        (1, "fd377a585a00", 0),
    ],
    ids=["LZ4", "1 byte", "2", "4", "8 and a dictionary", "a window", "none", "cut off", "XZ"],
)
def test_what_a_compressed_text_says_of_its_length(flags: int, head: str, size: int) -> None:
    assert size_unpacked(flags, bytes.fromhex(head).ljust(16 if " " in head else 0)) == size


class Folder:
    """A folder of journald's, below which the machine has its own."""

    def __init__(self, path: Path) -> None:
        self.machine = path / "0123456789abcdef0123456789abcdee"
        self.machine.mkdir()
        self.rejected: list[str] = []
        self.journal = Journal([path], BOOT_ID, self.rejected.append)

    def write(self, recording: str, name: str = "system.journal") -> Path:
        """Write a file, in place where it is there."""
        path = self.machine / name
        with path.open("r+b" if path.exists() else "wb") as file:
            file.write(whole(recording))
        return path

    def messages(self) -> list[bytes]:
        return messages(self.journal)


def messages(journal: Journal) -> list[bytes]:
    heads = [line.raw.partition(b";")[2] for line in journal.lines()]
    return [message.replace(LINE_END.encode(), b"\n") for message in heads]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_records_of_another_boot_are_left_out(folder: Folder) -> None:
    folder.write("compact-whole")
    found = folder.messages()
    assert (found[0], found[-2], len(found)) == (b"Linux version 6.18", LOST, 67)
    assert folder.rejected == []
    assert folder.messages() == []


def test_a_file_that_is_archived_is_read_on_under_its_new_name(folder: Folder) -> None:
    """journald renames the full file and begins another: nothing is read twice or missed."""
    active = folder.write("compact-first")
    first = folder.messages()
    active.rename(active.with_name("system@1-2-3.journal"))
    folder.write("compact-whole", "system@1-2-3.journal")
    folder.write("regular-whole")

    assert len(first) == 65
    found = folder.messages()
    assert (found[0], found.count(LOST), len(found)) == (b"Linux version 6.18", 2, 2 + 67)
    assert folder.messages() == []


def test_a_file_that_journald_has_just_begun_is_read_once_it_has_entries(folder: Folder) -> None:
    """journald writes the boot into it, waits for the disk, and only then makes the tables."""
    active = folder.write("compact-first")
    assert len(folder.messages()) == 65
    active.rename(active.with_name("system@1-2-3.journal"))
    active.write_bytes(whole("compact-whole")[:TABLES_AT].ljust(HEADER_SIZE, b"\0"))
    assert folder.messages() == []
    folder.write("compact-whole")
    assert len(folder.messages()) == 67


def test_all_files_are_read_in_the_kernels_order_and_those_of_other_boots_not_at_all(
    folder: Folder,
) -> None:
    folder.write("journald", "system@0-0-0.journal")
    folder.write("missed", "system@1-2-3.journal~")
    folder.write("compact-first")
    places = [line.place for line in folder.journal.lines()]
    assert places == sorted(places)
    assert len(places) == 65 + 5
    assert folder.rejected == ["missed", "missed"]


def test_a_record_that_journald_copies_to_its_other_folder_has_the_same_place(
    tmp_path: Path,
) -> None:
    """At boot journald writes below /run; later it copies that to the disk and goes on there."""
    below_run, on_disk = tmp_path / "run", tmp_path / "var"
    below_run.mkdir()
    journal = Journal([on_disk, below_run], BOOT_ID, lambda _reason: None)
    volatile = Folder(below_run).write("compact-first")
    first = [line.place for line in journal.lines()]

    on_disk.mkdir()
    Folder(on_disk).write("compact-whole")
    volatile.unlink()
    again = [line.place for line in journal.lines()]
    assert first == again[: len(first)]
    assert len(again) == len(first) + 2


@pytest.mark.parametrize("kind", ["a FIFO", "a symlink to an endless file", "a folder"])
@pytest.mark.parametrize("name", ["system.journal", "system@1-2-3.journal"])
def test_what_is_no_regular_file_holds_nothing_up(folder: Folder, kind: str, name: str) -> None:
    path = folder.machine / name
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a symlink to an endless file":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    if name == "system.journal":
        with pytest.raises(KernelLogError, match=str(path)) as found:
            folder.messages()
        assert found.value.reason == "ReadFailed"
    else:
        folder.write("compact-first")
        assert len(folder.messages()) == 65
        assert folder.rejected == ["unreadable"]


def test_a_journal_that_makes_no_sense_costs_another_machines_nothing(folder: Folder) -> None:
    """As where a disk was cloned: journald writes into the folder of its own machine id."""
    other = folder.machine.with_name("f" * 32)
    other.mkdir()
    (other / "system.journal").write_bytes(b"garbage")
    folder.write("compact-first")
    assert len(folder.messages()) == 65


def test_a_journal_of_another_boot_alone_is_no_journal_until_journald_writes_it(
    folder: Folder,
) -> None:
    """As where journald keeps nothing on this disk any more: nothing would ever be read."""
    folder.write("journald")
    with pytest.raises(KernelLogError, match="no journal of this boot"):
        folder.messages()
    folder.write("compact-whole")
    assert len(folder.messages()) == 67


def test_what_journald_missed_is_counted_once_each_time(folder: Folder) -> None:
    """It read five records and knew by their numbers that 5 and 51 others had been there."""
    folder.write("missed")
    assert folder.messages() == [b"Linux version 6.18", XID_31, LOST, b"line", b"line"]
    assert folder.rejected == ["missed", "missed"]
    assert folder.messages() == []
    assert folder.rejected == ["missed", "missed"]


def test_an_archive_that_journald_closes_or_copies_is_not_read_again(folder: Folder) -> None:
    """It closes a file after it renamed it, and on Btrfs puts a copy into its place."""
    archived = folder.write("missed", "system@1-2-3.journal")
    assert len(folder.messages()) == 5
    os.utime(archived)
    assert folder.messages() == []
    copy = folder.write("missed", "a copy")
    copy.rename(archived)
    assert folder.messages() == []
    assert folder.rejected == ["missed", "missed"]


def test_what_another_boot_missed_is_not_counted(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("missed")
    assert list(JournalFile(reader(whole("missed"))).missed()) == [BOOT, BOOT]
    other = Journal([tmp_path], "f" * 32, folder.rejected.append)
    with pytest.raises(KernelLogError, match="no journal of this boot"):
        list(other.lines())
    assert folder.rejected == []


def test_a_client_that_says_that_journald_missed_records_is_not_counted() -> None:
    """`MESSAGE_ID` is any client's to set; `_TRANSPORT` is not."""
    data = whole("missed").replace(b"_TRANSPORT=driver", b"_TRANSPORT=stdout")
    assert list(JournalFile(reader(data)).missed()) == []


def test_a_journal_without_the_kernels_records_is_none_of_a_silent_kernel(folder: Folder) -> None:
    """Written with ReadKMsg=no."""
    folder.write("nokmsg")
    assert folder.messages() == []
    assert folder.journal.newest < 0
    folder.write("missed", "system@1-2-3.journal")
    assert len(folder.messages()) == 5
    assert folder.journal.newest > 0


@pytest.mark.parametrize("boot_id", ["", "none", "01234567", "ab" * 17])
def test_without_a_boot_id_no_record_is_of_this_boot(tmp_path: Path, boot_id: str) -> None:
    Folder(tmp_path).write("compact-whole")
    journal = Journal([tmp_path], boot_id, lambda _reason: None)
    with pytest.raises(KernelLogError, match="boot id") as found:
        list(journal.lines())
    assert found.value.reason == "NoBootId"


def test_an_archived_file_that_makes_no_sense_is_counted_once(folder: Folder) -> None:
    (folder.machine / "system@1-2-3.journal").write_bytes(b"garbage")
    folder.write("compact-whole")
    assert len(folder.messages()) == 67
    assert folder.messages() == []
    assert folder.rejected == ["unreadable"]


_LOOKS = """
import sys
from pathlib import Path
from exporter.sensor.kernel_log.journal import Journal
rejected = []
journal = Journal([Path(sys.argv[1])], sys.argv[2], rejected.append)
print(len(list(journal.lines())), len(list(journal.lines())), rejected)
"""


def test_an_archived_file_with_a_bad_sector_is_counted_once(folder: Folder) -> None:
    """Process memory at 0 answers EIO, as the sector would."""
    folder.write("compact-whole")
    archived = folder.machine / "system@1-2-3.journal"
    archived.touch()
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    look = 'mount --bind /proc/$$/mem "$0" && exec "$@"'
    program = (sys.executable, "-c", _LOOKS, folder.machine.parent, BOOT_ID)
    done = subprocess.run(
        ["unshare", *user, "--mount", "sh", "-c", look, archived, *program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "67 0 ['unreadable']\n", done.stderr


def test_a_removed_file_is_let_go(folder: Folder) -> None:
    folder.write("compact-whole", "system@1-2-3.journal")
    folder.write("compact-first")
    folder.messages()
    (folder.machine / "system@1-2-3.journal").unlink()
    assert folder.messages() == []


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "NotFound"), (b"", "ReadFailed"), (b"x" * 300, "ReadFailed")]
)
def test_a_folder_without_a_journal_says_what_to_do(
    folder: Folder, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (folder.machine / "system.journal").write_bytes(content)
    with pytest.raises(KernelLogError) as found:
        folder.messages()
    assert found.value.reason == reason
    assert str(folder.machine.parent) in str(found.value)


def test_the_reader_follows_a_journal_as_it_does_the_device(tmp_path: Path) -> None:
    taken, folder = Received(), Folder(tmp_path)
    with running(taken.reader(tmp_path)):
        wait_for(lambda: taken.sources)
        assert (taken.sources[0].up, taken.sources[0].reason) == (False, "NotFound")
        folder.write("compact-first")
        wait_for(lambda: taken.sources[-1].up)
        assert taken.sources[-1].via == "Journal"
        assert {at for _, at, _ in taken.records} == {None}
        folder.write("compact-whole")
        wait_for(lambda: len(taken.records) == 67)
    assert [at is None for _, at, _ in taken.records[-3:]] == [True, False, False]
    assert taken.places() == sorted(set(taken.places()))
    assert (
        3_000_000 * 16,
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=train, Ch 00000007",
    ) in (taken.reported())


def test_a_journal_without_the_kernels_records_is_a_state_until_they_come(tmp_path: Path) -> None:
    taken, folder = Received(), Folder(tmp_path)
    folder.write("nokmsg")
    with running(taken.reader(tmp_path)):
        wait_for(lambda: taken.sources)
        (source,) = taken.sources
        assert (source.up, source.reason) == (False, "NoKernelRecords")
        assert "ReadKMsg=yes" in source.message
        folder.write("missed", "system@1-2-3.journal")
        wait_for(lambda: taken.sources[-1].up)
    assert len(taken.sources) == 2
    assert taken.sources[-1].via == "Journal"
    assert [message for message in taken.messages() if "NVRM" in message] == [
        XID_31.decode(),
        LOST.decode(),
    ]
    assert taken.rejected == ["missed", "missed"]
