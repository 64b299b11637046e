"""The journal and syslog(2) as one log: no record is lost, none comes twice, and it says which."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.sensor.kernel_log.journal import Journal
from exporter.sensor.kernel_log.kmsg_file import KernelLogError
from exporter.sensor.kernel_log.syslog import SyslogError
from exporter.sensor.kernel_log.syslog_text import Line
from exporter.sensor.kernel_log.two_logs import LATE, TwoLogs
from tests.exporter.sensor.kernel_log.ring import Ring

XID = "NVRM: Xid (PCI:0000:3b:00): 119, x"
DRIVER, MILD = 4, 6


class PlayedJournal(Journal):
    """journald's folders, of which a test says what is in them."""

    def __init__(self) -> None:
        super().__init__([Path("/var/log/journal")], "", lambda _reason: None)
        self.new: list[Line] = []
        self.left_out = -1
        """Microseconds of a record of which only the time can be read."""
        self.refusal: KernelLogError | None = None

    def lines(self) -> Iterator[Line]:
        if self.refusal:
            raise self.refusal
        new, self.new = self.new, []
        self.newest = max(self.newest, self.left_out, *(line.microseconds for line in new))
        yield from new


class Node:
    """A kernel, its log, and journald, which may miss some of it."""

    def __init__(self, journal: PlayedJournal | None = None) -> None:
        self.journal = journal or PlayedJournal()
        self.ring = Ring()
        self.now = 0.0
        self.rejected: list[str] = []
        self.logs = self.open()

    def open(self, seen: int = -1) -> TwoLogs:
        return TwoLogs(
            self.journal,
            self.ring.read,
            self.rejected.append,
            seen=seen,
            monotonic=lambda: self.now,
        )

    def print(self, seconds: float, text: str = XID, level: int = DRIVER, by: str = "both") -> None:
        """Print a record that both logs show, or one of them."""
        microseconds = round(seconds * 1e6)
        if by in {"both", "syslog"}:
            self.ring.write(seconds, text, level)
        if by in {"both", "journal"}:
            place = microseconds * 16
            raw = f"{level},{place},{microseconds},-;{text}".encode()
            self.journal.new.append(Line(place, microseconds, raw))

    def look(self, after: float = 0.5) -> list[tuple[float, str]]:
        """Look some time later; returns seconds and source of what is new."""
        self.now += after
        return [(new.line.microseconds / 1e6, new.source) for new in self.logs.look()]

    @property
    def mode(self) -> tuple[str | None, str]:
        health = self.logs.health()
        return health.via, health.reason


def test_what_both_show_is_the_journals_and_comes_once() -> None:
    node = Node()
    for second in (1, 2, 3):
        node.print(second)
    assert node.look() == [(1, "kmsg"), (2, "kmsg"), (3, "kmsg")]
    assert node.look(LATE) == []
    assert node.mode == ("Journal", "")


def test_what_journald_lost_comes_by_syslog_in_its_turn() -> None:
    """An overrun: journald has what came before and what came later."""
    node = Node()
    node.print(1)
    node.print(2, by="syslog")
    node.print(3)
    assert node.look() == [(1, "kmsg"), (2, "syslog"), (3, "kmsg")]
    assert node.mode == ("Journal", "")


def test_a_journal_that_is_late_is_waited_for() -> None:
    node = Node()
    node.print(1)
    node.look()
    node.print(2, by="syslog")
    assert node.look(3) == []
    assert node.mode == ("Journal", "")
    node.print(2, by="journal")
    assert node.look() == [(2, "kmsg")]


def test_a_journal_that_has_fallen_silent_is_not_relied_on_until_it_has_newer_records() -> None:
    """Its disk is full, or ReadKMsg is no since its restart."""
    node = Node()
    node.print(1)
    node.look()
    node.print(2, by="syslog")
    node.look(3)
    assert node.look(LATE) == [(2, "syslog")]
    assert node.mode == ("Syslog", "JournalSilent")
    node.print(3, by="syslog")
    node.look(2)
    assert node.look(1) == [(3, "syslog")]

    node.print(2, by="journal")
    assert node.look() == []  # it came by syslog(2)
    assert node.mode == ("Syslog", "JournalSilent")
    node.print(4)
    assert node.look() == [(4, "kmsg")]
    assert node.mode == ("Journal", "")


