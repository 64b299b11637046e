"""The door to systemd's journal: the kernel's records of this boot, as they come.

journald has one file that grows, and archives it under another name once it is full. At boot it
writes below /run, and later copies that to the disk and goes on there. All files of this boot are
read in the kernel's order; what was read of one is known by its inode, not by its name. A record
has one place, in whichever file it is, so that a copy is known as one. Only files that nobody but
root writes count: a record of the journal is trusted with a taint.
No right is needed but to read the files, and a folder is never made: where journald is to decide by
itself, a folder /var/log/journal has it keep its logs on disk from then on.
"""

import errno
import fnmatch
import heapq
import itertools
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from exporter.sensor.kernel_log.journal_file import JournalError, JournalFile, KernelRecord
from exporter.sensor.kernel_log.kmsg_file import KernelLogError
from exporter.sensor.kernel_log.quoted import LINE_END
from exporter.sensor.kernel_log.record_order import RecordOrder
from exporter.sensor.kernel_log.syslog_text import Line

ACTIVE = "system.journal"
_ARCHIVED = "system@*.journal*"
"""`~` ends the name of a file that was not closed."""
_MOST_FILES = 256
"""Open at once; journald's own limit is a hundred."""
_LARGEST = 1 << 50
"""No file has so many bytes, and no system call takes an offset of twice 2**62."""
_AHEAD, _DRIFT = 60.0, 1.001
"""Seconds by which a record may be later than now: one that is would hide all that come. And how
much faster the clock of its records may go: NTP corrects the node's alone, by 500 ppm at most."""
_FOR_NOW = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})
"""Errors that say nothing about the file."""

_BOOT_SIZE = 16
"""Bytes of a boot id."""

_Identity = tuple[int, int]
"""Device and inode."""


_Stamp = tuple[int, int]
"""Size and time of change: an inode is used again."""


class _Found(NamedTuple):
    path: Path
    stamp: _Stamp


class _Open(msgspec.Struct):
    descriptor: int
    path: Path
    file: JournalFile
    order: RecordOrder
    """Anew in each file: a copy of a record has the same place."""


