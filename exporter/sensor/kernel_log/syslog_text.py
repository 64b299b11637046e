"""The text of syslog(2) into records, and which of them are new.

The text has lines, not records: `<priority>[seconds.microseconds] message`. A record of several
lines has the same in front of each, so that a line cannot be told from a record by its form. The
kernel's own records quote what users write, such as the name of a file that crashes, and a user can
write line breaks. So a line with the same prefix as the line before it goes on with its record, and
is never one: the lines are joined again, as /dev/kmsg has them. What that hides of the driver's is
counted and left out, but for what gives all of it away as a quotation (kernel_log/quoted.py).
Without times the prefixes of all lines are alike: such a text has no records.

The whole log comes each time: what follows the end of the last text is new. When that end is gone,
the ring was overwritten or cleared meanwhile; everything that is there is then given, and the
places say which of it was seen before. What was logged and cleared between two texts is in neither:
then the kernel, which keeps cleared records, has more than the texts had. Pure.
"""

import re
from collections.abc import Iterator

import msgspec

from exporter.sensor.kernel_log.quoted import LINE_END, OWN, is_anothers, lines_of
from exporter.sensor.kernel_log.record_order import RecordOrder

_LINE = re.compile(
    rb"(<(\d{1,10})>\[ *(\d{1,10})\.(\d{6})\](?:\[[^\]\n]{1,40}\])?) ?(.*)", re.DOTALL
)
"""Behind the time some kernels print the caller (CONFIG_PRINTK_CALLER), without a space."""
_UNTIMED = re.compile(rb"^(?!<\d{1,10}>\[ *\d{1,10}\.\d{6}\])[\s\S]", re.MULTILINE)
_DRIVER = ("NVRM: Xid ", "nvidia-nvswitch")
"""Beginnings of lines that would be errors if they were records."""
_LONGEST_RECORD = 1024
"""Bytes of a record up to which lines are joined to it: the kernel prints no longer ones."""
_TAIL = 4096
"""Bytes of the text that are looked for in the next one; with their times they are unique."""


LATELY = 600.0
"""Seconds after a clear for which the log counts as cleared: a few scrapes, so that it is seen."""


class Look(msgspec.Struct, frozen=True):
    """What syslog(2) gives at one moment."""

    text: bytes
    held: int | None = None
    """Bytes that the kernel holds for those who read /proc/kmsg, cleared or not; None: unknown, or
    not asked for, which costs as much as the text. Needed where this text or the last is empty."""


class Line(msgspec.Struct, frozen=True):
    """One record as /dev/kmsg has it, with its place as the sequence."""

    place: int
    microseconds: int
    """Since boot."""
    raw: bytes
    hidden: int = 0
    """Lines of its own that would be the driver's errors if they were records."""


class NewLines(msgspec.Struct, frozen=True):
    """What is new in a text."""

    lost: str
    """`overwritten` or `cleared` when records may have come that no text had, else ""."""
    size: int
    """Bytes."""
    timed: bool
    """Whether each line says its time. Without, anybody can write what looks like a record."""
    lines: Iterator[Line]
    """None at all where it is not timed."""


