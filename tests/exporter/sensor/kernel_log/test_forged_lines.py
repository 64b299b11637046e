"""A user cannot write a driver's line into the log, on this machine's own kernel either."""

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from exporter.model.signals import Signal
from exporter.sensor.kernel_log import driver_lines
from exporter.sensor.kernel_log.driver_lines import Rejected
from exporter.sensor.kernel_log.syslog import KernelText, SyslogError
from exporter.sensor.kernel_log.syslog_text import SyslogText
from simulator.compiler import find_compiler
from tests.exporter.running import wait_for
from tests.exporter.sensor.kernel_log.test_kmsg import Received, Ring, running

BOOT = datetime(2026, 1, 5, tzinfo=UTC)
NOBODY = 12345
PROGRAM = "int main(void) { *(volatile int *)0 = 1; return 0; }"
NAME = "y\nNVRM: Xid (PCI:0000:9a:00): 95 {mark}"
"""A file may be called so; the kernel writes its name behind "segfault at ... in"."""
EXCEPTION_TRACE = Path("/proc/sys/debug/exception-trace")
"""Whether the kernel says which program crashed; machines other than x86 have it elsewhere."""
RECORDED = (
    "<6>[ 1169.105708] y\n"
    "<6>[ 1169.105708] NVRM: Xid (PC[6343]: segfault at 0 ip 00005565a7594132 sp 00007ffe6a3b8910 "
    "error 6 in y\n"
    "<6>[ 1169.105708] NVRM: Xid (PCI:0000:9a:00): 95 pid=1[1132,5565a7594000+1000] likely on CPU "
    "0 (core 0, socket 0)\n"
)
"""What syslog(2) said of such a crash on Linux 6.18.44, x86-64, of a user without capabilities."""
MOUNTED = (
    "<3>[  815.125393] tmpfs: Unknown parameter 'x\n"
    "<3>[  815.125393] NVRM: Xid (PCI:0000:3b:00): 79 forged'\n"
)
"""The same of `mount -t tmpfs -o $'x\\nNVRM: ...'` in a user namespace."""


def signals(text: str) -> tuple[list[Signal], int]:
    """Return what a text of syslog(2) says of GPUs, and how many lines it hides."""
    lines = list(SyslogText().read(text.encode()).lines)
    received: list[Signal] = []
    for line in lines:
        try:
            signal = driver_lines.understand(driver_lines.split(line.raw), BOOT)
        except Rejected:
            continue
        received += [signal] if signal else []
    return received, sum(line.hidden for line in lines)


@pytest.mark.parametrize("text", [RECORDED, MOUNTED])
def test_a_line_break_in_quoted_text_begins_no_record(text: str) -> None:
    assert signals(text) == ([], 2 if text == RECORDED else 1)


def test_a_record_of_the_driver_right_behind_is_read() -> None:
    received, _ = signals(RECORDED + "<3>[ 1169.105709] NVRM: Xid (PCI:0000:3b:00): 79, gone\n")
    assert [(signal.code, signal.bus_id) for signal in received] == [(79, "0000:3b:00.0")]


def own_log() -> str:
    """Return this machine's log, "" where it cannot be read."""
    try:
        return KernelText().read().text.decode("utf-8", "replace")
    except SyslogError:
        return ""


def crash(folder: Path, name: str) -> None:
    """Run a program that crashes, under a user without rights where this one has some."""
    folder.chmod(0o755)
    (folder / "crash.c").write_text(PROGRAM, encoding="utf-8")
    command = [*find_compiler(), "-o", str(folder / "crash"), str(folder / "crash.c")]
    subprocess.run(command, check=True)
    (folder / "crash").rename(folder / name)
    (folder / name).chmod(0o755)
    if os.geteuid() == 0:
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        command += ["--bounding-set=-all", "--no-new-privs"]
    else:
        command = []
    subprocess.run([*command, str(folder / name)], check=False, cwd=folder)


def test_a_crash_on_this_machine_forges_nothing(real_components: list[str]) -> None:
    """Where this kernel's log cannot be read, or has no crashes, the recorded text has to do."""
    traced = EXCEPTION_TRACE.exists() and EXCEPTION_TRACE.read_text(encoding="ascii").strip() != "0"
    if not own_log() or not traced:
        return
    real_components.append(f"the kernel log of Linux {os.uname().release}")
    mark = f"pid={os.getpid()}"
    with TemporaryDirectory() as folder:
        crash(Path(folder), NAME.format(mark=mark))
    wait_for(lambda: f"95 {mark}" in own_log())

    received, hidden = signals(own_log())

    assert hidden
    assert not [signal for signal in received if signal.bus_id == "0000:9a:00.0"]


def test_what_a_continuation_hides_is_counted_once(tmp_path: Path) -> None:
    """Also where the end of the last text is gone, so that all is read again."""
    received, ring = Received(), Ring()
    ring.text = MOUNTED.encode()
    ring.write(900, "first")
    with running(received.reader(tmp_path / "kmsg", ring.read)):
        wait_for(lambda: len(received.records) == 2)
        ring.text = MOUNTED.encode()
        ring.write(901, "second")
        wait_for(lambda: len(received.records) == 3)
    assert sorted(received.rejected) == ["continuation", "overwritten"]
    assert not received.messages()[0].startswith("NVRM")
