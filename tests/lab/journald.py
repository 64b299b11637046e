"""A real systemd-journald, on disks of its own or on a node's; a FIFO is its /dev/kmsg."""

import fcntl
import os
import signal
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from exporter.sensor.kernel_log.journal import Journal
from tests.exporter.running import PATIENCE, wait_for

PROGRAM = Path("/lib/systemd/systemd-journald")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START = """
set -e
if [ "$2" ]; then
    mount -t tmpfs -o size="$2" run /run
    mount -t tmpfs -o size="$2" var /var/log
fi
mkdir -p /run/systemd/journal /run/systemd/journald.conf.d /run/log
[ -z "$3" ] || mkdir -p /var/log/journal
printf '[Journal]\\n%b' "$4" > /run/systemd/journald.conf.d/test.conf
mount --bind "$1" /dev/kmsg
export SYSTEMD_LOG_TARGET=null
exec "$5"
"""


class Journald:
    """Runs while it is entered. `seconds` since boot are the kernel's, as a test chooses them."""

    def __init__(
        self,
        folder: Path,
        conf: str = "",
        *,
        size: str = "64m",
        on_disk: bool = False,
        within: Sequence[str] = (),
    ) -> None:
        """`within` enters a node's mounts; without `size` the disks there are used."""
        assert os.geteuid() == 0, "journald is started in mounts of its own: run this test as root"
        assert PROGRAM.exists(), (
            "systemd is missing: python -m tests.lab.node.packages --install systemd"
        )
        self._fifo = folder / "kmsg"
        os.mkfifo(self._fifo)
        self._arguments = (str(self._fifo), size, "yes" if on_disk else "", conf, str(PROGRAM))
        self._within = within
        self._reads = "ReadKMsg=no" not in conf
        self._number = 0

    def __enter__(self) -> Self:
        self._kmsg = os.open(self._fifo, os.O_RDWR | os.O_NONBLOCK)
        self._started: subprocess.Popen[bytes] | None = None
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        os.close(self._kmsg)

    def start(self) -> None:
        """Start it; once more, its mounts are new and have nothing of before."""
        enter = ("setpriv", "--pdeathsig=KILL", *self._within, "unshare", "--mount")
        command = [*enter, "sh", "-c", _START, "journald", *self._arguments]
        self._started = subprocess.Popen(command)
        root = Path(f"/proc/{self._started.pid}/root")
        self.folders = (root / "var/log/journal", root / "run/log/journal")
        self._socket = root / "run/systemd/journal/socket"
        wait_for(lambda: list(self.folders[1].rglob("*.journal")), what="journald's first file")

    def stop(self) -> None:
        if self._started is not None:
            self._started.kill()
            self._started.wait()

    def send(self, number: signal.Signals) -> None:
        """SIGUSR1: copy what is below /run to the disk. SIGUSR2: begin new files."""
        assert self._started is not None
        self._started.send_signal(number)

    def print(self, seconds: float, text: str, level: int = 4) -> None:
        """Have the kernel print a record, and wait until journald took it, if it reads any."""
        head = f"{level},{self._number},{round(seconds * 1e6)},-;"
        self._number += 1
        if not self._reads:
            return
        os.write(self._kmsg, f"{head}{text}\n".encode())
        end = time.monotonic() + PATIENCE
        while self._unread():  # soon: `wait_for` would rest for longer than that takes
            assert time.monotonic() < end, "journald does not read the record"
            time.sleep(0.0005)

    def miss(self, records: int) -> None:
        """Have journald find records gone that it had not read: the kernel overwrote them."""
        self._number += records

    def log(self, text: str) -> None:
        """Log a text as a program of the node does."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(f"MESSAGE={text}\n".encode(), str(self._socket))

    def journal(self, rejected: list[str]) -> Journal:
        boot_id = BOOT_ID.read_text(encoding="ascii").strip()
        return Journal(self.folders, boot_id, rejected.append)

    def _unread(self) -> int:
        size = fcntl.ioctl(self._kmsg, termios.FIONREAD, b"\0" * 4)
        return int(struct.unpack("i", size)[0])


def fill(folder: Path) -> Path:
    """Leave no space on a folder's disk; returns what to remove for some."""
    ballast = folder / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(bytes(64 << 20))
    return ballast