def test_a_silent_journal_is_noticed_before_the_driver_prints_an_error() -> None:
    node = Node()
    node.print(1)
    node.look()
    node.print(2, "EXT4-fs error", by="syslog")
    node.look(3)
    assert node.look(LATE) == [(2, "syslog")]
    assert node.mode == ("Syslog", "JournalSilent")


def test_a_journal_that_has_a_record_compressed_is_not_silent() -> None:
    node = Node()
    node.print(1)
    node.look()
    node.journal.left_out = 2_000_000
    node.print(2, "Modules linked in: nvidia", by="syslog")
    assert node.look(2) + node.look(LATE) == [(2, "syslog")]
    assert node.mode == ("Journal", "")


def test_what_the_ring_lost_while_journald_hung_is_counted_once() -> None:
    node = Node()
    node.print(1)
    node.look()
    node.ring.text = b""  # with records that nothing shows
    node.print(3, by="syslog")
    assert node.look(2) == []
    assert node.look(LATE) == [(3, "syslog")]
    node.look(2)
    node.look(2)
    assert (node.mode, node.rejected) == (("Syslog", "JournalSilent"), ["overwritten"])


def test_what_the_ring_lost_is_counted_though_only_milder_records_followed() -> None:
    node = Node()
    node.print(1)
    node.look()
    node.ring.text = b""
    node.print(3, "eth0: link up", MILD, by="syslog")
    node.look(2)
    node.print(12, by="syslog")
    node.look(2)
    node.look(LATE)
    node.look(2)
    assert (node.mode, node.rejected) == (("Syslog", "JournalSilent"), ["overwritten"])


def test_what_the_ring_lost_is_not_counted_where_the_journal_has_it_a_little_later() -> None:
    node = Node()
    node.print(1)
    node.look()
    node.ring.text = b""
    node.print(3, by="syslog")
    node.look(2)
    node.print(2, by="journal")
    node.print(3, by="journal")
    assert node.look() == [(2, "kmsg"), (3, "kmsg")]
    node.print(4, by="syslog")
    node.look(2)
    node.look(LATE)
    node.look(2)
    assert (node.mode, node.rejected) == (("Syslog", "JournalSilent"), [])


def test_a_journal_is_relied_on_after_a_pause_of_the_reader() -> None:
    """A look at a large ring is followed by a long rest."""
    node = Node()
    node.print(1)
    node.look()
    node.ring.text = b""
    node.print(2)
    assert node.look(2 * LATE) == [(2, "kmsg")]
    assert (node.mode, node.rejected) == (("Journal", ""), [])


def test_milder_records_may_be_missing() -> None:
    """MaxLevelStore=warning keeps the driver's lines, and no more than those says anything."""
    node = Node()
    node.print(1)
    node.look()
    node.print(2, "eth0: link up", MILD, by="syslog")
    node.look(3)
    assert node.look(LATE) == []
    assert node.mode == ("Journal", "")


def test_what_the_driver_prints_more_mildly_is_not_lost() -> None:
    node = Node()
    node.print(1)
    node.look()
    node.print(2, "NVRM: loading NVIDIA UNIX Open Kernel Module", MILD, by="syslog")
    node.look(3)
    assert node.look(LATE) == [(2, "syslog")]


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        ("NotFound", "NoJournal"),
        ("PermissionDenied", "JournalDenied"),
        ("ReadFailed", "JournalUnreadable"),
        ("NoBootId", "NoBootId"),
    ],
)
def test_without_a_journal_syslog_stands_in_and_the_state_says_what_that_costs(
    refused: str, reason: str
) -> None:
    node = Node()
    node.journal.refusal = KernelLogError(refused, "it is not there")
    node.print(1, by="syslog")
    assert node.look() == [(1, "syslog")]
    assert node.mode == ("Syslog", reason)
    message = node.logs.health().message
    assert "it is not there" in message
    assert "a fault that only the kernel log reports is not tainted" in message


def test_a_journal_that_appears_late_takes_over_and_nothing_comes_twice() -> None:
    node = Node()
    node.journal.refusal = KernelLogError("NotFound", "it is not there")
    node.print(1)
    assert node.look() == [(1, "syslog")]
    node.journal.refusal = None
    assert node.look() == []
    assert node.mode == ("Journal", "")
    node.print(2)
    assert node.look(1) == [(2, "kmsg")]