class Journal:
    """Follows folders such as /var/log/journal and /run/log/journal."""

    def __init__(
        self,
        folders: Sequence[Path],
        boot_id: str,
        on_rejected: Callable[[str], None],
        on_record: Callable[[], object] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`boot_id` is as in /proc/sys/kernel/random/boot_id; `on_rejected` takes a reason.

        `on_record` is called at each record, also one that is passed over.
        """
        self._folders = folders
        self.place = " and ".join(map(str, folders))
        self._boot_id, self._boot = boot_id, _boot(boot_id)
        self._on_rejected = on_rejected
        self._on_record = on_record
        self._monotonic = monotonic
        self._files: dict[_Identity, _Open] = {}
        self._passed: dict[_Identity, _Stamp] = {}
        """Files that have nothing (more) of this boot, make no sense, or are not root's alone."""
        self._done: dict[_Identity, bytes] = {}
        """Of those, archives of this boot that were read to their end, by the names in them: their
        stamps change once more as journald closes them, and Btrfs puts copies into their place."""
        self._unreadable: KernelLogError | None = None
        self._read_active = False
        self.newest = -1
        """Microseconds since boot of the newest record of this boot's kernel, also of one that was
        left out. A journal has none (-1) where journald does not read them, or they were removed.
        """

    def close(self) -> None:
        for identity in tuple(self._files):
            self._let_go(identity)

    def lines(self) -> Iterator[Line]:
        """Give what is there now and was not given before, as /dev/kmsg has it.

        A file that cannot be read does not keep the others from being: where journald writes to
        no other one it raises KernelLogError in the end.
        """
        if not self._boot:
            raise KernelLogError(
                "NoBootId",
                f"the node's boot id is {self._boot_id[:40]!r}, so that the journal's records of "
                "this boot cannot be told from others: see --boot-id-file",
            )
        self._unreadable, self._read_active = None, False
        there = self._there()
        for identity, found in there.items():
            if identity not in self._files and self._passed.get(identity) != found.stamp:
                self._open(identity, found)
        self._passed = {known: stamp for known, stamp in self._passed.items() if known in there}
        self._done = {known: name for known, name in self._done.items() if known in self._passed}
        if not (self._files or self._done) and self._unreadable is None:
            raise KernelLogError(
                "NotFound",
                f"no journal of this boot in {self.place}: name the folder where journald writes "
                "(/var/log/journal, or /run/log/journal where Storage=volatile), or read the "
                "kernel log another way",
            )
        # Also what is removed: until it is closed here it can be read to its end.
        files = [self._of(identity, there.get(identity)) for identity in tuple(self._files)]
        yield from heapq.merge(*files, key=lambda line: line.place)
        if self._unreadable is not None and not self._read_active:
            raise self._unreadable

    def _there(self) -> dict[_Identity, _Found]:
        """Return the files of the folders and of the machines' folders in them, newest first."""
        found: dict[_Identity, _Found] = {}
        for folder in self._folders:
            inner = [entry.path for entry in self._entries(folder)]
            for entry in (*self._entries(folder), *itertools.chain(*map(self._entries, inner))):
                if not (entry.name == ACTIVE or fnmatch.fnmatch(entry.name, _ARCHIVED)):
                    continue
                try:
                    seen = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # archived or removed meanwhile: the next look finds it
                stamp = seen.st_size, seen.st_mtime_ns
                found[seen.st_dev, seen.st_ino] = _Found(Path(entry.path), stamp)
        newest_first = sorted(found.items(), key=lambda item: item[1].stamp[1], reverse=True)
        return dict(newest_first)

    def _entries(self, folder: str | Path) -> list["os.DirEntry[str]"]:
        """List a folder that nobody but root writes to; of others there is nothing."""
        try:
            seen = os.stat(folder, follow_symlinks=folder in self._folders)  # noqa: PTH116 - of a string, too
            if not stat.S_ISDIR(seen.st_mode) or not _is_roots(seen):
                return []
            with os.scandir(folder) as entries:
                return list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self._unreadable = KernelLogError(
                "PermissionDenied", f"{folder} may not be read: {error.strerror}"
            )
            return []

    def _open(self, identity: _Identity, found: _Found) -> None:
        active = found.path.name == ACTIVE
        if len(self._files) >= _MOST_FILES and not active:
            self._give_up(identity, found, OSError(errno.EFBIG, "there are too many files"))
            return
        try:
            # Of a FIFO an open would wait for a writer; journald makes no symlinks.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
            descriptor = os.open(found.path, flags)
        except FileNotFoundError:
            return  # the next look finds it under its other name
        except OSError as error:
            self._give_up(identity, found, error)
            return
        try:
            kept = self._understood(descriptor, identity, found)
        except BaseException:
            os.close(descriptor)
            raise
        if not kept:
            os.close(descriptor)

    def _understood(self, descriptor: int, identity: _Identity, found: _Found) -> bool:
        """Remember an open file; returns whether there is anything to read in it."""
        seen = os.fstat(descriptor)
        if (seen.st_dev, seen.st_ino) != identity:
            return False  # another file has its name by now

        def read(at: int, size: int) -> bytes:
            if at > _LARGEST:
                raise JournalError(f"it leads to byte {at}")
            return os.pread(descriptor, size, at)

        try:
            if not stat.S_ISREG(seen.st_mode):
                raise JournalError("no regular file")
            if not _is_roots(seen):
                raise JournalError("others than root may write to it")
            file = JournalFile(read)
        except (JournalError, OSError) as error:
            self._give_up(identity, found, error)
            return False
        archived, head = found.path.name != ACTIVE, file.header
        done = archived and head.name in self._done.values()
        if head.newest_boot == self._boot and not done:
            self._files[identity] = _Open(descriptor, found.path, file, RecordOrder())
            return True
        if archived:  # else journald may yet write there: the next look opens it again
            self._passed[identity] = found.stamp
        if done:
            self._done[identity] = head.name
        return False

    def _of(self, identity: _Identity, found: _Found | None) -> Iterator[Line]:
        """Give what is new in a file; one that grows no more is closed after that."""
        followed = self._files[identity]
        grows = found is not None and found.path.name == ACTIVE
        try:
            yield from self._new_lines(followed)
        except (JournalError, OSError) as error:
            if not grows:
                self._let_go(identity)
            self._give_up(identity, found or _Found(followed.path, (0, 0)), error)
            return
        self._read_active = self._read_active or grows
        if not grows:
            self._let_go(identity)
        if found is not None and not grows:
            self._passed[identity] = found.stamp
            self._done[identity] = followed.file.header.name

    def _new_lines(self, followed: _Open) -> Iterator[Line]:
        latest = (self._monotonic() * _DRIFT + _AHEAD) * 1e6
        for record in followed.file.records():
            self._on_record()
            if record.boot != self._boot:
                continue
            if record.microseconds > latest:
                self._on_rejected("malformed")
                continue
            self.newest = max(self.newest, record.microseconds)
            if record.message is None:
                self._on_rejected("compressed")
            else:
                yield as_line(record, followed.order)
        for boot in followed.file.missed():
            if boot == self._boot:
                self._on_rejected("missed")

    def _let_go(self, identity: _Identity) -> None:
        os.close(self._files.pop(identity).descriptor)

    def _give_up(self, identity: _Identity, found: _Found, error: Exception) -> None:
        """Count an archived file and pass over it; of the active one the next look tries again."""
        if found.path.name == ACTIVE or (isinstance(error, OSError) and error.errno in _FOR_NOW):
            reason = "PermissionDenied" if isinstance(error, PermissionError) else "ReadFailed"
            message = f"the journal {found.path} cannot be read: {error}"
            self._unreadable = KernelLogError(reason, message)
        else:
            self._on_rejected("unreadable")
            self._passed[identity] = found.stamp


def _is_roots(seen: os.stat_result) -> bool:
    """Whether nobody but root, and the user that the sensor runs as, may write there."""
    return seen.st_uid in {0, os.geteuid()} and not seen.st_mode & stat.S_IWOTH


def as_line(record: KernelRecord, order: RecordOrder) -> Line:
    """Return a record of the journal as /dev/kmsg has it."""
    place = order.place(record.microseconds)
    message = (record.message or b"").replace(b"\n", LINE_END.encode())
    head = b"%d,%d,%d,-;" % (record.facility << 3 | record.priority, place, record.microseconds)
    return Line(place, record.microseconds, head + message)


def _boot(boot_id: str) -> bytes:
    """Return a boot id as journald has it, nothing where it is none."""
    try:
        boot = bytes.fromhex(boot_id.replace("-", ""))
    except ValueError:
        return b""
    return boot if len(boot) == _BOOT_SIZE else b""
