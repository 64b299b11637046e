"""Tells when something in a folder changes, woken by the kernel (inotify(7)).

Where the folder is not there, or the kernel has no watch left to give, it is
looked at every _POLL_SECONDS instead.
"""
# pyright: basic
# ctypes has no types for functions of the C library.

import ctypes
import logging
import os
import select
import threading
from collections.abc import Callable
from pathlib import Path

_log = logging.getLogger(__name__)

_POLL_SECONDS = 1.5
"""A release file must be seen within two seconds."""
_GONE = 0x400 | 0x800 | 0x2000 | 0x8000
"""IN_DELETE_SELF, IN_MOVE_SELF, IN_UNMOUNT, IN_IGNORED: what is watched is not there any more."""
_CHANGES = 0x8 | 0x40 | 0x80 | 0x200 | 0x4 | 0x400 | 0x800
"""IN_CLOSE_WRITE, IN_MOVED_FROM, IN_MOVED_TO, IN_DELETE, IN_ATTRIB, IN_DELETE_SELF, IN_MOVE_SELF.
Not IN_CREATE: a file that is not written yet is empty, which would mean something else."""
_ONLYDIR = 0x01000000
_BUFFER = 4096
_MASK_AT = 4
"""Of struct inotify_event: int wd, uint32 mask, uint32 cookie, uint32 len, name."""


class FolderWatch:
    """A thread that calls `on_change`, which must look for itself what has changed."""

    def __init__(self, folder: Path, on_change: Callable[[], None]) -> None:
        self._folder = folder
        self._on_change = on_change
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._stopping = threading.Event()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="folder watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        os.eventfd_write(self._wake, 1)
        if self._thread.ident is not None:
            self._thread.join(_POLL_SECONDS)
        if not self._thread.is_alive():
            os.close(self._wake)

    def _run(self) -> None:
        while not self._stopping.is_set():
            watch = self._open()
            if watch is not None:
                try:
                    self._listen(watch)
                finally:
                    os.close(watch)
            self._stopping.wait(_POLL_SECONDS)
            self._on_change()

    def _open(self) -> int | None:
        """Return a descriptor that is readable when the folder changes, None: not possible."""
        descriptor = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if descriptor < 0:
            return None
        path = os.fsencode(self._folder)
        if self._libc.inotify_add_watch(descriptor, path, _CHANGES | _ONLYDIR) < 0:
            os.close(descriptor)
            return None
        return descriptor

    def _listen(self, watch: int) -> None:
        """Report changes until the folder is gone or the watch is stopped."""
        # What changed before the watch was there.
        self._on_change()
        poll = select.poll()
        for descriptor in (watch, self._wake):
            poll.register(descriptor, select.POLLIN)
        while True:
            poll.poll()
            if self._stopping.is_set():
                return
            events, at, masks = os.read(watch, _BUFFER), 0, 0
            # Each struct inotify_event has a mask, and tells how long the name behind it is.
            while at + 16 <= len(events):
                masks |= int.from_bytes(events[at + _MASK_AT : at + 8], "little")
                at += 16 + int.from_bytes(events[at + 12 : at + 16], "little")
            self._on_change()
            if masks & _GONE:
                return
