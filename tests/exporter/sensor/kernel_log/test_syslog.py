"""The door to syslog(2), on this machine's own kernel."""

import subprocess
import sys

from exporter.sensor.kernel_log.syslog import LIMIT, KernelText, SyslogError
from exporter.sensor.kernel_log.syslog_text import Look, SyslogText
from tests.exporter.running import wait_for

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


def test_without_the_capability_the_refusal_names_it() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_RIGHTS], capture_output=True, text=True, check=True
    )
    message = ran.stdout.strip()
    restricted = "PermissionDenied|syslog(2) answers Operation not permitted: give the sensor's"
    # Kernels with dmesg_restrict=0 let everybody read.
    assert message in ("read", "empty") or message.startswith(restricted)
