"""The counters file on disk: read at the start, looked at again before each page.

A mounted ConfigMap is swapped by a link (`..data`), an editor writes in place: both
change what the path leads to, and one `stat` shows it, so nothing has to be watched. A
new file that is bad leaves the last good one in force.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from exporter.metrics import counters
from exporter.metrics.counters import Counters, CountersError, Reloads
from exporter.model.given import WrittenRow
from exporter.regular_file import read_regular

_log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int, int]
"""Device, inode, size and time of change in nanoseconds."""


class CountersFile:
    """The counters in force. Without a path: the rows of a configuration file, or the default set.

    Those stay for ever.
    """

    def __init__(self, path: Path | None, rows: Sequence[WrittenRow] = (), name: str = "") -> None:
        """Read the file; raises CountersError, because nothing is in force yet.

        `rows` count without a path, and are of the file that messages call `name`.
        """
        self._path = path
        self._stamp: _Stamp | None = None
        self._requested = False
        self._logged = ""
        self.reloads = Reloads()
        if path:
            self.current = self._read()
        else:
            self.current = counters.of_rows(rows, name) if rows else counters.default()
        self._tell_notes()

    def ask(self) -> None:
        """Read the file again at the next look, whether it seems changed or not (SIGHUP)."""
        self._requested = True

    def look(self) -> bool:
        """Take the file up if it is another one; return whether what is in force changed."""
        if self._path is None or not (self._requested or _stamp(self._path) != self._stamp):
            return False
        self._requested = False
        try:
            new = self._read()
        except CountersError as error:
            failures = self.reloads.failures + 1
            self.reloads = Reloads(failures=failures, last_ok=False)
            # A file that stays bad is looked at again only when it changes; say each thing once.
            if str(error) != self._logged:
                self._logged = str(error)
                _log.error(
                    "the new counters file is refused, the old one stays in force: %s", error
                )
            return False
        changed = new != self.current
        if self._logged:
            _log.info("%s is good again", self._path)
        self.current, self._logged = new, ""
        self.reloads = msgspec.structs.replace(self.reloads, last_ok=True)
        if changed:
            _log.info("loaded %s rows=%d", self._path, len(new.metrics) + len(new.labels))
            self._tell_notes()
        return changed

    def _read(self) -> Counters:
        """Read and check the file as it is now; raises CountersError."""
        assert self._path is not None  # noqa: S101 - only called with one
        self._stamp = _stamp(self._path)
        try:
            data = read_regular(self._path, counters.MAX_BYTES + 1, follow=True)
        except OSError as error:
            raise CountersError(
                "Unreadable",
                f"{self._path} cannot be read ({error.strerror}); mount or correct the counters "
                "file, or leave the setting out for the default set",
            ) from error
        return counters.parse(data, str(self._path))

    def _tell_notes(self) -> None:
        for note in self.current.notes:
            _log.warning("%s", note)


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - follows links, which is the point
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
