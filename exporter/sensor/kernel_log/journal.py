"""The door to systemd's journal: the kernel's records of this boot, as they come.

journald has one file that grows, and archives it under another name once it is full. All files of
this boot are read in their order; what was read of one is known by its inode, not by its name.
No right is needed but to read the files.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from exporter.sensor.kernel_log.journal_file import JournalError, JournalFile, KernelRecord
from exporter.sensor.kernel_log.kmsg_file import KernelLogError

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


class JournalFolder:
    """Follows a folder such as /var/log/journal or /run/log/journal."""

    def __init__(self, path: Path, boot_id: str, on_rejected: Callable[[str], None]) -> None:
        """`boot_id` is as in /proc/sys/kernel/random/boot_id; `on_rejected` takes a reason.

        Raises KernelLogError where it is none.
        """
        self._path = path
        self._boot = _boot(boot_id)
        self._on_rejected = on_rejected
        self._files: dict[_Identity, _Open | None] = {}
        """None for a file that has nothing of this boot, or makes no sense."""
        self.found_records = False
        """Whether there was any record of the kernel's of this boot. A journal without has none
        because journald does not read them, or because they were removed."""

    def close(self) -> None:
        for followed in self._files.values():
            if followed is not None:
                os.close(followed.descriptor)
        self._files.clear()

    def records(self) -> Iterator[KernelRecord]:
        """Give the records that were not given before; raises KernelLogError."""
        there = self._there()
        for identity in self._files.keys() - there.keys():
            self._let_go(identity)
        for identity, path in there.items():
            if identity not in self._files:
                self._open(identity, path)
        if not any(self._files.values()):
            raise KernelLogError(
                "NotFound",
                f"{self._path} has no journal of this boot: name the folder where journald writes "
                "(/var/log/journal, or /run/log/journal where Storage=volatile), or read the "
                "kernel log another way",
            )
        # The active file comes last: when it was opened it may have had no entry yet.
        begun = sorted(
            (there[identity].name == ACTIVE, followed.file.header.begun, identity)
            for identity, followed in self._files.items()
            if followed
        )
        for active, _, identity in begun:
            yield from self._of(identity, active=active)

    def _there(self) -> dict[_Identity, Path]:
        found: dict[_Identity, Path] = {}
        for path in (path for pattern in _FILES for path in self._path.glob(pattern)):
            try:
                seen = path.stat()
            except FileNotFoundError:
                continue  # archived or removed meanwhile: the next look finds it
            except OSError as error:
                raise KernelLogError("PermissionDenied", f"{path} may not be read") from error
            found[seen.st_dev, seen.st_ino] = path
        return found

    def _open(self, identity: _Identity, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # the next look finds it under its other name
        except OSError as error:
            raise KernelLogError("PermissionDenied", f"{path} may not be read: {error}") from error
        try:
            kept = self._understood(descriptor, identity, path.name)
        except BaseException:
            os.close(descriptor)
            raise
        if not kept:
            os.close(descriptor)

    def _understood(self, descriptor: int, identity: _Identity, name: str) -> bool:
        """Remember an open file; returns whether there is anything to read in it."""
        seen = os.fstat(descriptor)
        if (seen.st_dev, seen.st_ino) != identity:
            return False  # another file has its name by now
        try:
            file = JournalFile(lambda at, size: os.pread(descriptor, size, at))
        except (JournalError, OSError) as error:
            if name == ACTIVE:
                raise self._unreadable(error) from error
            self._on_rejected("unreadable")
            self._files[identity] = None
            return False
        ours = file.header.newest_boot == self._boot
        if name == ACTIVE and not ours:
            return False  # journald may yet write there: the next look opens it again
        self._files[identity] = _Open(descriptor, file) if ours else None
        return ours

    def _of(self, identity: _Identity, *, active: bool) -> Iterator[KernelRecord]:
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
                    yield record
            for boot in followed.file.missed():
                if boot == self._boot:
                    self._on_rejected("missed")
        except (JournalError, OSError) as error:
            if active:
                raise self._unreadable(error) from error
            self._on_rejected("unreadable")
            self._let_go(identity)
            self._files[identity] = None

    def _let_go(self, identity: _Identity) -> None:
        if (followed := self._files.pop(identity)) is not None:
            os.close(followed.descriptor)

    def _unreadable(self, error: Exception) -> KernelLogError:
        return KernelLogError("ReadFailed", f"the journal in {self._path} cannot be read: {error}")


def _boot(boot_id: str) -> bytes:
    try:
        boot = bytes.fromhex(boot_id.replace("-", ""))
    except ValueError:
        boot = b""
    if len(boot) != _BOOT_SIZE:
        raise KernelLogError(
            "NoBootId",
            f"the node's boot id is {boot_id[:40]!r}, so that the journal's records of this boot "
            "cannot be told from others: see --boot-id-file",
        )
    return boot
