"""systemd's journal and syslog(2), read as one log in which each record comes once.

Both show the kernel's records with the kernel's times, so that a record has the same place in both.
The journal keeps records whole, so a record is the journal's wherever that has it. But journald can
be late, lose records (a full disk, an overrun) or never read them (ReadKMsg=no), and says so in the
journal at best. So syslog(2) is read whenever the journal has something new, and from time to time
besides. What only syslog(2) shows is given as syslog(2)'s, in its turn: at once where the journal
has newer records, else after a while in which the journal may yet show it. From then on the journal
counts as silent, until it shows a newer record. One of the two may be missing; the other is then
read alone.

Limit: of one microsecond all is the journal's where it has a record of it.
"""

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Literal, NamedTuple

from exporter.model.node_health import SourceHealth
from exporter.model.node_health_words import COST_OF_SYSLOG
from exporter.model.signals import PLACES_A_SECOND
from exporter.sensor.kernel_log.journal import Journal
from exporter.sensor.kernel_log.kmsg_file import KernelLogError
from exporter.sensor.kernel_log.quoted import OWN
from exporter.sensor.kernel_log.syslog import SyslogError
from exporter.sensor.kernel_log.syslog_text import LATELY, Clears, Line, Look, SyslogText

LogSource = Literal["kmsg", "syslog"]

LATE = 5.0
"""Seconds for which a journal that is relied on may lack what syslog(2) shows, or be unreadable."""
_SHORTLY = 1.0
"""Seconds for which another one that can be read may: it may just begin to have the records."""
_JOURNAL_SECONDS = 0.5
_COMPARED_SECONDS = 2.0
"""Between two looks by syslog(2) while the journal has nothing new."""
_SYSLOG_SECONDS = 1.0
"""Between two looks by syslog(2) where no journal has the records; nothing wakes them."""
_SYSLOG_SHORTEST, _SYSLOG_LONGEST = 0.1, 10.0
_SYSLOG_SHARE = 50
"""A look is followed by so many times its own length of rest: two percent of a core at most."""
_WARNING = 4
"""Level of the driver's errors. Milder records journald may have been told to drop."""
_OWN = tuple(beginning.encode() for beginning in OWN)
_PER_MICROSECOND = PLACES_A_SECOND // 1_000_000

_REASONS = {
    "NotFound": "NoJournal",
    "PermissionDenied": "JournalDenied",
    "ReadFailed": "JournalUnreadable",
}
"""Reasons of a journal that is not read, while the source is up by syslog(2)."""


class NewLine(NamedTuple):
    """A record, which of the two showed it, and between which of its looks that was printed."""

    line: Line
    source: LogSource
    after: float | None
    """None: it may have been there before the first look."""
    until: float

    @property
    def turn(self) -> tuple[int, bool]:
        """In one microsecond the journal's come first."""
        return self.line.place // _PER_MICROSECOND, self.source == "syslog"

    @property
    def is_due_in_journal(self) -> bool:
        """Whether the journal must have it: a warning, or a line of the driver's."""
        head, _, message = self.line.raw.partition(b";")
        return int(head.partition(b",")[0]) <= _WARNING or message.startswith(_OWN)

    @property
    def since_boot(self) -> timedelta | None:
        """When it was printed, by our clock; None where only the kernel's says it."""
        if self.after is None:
            return None
        by_kernel = self.line.microseconds / 1e6
        return timedelta(seconds=min(self.until, max(self.after, by_kernel)))


