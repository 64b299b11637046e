"""The door to syslog(2), the system call: the kernel log without the device /dev/kmsg.

It needs the capability CAP_SYSLOG (or kernel.dmesg_restrict=0) and neither a
privileged container nor a device. Not to be mistaken for syslog(3), the daemon's.
"""

import ctypes
import errno
import os

from exporter.sensor.kernel_log.syslog_text import Look

LIMIT = 16 << 20
"""Bytes of the log's text that are read at most, the newest; no default ring comes near."""

_READ_ALL = 3
_SIZE_UNREAD = 9
_SIZE_BUFFER = 10
"""SYSLOG_ACTION_READ_ALL and so on (syslog(2))."""
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

    def __init__(self) -> None:
        self._buffer: ctypes.Array[ctypes.c_char] | None = None
        self._empty = True
        self._counts = True

    def read(self) -> Look:
        """Return the log's lines, oldest first, not beyond LIMIT; raises SyslogError."""
        text, was_empty = self._lines(), self._empty
        self._empty = not text
        if text and not was_empty:
            return Look(text)  # the end of the text before shows whether that was cleared
        held: int | None = None
        if self._counts:
            try:
                held = _call(_SIZE_UNREAD, None)
            except SyslogError:
                # It needs the capability, where the text may need none. SELinux logs each refusal.
                self._counts = False
        again = self._lines()
        # Another length by now: a record came meanwhile, and it is unknown whether it is in `held`.
        return Look(text, held if len(text) == len(again) else None)

    def _lines(self) -> bytes:
        if self._buffer is None:
            # Each line gets its time and priority in front, which the ring's size leaves out.
            self._buffer = ctypes.create_string_buffer(min(2 * _call(_SIZE_BUFFER, None), LIMIT))
        return ctypes.string_at(self._buffer, _call(_READ_ALL, self._buffer))


def _call(action: int, buffer: "ctypes.Array[ctypes.c_char] | None") -> int:
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