class SyslogText:
    """Remembers the end of the last text. The lines of one must be taken before the next comes."""

    def __init__(self) -> None:
        self._tail = b""
        self._size = 0
        self._largest = 0
        self._held: int | None = None
        self._new = 0
        """Bytes that came since the kernel held so much."""
        self._order = RecordOrder()

    def read(self, text: bytes, held: int | None = None) -> NewLines:
        """Return what of a text was not there the time before; `held` is that of `Look`."""
        begin = _behind(self._tail, self._size, text)
        lost = ""
        if self._outgrows(held, None if begin is None else len(text) - begin):
            lost = "cleared"
        if begin is None:
            lost = "cleared" if 2 * len(text) < self._largest else "overwritten"
        if not begin:
            begin, self._order = 0, RecordOrder()
        self._tail, self._size = text[-_TAIL:], len(text)
        self._largest = max(self._largest, len(text))
        timed = _UNTIMED.search(text, begin) is None
        return NewLines(
            lost, len(text) - begin, timed, self._records(text, begin) if timed else iter(())
        )

    def _outgrows(self, held: int | None, new: int | None) -> bool:
        """Return whether the kernel got more than the texts; `new` is None if that is unknown.

        Who reads /proc/kmsg takes from what is held, and what is overwritten is gone from it: it
        may then be that nothing is noticed, but never that too much is.
        """
        if new is None:
            self._held, self._new = held, 0
            return False
        self._new += new
        outgrown = held is not None and self._held is not None and held - self._held > self._new
        if held is not None:
            self._held, self._new = held, 0
        return outgrown

    def _records(self, text: bytes, begin: int) -> Iterator[Line]:
        prefix, size, lines = None, 0, list[bytes]()
        for found in _lines(text, begin):
            if prefix is not None and found[1] == prefix[1]:
                if size < _LONGEST_RECORD:
                    lines.append(found[5])
                elif found[5].decode("latin-1").startswith(_DRIVER):
                    lines.append(_DRIVER[0].encode())
                size += len(LINE_END) + len(found[5])
                continue
            if prefix is not None:
                yield self._record(prefix, lines)
            prefix, size, lines = found, len(found[5]), [found[5]]
        if prefix is not None:
            yield self._record(prefix, lines)

    def _record(self, prefix: re.Match[bytes], lines: list[bytes]) -> Line:
        microseconds = int(prefix[3]) * 1_000_000 + int(prefix[4])
        place = self._order.place(microseconds)
        message, hidden = _joined(lines)
        raw = b"%b,%d,%d,-;%b" % (prefix[2], place, microseconds, message)
        return Line(place, microseconds, raw, hidden)


def _joined(lines: list[bytes]) -> tuple[bytes, int]:
    """Return the record that lines make, and how many of them it hides."""
    whole = LINE_END.encode().join(lines)
    if len(lines) == 1:
        return whole, 0
    # In latin-1 each byte stays what it is.
    first, *more = lines_of(whole.decode("latin-1"))
    hidden = sum(line.startswith(_DRIVER) for line in more)
    if not first.startswith(OWN):
        kept = [line for line in more if not line.startswith(_DRIVER)]
    elif is_anothers(whole.decode("utf-8", "replace")):
        kept = more
    else:
        # No line of a user's is hidden behind a driver's: what is another's is a record of its own.
        kept = [line for line in more if line.startswith(OWN) and not line.startswith(_DRIVER)]
    return LINE_END.join([first, *kept]).encode("latin-1"), hidden


class Clears:
    """Whether the log was cleared lately, in seconds of the caller's clock."""

    def __init__(self) -> None:
        self._last: float | None = None

    def note(self, now: float, lost: str) -> bool:
        """Take what a look found; returns whether it or one shortly before saw a clear."""
        if lost == "cleared":
            self._last = now
        return self._last is not None and now - self._last < LATELY


def _lines(text: bytes, begin: int) -> Iterator[re.Match[bytes]]:
    while begin < len(text):
        end = text.find(b"\n", begin)
        end = len(text) if end < 0 else end
        if found := _LINE.fullmatch(text, begin, end):
            yield found
        begin = end + 1


def _behind(before: bytes, size: int, text: bytes) -> int | None:
    """Return where in the text the new part begins, None when the old end is not there.

    `before` is the end of the text before, `size` how long that was.
    """
    if not before or text.startswith(before, size - len(before)):
        return size
    # From the start of a line on: a user can write a line that it knows within one of its own.
    known = before[before.find(b"\n") :] if size > len(before) else b"\n" + before
    for end in (known, known[known.rfind(b"\n", 0, -1) :]):
        at = text.rfind(end) if len(end) > 1 else -1
        if at >= 0:
            return at + len(end)
        if len(end) > 1 and text.startswith(end[1:]):
            return len(end) - 1
    return None
