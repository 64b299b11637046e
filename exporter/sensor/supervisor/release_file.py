"""The release file: which GPUs must not be held open, because somebody resets or unbinds them.

Its folder is shared with the node, so what lies there may be anything. What cannot be read asks for
nothing: neither a fault of the disk nor a FIFO may blind the node.
"""

import errno
import time
from pathlib import Path

from exporter.model.device import normal_bus_id
from exporter.regular_file import read_regular

UNREADABLE = "ReleaseFileUnreadable"
"""Reason of a source that works while nobody knows what the file asks for."""
_MOST = 64 << 10
"""Bytes that are read; the UUIDs of a node's GPUs take one thousand."""
_WRITTEN_SECONDS = 0.1
"""In which `echo UUID > FILE` has written what it made the file for."""


class ReleaseFile:
    """One file, read anew whenever it is looked at."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble = ""
        """Why the last look could not read what is there, as a sentence."""

    def named(self) -> tuple[str, ...] | None:
        """Return the GPUs to let go, () for all, None for none.

        A UUID stays as it is, a bus id is brought to `device.normal_bus_id`'s form. An empty file
        is looked at twice: a shell makes a file before it writes to it.
        """
        lines = self._lines()
        if lines == []:
            time.sleep(_WRITTEN_SECONDS)
            lines = self._lines()
        return None if lines is None else tuple(normal_bus_id(line) or line for line in lines)

    def _lines(self) -> list[str] | None:
        self.trouble = ""
        try:
            content = read_regular(self.path, _MOST + 1)
            if len(content) > _MOST:
                raise OSError(errno.EFBIG, f"it has more than {_MOST} bytes")
            return content.decode("utf-8", "replace").split()
        except FileNotFoundError:
            return None
        except OSError as error:
            self.trouble = (
                f"{self.path} cannot be read ({error.strerror}), so no GPU is let go for it: put a "
                "regular file with the GPUs' UUIDs there, or remove it"
            )
            return None
