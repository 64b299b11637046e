"""A number for each kernel-log record that two ways of reading the log agree on.

/dev/kmsg numbers its records, syslog(2) does not. What both tell is the time
since boot, so a record's place is made from that: sixteen places a microsecond,
and never below the record before it. A reader that starts again finds the same
places, so that a cursor written by one way of reading holds for the other.

Limits: where more than sixteen records share a microsecond, and the first of
them were overwritten meanwhile, the rest get lower places than before and count
as seen. Records of one priority and microsecond are one to syslog(2), which
only matters inside that microsecond. Pure.
"""

from exporter.model.signals import PLACES_A_SECOND

_PER_MICROSECOND = PLACES_A_SECOND // 1_000_000
_LATEST = 2**53 // _PER_MICROSECOND
"""Microseconds (17 years): places stay below what any JSON reader holds exactly."""


class RecordOrder:
    """Gives places to records in the order of the log, from its start."""

    def __init__(self) -> None:
        self._last = -1

    def place(self, microseconds: int) -> int:
        """Return the place of the next record, from its time since boot."""
        self._last = max(self._last + 1, min(microseconds, _LATEST) * _PER_MICROSECOND)
        return self._last

    def renumber(self, raw: bytes) -> tuple[int, bytes] | None:
        """Return the place of a /dev/kmsg record and the record with it as its sequence.

        None when it is no such record; the order is then as before.
        """
        parts = raw.split(b",", 3)
        if len(parts) < 4 or not parts[2].isdigit() or len(parts[2]) > 20:
            return None
        place = self.place(int(parts[2]))
        return place, b"%b,%d,%b,%b" % (parts[0], place, parts[2], parts[3])
