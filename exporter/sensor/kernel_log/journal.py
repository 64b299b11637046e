"""The door to systemd's journal: the kernel's records of this boot, as they come.

journald has one file that grows, and archives it under another name once it is full. At boot it
writes below /run, and later copies that to the disk and goes on there. All files of this boot are
read in the kernel's order; what was read of one is known by its inode, not by its name. A record
has one place, in whichever file it is, so that a copy is known as one.
No right is needed but to read the files, and a folder is never made: where journald is to decide by
itself, a folder /var/log/journal has it keep its logs on disk from then on.
"""

import heapq
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from exporter.sensor.kernel_log.journal_file import JournalError, JournalFile, KernelRecord
from exporter.sensor.kernel_log.kmsg_file import KernelLogError
from exporter.sensor.kernel_log.quoted import LINE_END
from exporter.sensor.kernel_log.record_order import RecordOrder
from exporter.sensor.kernel_log.syslog_text import Line

ACTIVE = "system.journal"
_FILES = (ACTIVE, "system@*.journal*", f"*/{ACTIVE}", "*/system@*.journal*")
"""In the folder, or in that of the machine; `~` ends the name of a file that was not closed."""

_BOOT_SIZE = 16
"""Bytes of a boot id."""

_Identity = tuple[int, int]
"""Device and inode."""


class _Open(msgspec.Struct):
    descriptor: int
    file: JournalFile
    order: RecordOrder
    """Anew in each file: a copy of a record has the same place."""


class Journal:
    """Follows folders such as /var/log/journal and /run/log/journal."""

    def __init__(
        self, folders: Sequence[Path], boot_id: str, on_rejected: Callable[[str], None]
    ) -> None:
        """`boot_id` is as in /proc/sys/kernel/random/boot_id; `on_rejected` takes a reason."""
        self._folders = folders
        self.place = " and ".join(map(str, folders))
        self._boot_id, self._boot = boot_id, _boot(boot_id)
        self._on_rejected = on_rejected
        self._files: dict[_Identity, _Open | None] = {}
        """None for a file that has nothing of this boot, or makes no sense."""
        self._unreadable: KernelLogError | None = None
        self._read_active = False
        self.found_records = False
        """Whether there was any record of the kernel's of this boot. A journal without has none
        because journald does not read them, or because they were removed."""

    def close(self) -> None:
        for followed in self._files.values():
            if followed is not None:
                os.close(followed.descriptor)
        self._files.clear()

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
        there = self._there()
        self._unreadable, self._read_active = None, False
        for identity in self._files.keys() - there.keys():
            self._let_go(identity)
        for identity, path in there.items():
            if identity not in self._files:
                self._open(identity, path)
        followed = [identity for identity, file in self._files.items() if file]
        if not followed and self._unreadable is None:
            raise KernelLogError(
                "NotFound",
                f"no journal of this boot in {self.place}: name the folder where journald writes "
                "(/var/log/journal, or /run/log/journal where Storage=volatile), or read the "
                "kernel log another way",
            )
        files = (self._of(identity, there[identity]) for identity in followed)
        yield from heapq.merge(*files, key=lambda line: line.place)
        if self._unreadable is not None and not self._read_active:
            raise self._unreadable

    def _there(self) -> dict[_Identity, Path]:
        found: dict[_Identity, Path] = {}
        for folder in self._folders:
            # A pattern passes over a folder that may not be listed.
            if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
                raise KernelLogError("PermissionDenied", f"{folder} may not be read")
            for path in (path for pattern in _FILES for path in folder.glob(pattern)):
                try:
                    seen = path.lstat()
                except FileNotFoundError:
                    continue  # archived or removed meanwhile: the next look finds it
                except OSError as error:
                    raise KernelLogError("PermissionDenied", f"{path} may not be read") from error
                found[seen.st_dev, seen.st_ino] = path
        return found

    def _open(self, identity: _Identity, path: Path) -> None:
        try:
            # Of a FIFO an open would wait for a writer; journald makes no symlinks.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            return  # the next look finds it under its other name
        except PermissionError as error:
            raise KernelLogError("PermissionDenied", f"{path} may not be read: {error}") from error
        except OSError as error:
            self._give_up(identity, path, error)
            return
        try:
            kept = self._understood(descriptor, identity, path)
        except BaseException:
            os.close(descriptor)
            raise
        if not kept:
            os.close(descriptor)

    def _understood(self, descriptor: int, identity: _Identity, path: Path) -> bool:
        """Remember an open file; returns whether there is anything to read in it."""
        seen = os.fstat(descriptor)
        if (seen.st_dev, seen.st_ino) != identity:
            return False  # another file has its name by now
        try:
            if not stat.S_ISREG(seen.st_mode):
                raise JournalError("no regular file")
            file = JournalFile(lambda at, size: os.pread(descriptor, size, at))
        except (JournalError, OSError) as error:
            self._give_up(identity, path, error)
            return False
        ours = file.header.newest_boot == self._boot
        if path.name == ACTIVE and not ours:
            return False  # journald may yet write there: the next look opens it again
        self._files[identity] = _Open(descriptor, file, RecordOrder()) if ours else None
        return ours

    def _of(self, identity: _Identity, path: Path) -> Iterator[Line]:
        followed = self._files[identity]
        assert followed is not None  # noqa: S101 - only such files are requested
        try:
            for record in followed.file.records():
                if record.boot != self._boot:
                    continue
                self.found_records = True
                if record.message is None:
                    self._on_rejected("compressed")
                else:
                    yield as_line(record, followed.order)
            for boot in followed.file.missed():
                if boot == self._boot:
                    self._on_rejected("missed")
            self._read_active = self._read_active or path.name == ACTIVE
        except (JournalError, OSError) as error:
            if path.name != ACTIVE:
                self._let_go(identity)
            self._give_up(identity, path, error)

    def _let_go(self, identity: _Identity) -> None:
        if (followed := self._files.pop(identity)) is not None:
            os.close(followed.descriptor)

    def _give_up(self, identity: _Identity, path: Path, error: Exception) -> None:
        """Count an archived file and pass over it; of the active one the next look tries again."""
        if path.name == ACTIVE:
            message = f"the journal {path} cannot be read: {error}"
            self._unreadable = KernelLogError("ReadFailed", message)
        else:
            self._on_rejected("unreadable")
            self._files[identity] = None


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
