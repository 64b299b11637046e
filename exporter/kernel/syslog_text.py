"""The text of syslog(2) into records, and which of them are new.

A line is `<priority>[seconds.microseconds] message`; a record with several lines has
that in front of each, so that nobody can write a line of another's. Of the one such
record that counts the lines are joined again, as /dev/kmsg has it. The whole log
comes each time: what follows the end of the last text is new. When that end is gone,
the ring was overwritten or cleared meanwhile; everything that is there is then given,
and the places say which of it was seen before. Pure.
"""

import re
from collections.abc import Iterator

import msgspec

from exporter.kernel.kernel_log import LINE_END
from exporter.kernel.record_order import RecordOrder

_LINE = re.compile(rb"<(\d{1,10})>\[ *(\d{1,10})\.(\d{6})\](?:\[[^\]]{1,40}\])? ?(.*)", re.DOTALL)
"""Behind the time some kernels print the caller (CONFIG_PRINTK_CALLER), without a space."""
_GOES_ON = re.compile(
    rb"(?P<head><\d{1,10}>\[[^\]]{1,40}\](?:\[[^\]]{1,40}\])? )"
    rb"(?P<message>NVRM: (?:\(PCI ID: |installed in this system |fallen off the bus ).*)",
    re.DOTALL,
)
"""A line of the driver's that is no sentence without the one before (`kernel_log`, XID 79)."""
_LONGEST_RECORD = 1024
"""Bytes of a record up to which lines are joined to it."""
_TAIL = 4096
"""Bytes of the text that are looked for in the next one; with their times they are unique."""


class Line(msgspec.Struct, frozen=True):
    """One line as a record of /dev/kmsg, with its place as the sequence."""

    place: int
    microseconds: int
    """Since boot."""
    raw: bytes


class News(msgspec.Struct, frozen=True):
    """What is new in a text."""

    lost: str
    """`overwritten` or `cleared` when the end of the text before is gone, "" when it is there."""
    size: int
    """Bytes."""
    lines: Iterator[Line | None]
    """None for a line that is none."""


class SyslogText:
    """Remembers the end of the last text. The lines of one must be taken before the next comes."""

    def __init__(self) -> None:
        self._tail = b""
        self._size = 0
        self._largest = 0
        self._order = RecordOrder()

    def news(self, text: bytes) -> News:
        """Return what of a text was not there the time before."""
        begin = _behind(self._tail, self._size, text)
        lost = ""
        if begin is None:
            lost = "cleared" if 2 * len(text) < self._largest else "overwritten"
        if not begin:
            begin, self._order = 0, RecordOrder()
        self._tail, self._size = text[-_TAIL:], len(text)
        self._largest = max(self._largest, len(text))
        records = (self._line(one) for one in _records(text, begin))
        return News(lost, len(text) - begin, records)

    def _line(self, line: bytes) -> Line | None:
        found = _LINE.fullmatch(line)
        if found is None:
            return None
        microseconds = int(found[2]) * 1_000_000 + int(found[3])
        place = self._order.place(microseconds)
        raw = b"%b,%d,%d,-;%b" % (found[1], place, microseconds, found[4])
        return Line(place, microseconds, raw)


def _records(text: bytes, begin: int) -> Iterator[bytes]:
    """Give the records of a text, each with the lines that go on with it."""
    record = b""
    while begin < len(text):
        end = text.find(b"\n", begin)
        end = len(text) if end < 0 else end
        line = text[begin:end]
        begin = end + 1
        more = _GOES_ON.fullmatch(line) if len(record) < _LONGEST_RECORD else None
        if more is not None and record.startswith(more["head"]):
            record += LINE_END.encode() + more["message"]
            continue
        if record:
            yield record
        record = line
    if record:
        yield record


def _behind(before: bytes, size: int, text: bytes) -> int | None:
    """Return where in the text the new part begins, None when the old end is not there.

    `before` is the end of the text before, `size` how long that was.
    """
    if not before or text.startswith(before, size - len(before)):
        return size
    for end in (before, before[before.rfind(b"\n", 0, -1) + 1 :]):
        at = text.rfind(end)
        if at >= 0:
            return at + len(end)
    return None
