"""What others put into journald's folders: it crashes, stops and fools nothing."""

import contextlib
import os
import shutil
import threading
from pathlib import Path

import pytest

from exporter.sensor.kernel_log.journal import Journal
from exporter.sensor.kernel_log.kmsg_file import KernelLogError
from tests.exporter.running import wait_for
from tests.exporter.sensor.kernel_log.test_journal import Folder
from tests.exporter.sensor.kernel_log.test_kmsg import BOOT_ID, Received, running
from tests.fuzz.journal_files import whole

FIELD_TABLE_OFFSET = 120
"""In the header: where the table of fields is, eight bytes (systemd, journal-def.h)."""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_an_offset_beyond_any_file_is_a_journal_that_makes_no_sense(folder: Folder) -> None:
    path = folder.write("compact-first", "system@1-2-3.journal")
    data = bytearray(path.read_bytes())
    data[FIELD_TABLE_OFFSET + 7] |= 0x80
    path.write_bytes(data)
    folder.write("compact-whole")
    assert len(folder.messages()) == 67
    assert "unreadable" in folder.rejected


@pytest.mark.parametrize("what", ["the file", "its folder", "a link to its folder"])
def test_what_others_than_root_may_write_is_no_journal(
    folder: Folder, tmp_path: Path, what: str
) -> None:
    path = folder.write("compact-whole")
    if what == "the file":
        path.chmod(0o666)
    elif what == "its folder":
        folder.machine.chmod(0o777)
    else:
        elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
        folder.machine.rename(elsewhere)
        folder.machine.symlink_to(elsewhere)
    with pytest.raises(KernelLogError):
        folder.messages()


def test_a_record_of_a_time_to_come_hides_none_that_comes(tmp_path: Path) -> None:
    """Whatever is later than the newest record counts as new."""
    early = Folder(tmp_path)
    early.journal = Journal([tmp_path], BOOT_ID, early.rejected.append, monotonic=lambda: -100.0)
    early.write("compact-whole")
    assert early.messages() == []
    assert "malformed" in early.rejected


def test_a_link_that_leads_nowhere_costs_another_machines_journal_nothing(
    folder: Folder, tmp_path: Path
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    folder.write("compact-whole")
    assert len(folder.messages()) == 67


def test_a_file_that_gets_the_inode_of_another_one_is_read(folder: Folder) -> None:
    """ext4 gives a number again at once."""
    path = folder.write("journald", "system@1-2-3.journal")
    with pytest.raises(KernelLogError, match="no journal of this boot"):
        folder.messages()
    with path.open("r+b") as file:
        file.write(whole("compact-whole"))
    path.rename(path.with_name("system.journal"))
    assert len(folder.messages()) == 67


def test_a_folder_that_goes_while_it_is_listed_holds_nothing_up(folder: Folder) -> None:
    folder.write("compact-whole")
    ends = threading.Event()

    def churn() -> None:
        other = folder.machine.with_name("f" * 32)
        while not ends.is_set():
            other.mkdir()
            (other / "system.journal").write_bytes(b"")
            shutil.rmtree(other)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(2000):
            with contextlib.suppress(KernelLogError):
                folder.messages()
    finally:
        ends.set()
        thread.join()
    assert folder.messages() == []


def test_each_record_shows_that_the_reader_is_at_work(tmp_path: Path) -> None:
    worked: list[int] = []
    folder = Folder(tmp_path)
    folder.journal = Journal([tmp_path], BOOT_ID, folder.rejected.append, lambda: worked.append(1))
    folder.write("compact-whole")
    read = folder.messages()
    assert len(worked) >= len(read) == 67


def test_a_name_that_is_no_text_is_reported_as_text(tmp_path: Path) -> None:
    """What cannot be encoded would silence the whole sensor."""
    machine = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    machine.mkdir()
    (machine / "system.journal").write_bytes(b"garbage")
    received = Received()
    with running(received.reader(tmp_path)):
        wait_for(lambda: received.sources)
    assert r"\udcff" in received.sources[-1].message
    assert received.sources[-1].message.encode()