class TwoLogs:
    """Gives what is new in the journal and by syslog(2), and says which of them it relies on."""

    def __init__(
        self,
        journal: Journal | None,
        read_text: Callable[[], Look] | None,
        on_rejected: Callable[[str], None],
        *,
        seen: int,
        without: KernelLogError | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seen` is the last place that was given before; `without`: why no better log is read."""
        self._journal = journal
        self._read_text = read_text
        self._on_rejected = on_rejected
        self._seen = seen
        self._without = without
        self._monotonic = monotonic
        self._journaled = -1
        """The last place that the journal showed."""
        self._known, self._clears, self._cleared = SyslogText(), Clears(), False
        self._waiting: deque[NewLine] = deque()
        """What syslog(2) showed and the journal did not yet."""
        self._silent = False
        """The journal lacks the newest record that syslog(2) shows."""
        self._lost = ""
        """What went from syslog(2) while the journal was relied on, which has yet to show it."""
        self._shown = -1
        """Microseconds since boot of the newest record that syslog(2) showed."""
        self._looked: dict[LogSource, float] = {}
        """When each of the two was read last."""
        self._counts_until = monotonic() + LATE
        """The journal; while journald begins another file it may not be readable."""
        self._refusal: KernelLogError | None = None
        """Of the journal."""
        self._syslog_refusal: KernelLogError | None = None
        self._syslog_due = 0.0
        self.rest = _JOURNAL_SECONDS
        """Seconds until the next look."""

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def look(self) -> Iterator[NewLine]:
        """Give what is new, in order. Raises KernelLogError where nothing can be read."""
        begun = self._monotonic()
        journal = self._from_journal(begun)
        # It is bounded now, before syslog(2) is read: that shows all of it, or more.
        first = next(journal, None)
        relies = self._relies_on_journal(begun)
        syslog: Iterable[NewLine] = ()
        self.rest = _JOURNAL_SECONDS
        if self._read_text is not None and (first is not None or begun >= self._syslog_due):
            syslog = self._from_syslog(self._read_text, begun, relies=relies)
        given = journal if first is None else itertools.chain((first,), journal)
        readable = self._journal is not None and self._refusal is None
        patience = LATE if relies else _SHORTLY if readable else 0.0
        yield from self._merged(given, syslog, begun, patience)
        if self._refusal is not None and self._read_text is None:
            raise self._refusal
        if self._syslog_refusal is not None and not self._relies_on_journal(begun):
            refusal = self._syslog_refusal
            raise KernelLogError(refusal.reason, f"{self._lacking}; {refusal}")

    def health(self) -> SourceHealth:
        """Return which of the two is relied on, and what it costs where that is not the journal."""
        if self._journal is not None and self._relies_on_journal(self._monotonic()):
            message = f"read from the journal in {self._journal.place}"
            if self._syslog_refusal is not None:
                message += f", and not compared with syslog(2): {self._syslog_refusal}"
            return SourceHealth(name="kmsg", state="Up", message=message, via="Journal")
        lacking = self._lacking
        if self._read_text is None:
            return SourceHealth(
                name="kmsg", state="Down", reason=lacking.reason, message=str(lacking)
            )
        if self._cleared:
            message = (
                f"the kernel log was cleared within the last {LATELY:.0f} seconds, so XIDs and "
                "SXids that only the log reports may be lost: find what clears it (dmesg -c, a pod "
                "with the capability SYSLOG), or have the journal or /dev/kmsg read, which a clear "
                f"leaves whole ({lacking})"
            )
            return SourceHealth(
                name="kmsg", state="Up", reason="Cleared", message=message, via="Syslog"
            )
        message = f"read by syslog(2), so {COST_OF_SYSLOG}: {lacking}"
        if self._journal is None:
            return SourceHealth(name="kmsg", state="Up", message=message, via="Syslog")
        reason = _REASONS.get(lacking.reason, lacking.reason)
        return SourceHealth(name="kmsg", state="Up", reason=reason, message=message, via="Syslog")

    def _relies_on_journal(self, now: float) -> bool:
        """Whether the journal has records of this boot's kernel, up to the newest ones."""
        return (
            self._journal is not None
            and self._journal.newest >= 0
            and not self._silent
            and now <= self._counts_until
        )

    @property
    def _lacking(self) -> KernelLogError:
        """What is wrong with the better log."""
        if self._journal is None or self._refusal is not None:
            return self._refusal or self._without or KernelLogError("NotFound", "there is no log")
        if self._journal.newest < 0:
            return KernelLogError(
                "NoKernelRecords",
                f"the journal in {self._journal.place} has no kernel messages of this boot: either "
                "the kernel logged none, or journald does not read them. Write ReadKMsg=yes into "
                "journald.conf, or read the kernel log another way",
            )
        return KernelLogError(
            "JournalSilent",
            f"the journal in {self._journal.place} lacks the newest kernel messages: check "
            "systemd-journald, the space on its disk, and ReadKMsg and MaxLevelStore in "
            "journald.conf",
        )

    def _from_journal(self, begun: float) -> Iterator[NewLine]:
        if self._journal is None:
            return
        after = self._looked.get("kmsg", self._looked.get("syslog"))
        try:
            for line in self._journal.lines():
                self._counts_until = self._monotonic() + LATE
                yield NewLine(line, "kmsg", after, begun)
            self._looked["kmsg"], self._refusal = begun, None
            self._counts_until = self._monotonic() + LATE
        except KernelLogError as error:
            self._refusal = error

    def _from_syslog(
        self, read_text: Callable[[], Look], begun: float, *, relies: bool
    ) -> Iterator[NewLine]:
        """Give what is new by syslog(2), and decide when it is read again.

        Beside a journal that is relied on only what that must have: the kernel's warnings, and what
        the drivers print.
        """
        after = self._looked.get("syslog", self._looked.get("kmsg"))
        queried = self._monotonic()
        try:
            seen = read_text()
        except SyslogError as error:
            self._syslog_refusal = KernelLogError(error.reason, str(error))
            self._syslog_due = begun + _COMPARED_SECONDS
            return
        changes = self._known.read(seen.text, seen.held)
        took = self._monotonic() - queried
        lost = changes.lost or self._lost
        # What is cleared stays in the journal.
        self._lost, lost = (lost, "") if relies else ("", lost)
        if lost:
            self._on_rejected(lost)
        self._cleared = self._clears.note(begun, lost)
        self._syslog_refusal = None
        if not changes.timed:
            self._syslog_refusal = KernelLogError(
                "NoTimes",
                "syslog(2) gives lines without their time, so that records cannot be told from "
                "lines that users write: write Y to /sys/module/printk/parameters/time, or "
                "mount /dev/kmsg",
            )
        for line in changes.lines:
            self._shown = line.microseconds
            new = NewLine(line, "syslog", after, begun)
            if not relies or new.is_due_in_journal:
                yield new
        self._looked["syslog"] = begun
        rest = min(max(_SYSLOG_SECONDS, _SYSLOG_SHARE * took), _SYSLOG_LONGEST)
        if relies:
            self.rest = max(_JOURNAL_SECONDS, min(_SYSLOG_SHARE * took, _SYSLOG_LONGEST))
            rest = max(rest, _COMPARED_SECONDS)
        else:
            if 4 * changes.size > len(seen.text):
                # Sooner while the ring fills fast.
                rest = min(max(_SYSLOG_SHORTEST, 4 * took), _SYSLOG_SECONDS)
            self.rest = rest if self._journal is None else min(rest, _JOURNAL_SECONDS)
        self._syslog_due = self._monotonic() + rest

    def _merged(
        self, journal: Iterable[NewLine], syslog: Iterable[NewLine], now: float, patience: float
    ) -> Iterator[NewLine]:
        """Give the records of both in order; those that the journal may yet show keep waiting."""
        waiting, self._waiting = self._waiting, deque()
        both = (journal, itertools.chain(waiting, syslog))
        for entry in heapq.merge(*both, key=lambda each: each.turn):
            if entry.source == "kmsg":
                while self._waiting:
                    # The journal has a newer one: it will not show these.
                    yield from self._given(self._waiting.popleft())
                self._journaled = max(self._journaled, entry.line.place)
                self._silent = self._silent and entry.turn[0] < self._seen // _PER_MICROSECOND
                yield from self._given(entry)
            elif entry.turn[0] <= self._journaled // _PER_MICROSECOND:
                continue  # the journal has it
            elif patience:
                self._waiting.append(entry)
            else:
                yield from self._overdue(entry)
        while self._waiting and now - self._waiting[0].until >= patience:
            yield from self._overdue(self._waiting.popleft())
        if self._journal is not None and self._journal.newest >= self._shown:
            self._lost = ""

    def _overdue(self, entry: NewLine) -> Iterator[NewLine]:
        """Give what the journal does not show in time."""
        for given in self._given(entry):
            lacks = self._journal is not None and entry.line.microseconds > self._journal.newest
            self._silent = self._silent or lacks
            yield given

    def _given(self, entry: NewLine) -> Iterator[NewLine]:
        """Give what was not given before."""
        if entry.line.place > self._seen:
            self._seen = entry.line.place
            yield entry
