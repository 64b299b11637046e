"""The door to syslog(2), the system call: the kernel log without the device /dev/kmsg.

It needs the capability CAP_SYSLOG (or kernel.dmesg_restrict=0) and neither a
privileged container nor a device. Not to be mistaken for syslog(3), the daemon's.
"""

import ctypes
import errno
import os
from collections.abc import Callable

from exporter.sensor.kernel_log.syslog_text import Look

LIMIT = 16 << 20
"""Bytes of the log's text that are read at most, the newest; no default ring comes near."""

_READ_ALL = 3
_SIZE_UNREAD = 9
_SIZE_BUFFER = 10
"""SYSLOG_ACTION_READ_ALL and so on (syslog(2))."""
_TRIES = 3
_Buffer = ctypes.Array[ctypes.c_char]
_REASONS = {errno.EPERM: "PermissionDenied", errno.EACCES: "PermissionDenied"}
_ADVICE = {
    "PermissionDenied": "give the sensor's container the capability SYSLOG",
    "NotSupported": "this kernel or sandbox has no such call, so mount /dev/kmsg instead",
}


class SyslogError(Exception):
    """The call was refused; `reason` is a stable word, the message says what to do."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class KernelText:
    """Reads the whole log as text; the buffer is kept between reads."""

    def __init__(self, call: Callable[[int, _Buffer | None], int] | None = None) -> None:
        self._call = call or _klogctl
        self._buffer: _Buffer | None = None
        self._empty = True
        self._counts = True

    def read(self) -> Look:
        """Return the log's lines, oldest first, not beyond LIMIT; raises SyslogError."""
        text, held = self._lines(), None
        # Of two texts that are not empty the end of the first shows a clear.
        counts = self._counts and (self._empty or not text)
        for _ in range(_TRIES if counts else 0):
            try:
                held = self._call(_SIZE_UNREAD, None)
            except SyslogError:
                # It needs the capability, where the text may need none. SELinux logs each refusal.
                self._counts = False
                break
            before, text = text, self._lines()
            if len(text) == len(before):
                break
            held = None  # a record came meanwhile: it is unknown whether it was counted
            if not text.startswith(before):
                text = before  # the log was cleared meanwhile
                break
        self._empty = not text
        return Look(text, held)

    def _lines(self) -> bytes:
        if self._buffer is None:
            # Each line gets its time and priority in front, which the ring's size leaves out.
            size = min(2 * self._call(_SIZE_BUFFER, None), LIMIT)
            self._buffer = ctypes.create_string_buffer(size)
        return ctypes.string_at(self._buffer, self._call(_READ_ALL, self._buffer))


def _klogctl(action: int, buffer: _Buffer | None) -> int:
    try:
        klogctl = ctypes.CDLL(None, use_errno=True).klogctl
    except AttributeError as error:
        raise _refused(errno.ENOSYS) from error
    ctypes.set_errno(0)
    size = int(klogctl(action, buffer, 0 if buffer is None else len(buffer)))
    if size < 0:
        raise _refused(ctypes.get_errno())
    return size


def _refused(number: int) -> SyslogError:
    reason = _REASONS.get(number, "NotSupported")
    return SyslogError(reason, f"syslog(2) answers {os.strerror(number)}: {_ADVICE[reason]}")
