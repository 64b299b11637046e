"""A file that several processes edit: locked while it is, and replaced whole.

A reader sees each version entire, because a new one comes by rename.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Give the file a new text at once."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        # The kernel dates files by its tick and reuses freed inodes: two versions of the same
        # length within one tick would look like the same file.
        now = time.time_ns()
        os.utime(file.fileno(), ns=(now, now))
    Path(name).replace(path)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Keep other processes that ask for this lock from editing the file during the block."""
    with (path.parent / f".{path.stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