def test_a_journal_without_kernel_records_is_none() -> None:
    node = Node()
    node.print(1, by="syslog")
    assert node.look() == []
    assert node.look(1) == [(1, "syslog")]
    assert node.mode == ("Syslog", "NoKernelRecords")


def test_a_journal_may_have_its_first_record_a_moment_later() -> None:
    """All older ones were removed: who looks right then sees it by syslog(2) alone."""
    node = Node()
    node.print(1, by="syslog")
    assert node.look() == []
    node.print(1, by="journal")
    assert node.look() == [(1, "kmsg")]


def test_a_journal_that_cannot_be_read_for_a_moment_is_waited_for() -> None:
    """journald begins a new file, and a line comes meanwhile."""
    node = Node()
    node.print(1)
    node.look()
    node.journal.refusal = KernelLogError("ReadFailed", "the file ends too early")
    node.print(2, by="syslog")
    assert node.look(2) == []
    assert node.mode == ("Journal", "")
    node.journal.refusal = None
    node.print(2, by="journal")
    assert node.look() == [(2, "kmsg")]


def test_a_journal_that_is_removed_leaves_its_place_to_syslog() -> None:
    node = Node()
    node.print(1)
    node.look()
    node.journal.refusal = KernelLogError("NotFound", "it is gone")
    node.print(2, by="syslog")
    node.look(1)
    assert node.look(LATE) == [(2, "syslog")]
    assert node.mode == ("Syslog", "NoJournal")


def test_without_syslog_the_journal_is_read_and_says_that_nothing_compares_it() -> None:
    node = Node()
    node.ring.refusal = SyslogError("PermissionDenied", "give it SYSLOG")
    node.print(1, by="journal")
    assert node.look() == [(1, "kmsg")]
    assert node.mode == ("Journal", "")
    assert "not compared with syslog(2): give it SYSLOG" in node.logs.health().message


def test_without_either_both_are_named() -> None:
    node = Node()
    node.ring.refusal = SyslogError("PermissionDenied", "give it SYSLOG")
    node.journal.refusal = KernelLogError("NotFound", "no journal there")
    with pytest.raises(KernelLogError, match="no journal there; give it SYSLOG") as found:
        node.look()
    assert found.value.reason == "PermissionDenied"


def test_a_reader_that_begins_again_gives_nothing_twice() -> None:
    node = Node()
    node.print(1)
    node.print(2)
    node.look()
    node.print(1, by="journal")
    node.print(2, by="journal")
    node.print(3)
    node.logs = node.open(seen=2_000_000 * 16)
    assert node.look() == [(3, "kmsg")]


def test_of_one_microsecond_what_the_journal_has_is_not_taken_from_syslog_too() -> None:
    """A record that journald drops comes first in that microsecond: places differ by one."""
    node = Node()
    node.print(1, "eth0: link up", MILD, by="syslog")
    node.print(1)
    assert node.look() == [(1, "kmsg")]
    assert node.look(LATE) == []


def test_a_ring_that_overflows_beside_a_journal_loses_nothing() -> None:
    node = Node()
    node.print(1)
    node.look()
    node.ring.text = b""
    node.print(2)
    assert node.look() == [(2, "kmsg")]
    assert node.rejected == []


def test_a_line_is_dated_between_two_looks_of_the_log_that_shows_it() -> None:
    node = Node()
    node.print(1)
    node.look()
    node.print(2, by="syslog")
    node.look(3)  # at 3.5
    node.now += LATE
    (late,) = node.logs.look()
    assert (late.after, late.until) == (0.5, 3.5)


def test_a_clear_of_the_log_takes_nothing_from_a_journal_that_is_relied_on() -> None:
    node = Node()
    node.print(1)
    node.look()
    node.ring.text = b""
    node.look(LATE)
    node.print(2)
    assert node.look() == [(2, "kmsg")]
    assert node.mode == ("Journal", "")
    assert node.rejected == []


def test_a_clear_of_the_log_without_a_journal_is_counted_and_named() -> None:
    node = Node()
    node.journal.refusal = KernelLogError("NotFound", "no journal there")
    node.print(1, by="syslog")
    node.look(LATE + 1)
    node.ring.text = b""
    node.look(LATE)
    assert node.mode == ("Syslog", "Cleared")
    assert node.rejected == ["cleared"]
