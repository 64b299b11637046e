"""The door to syslog(2), on this machine's own kernel."""

import ctypes
import subprocess
import sys

import pytest

from exporter.sensor.kernel_log.syslog import LIMIT, KernelText, SyslogError
from exporter.sensor.kernel_log.syslog_text import Look, SyslogText
from tests.exporter.running import wait_for

SIZE_BUFFER = 10
"""The action that returns the room of the log (syslog(2))."""
WITHOUT_RIGHTS = """
import ctypes, os
from exporter.sensor.kernel_log.syslog import KernelText, SyslogError
libc = ctypes.CDLL(None, use_errno=True)
for capability in (34, 21):  # CAP_SYSLOG, and CAP_SYS_ADMIN that kernels took before
    libc.prctl(24, capability, 0, 0, 0)
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
try:
    print("read" if KernelText().read().text else "empty")
except SyslogError as error:
    print(error.reason, error, sep="|")
"""


def read(door: KernelText) -> Look | SyslogError:
    try:
        return door.read()
    except SyslogError as error:
        return error


def test_the_kernel_gives_its_lines_or_a_named_refusal() -> None:
    door = KernelText()
    look = read(door)
    if isinstance(look, SyslogError):
        assert look.reason in ("PermissionDenied", "NotSupported")
        assert "syslog(2) answers" in str(look)
    else:
        text = look.text
        assert len(text) <= LIMIT
        assert SyslogText().read(text).timed
        # The oldest lines make room for new ones; the last one stays a while.
        assert text.rstrip(b"\n").rpartition(b"\n")[2] in door.read().text


def test_the_kernel_says_how_much_it_holds_in_the_same_bytes_as_it_gives() -> None:
    """Where somebody has cleared the log or reads /proc/kmsg, both grow alike still."""
    if isinstance(read(KernelText()), SyslogError):
        return
    known, looks = SyslogText(), list[Look]()

    def is_settled() -> bool:
        looks.append(KernelText().read())  # the first look asks
        return looks[-1].held is not None

    wait_for(is_settled)
    assert [known.read(look.text, look.held).lost for look in looks] == [""] * len(looks)
    assert known.read(looks[-1].text, (looks[-1].held or 0) + 1).lost == "cleared"


class BusyKernel:
    """One record of a byte comes after each of the first looks at its log."""

    def __init__(self, records: int, log: bytes = b"", *, is_cleared: bool = False) -> None:
        self._to_come = records
        self._log = log
        self._is_cleared = is_cleared
        """After the first look."""

    def call(self, action: int, buffer: "ctypes.Array[ctypes.c_char] | None") -> int:
        if buffer is None:
            return 4 if action == SIZE_BUFFER else len(self._log)
        size = len(self._log)
        buffer[:size] = self._log
        if self._is_cleared:
            self._log = b""
        if self._to_come:
            self._to_come -= 1
            self._log += b"x"
        return size


@pytest.mark.parametrize(("records", "held"), [(0, 0), (1, 1), (2, 2), (3, None)])
def test_a_look_counts_what_is_held_unless_records_keep_coming(
    records: int, held: int | None
) -> None:
    assert KernelText(BusyKernel(records).call).read() == Look(b"x" * records, held)


def test_what_is_cleared_during_a_look_was_read() -> None:
    assert KernelText(BusyKernel(0, b"an XID", is_cleared=True).call).read() == Look(b"an XID")


def test_without_the_capability_the_refusal_names_it() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_RIGHTS], capture_output=True, text=True, check=True
    )
    message = ran.stdout.strip()
    restricted = "PermissionDenied|syslog(2) answers Operation not permitted: give the sensor's"
    # Kernels with dmesg_restrict=0 let everybody read.
    assert message in ("read", "empty") or message.startswith(restricted)
