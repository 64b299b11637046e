"""Archives that are the same for the same content: they do not say who packed them, and when."""

import gzip
import tarfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def zipped(to: Path) -> Generator[tarfile.TarFile]:
    """Write a new .tar.gz."""
    with (
        to.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        yield archive


def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who built it, and when."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member
