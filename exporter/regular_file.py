"""Files in folders that others may write to: opened without waiting, and only if they are files.

Invariant: whatever lies at the path, an open returns at once and a read has an end. A FIFO waits
for a writer for ever, a device may have no end, and behind a link may be a file that a read changes
(/proc/kmsg gives each record once).
"""

import errno
import os
import stat
from pathlib import Path


def open_regular(path: Path, *, follow: bool = False) -> int:
    """Return a descriptor; raises OSError for what cannot be opened or is no regular file.

    `follow`: the path may be a link, as in a mounted ConfigMap.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    # Looked at before it is opened, too: some devices act on being opened.
    _check_regular(path, path.stat(follow_symlinks=follow))
    descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    try:
        _check_regular(path, os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: Path, most: int, *, follow: bool = False) -> bytes:
    """Return the first `most` bytes; raises OSError as `open_regular`."""
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        return file.read(most)


def _check_regular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "no regular file"
        raise OSError(errno.EINVAL, kind, str(path))
