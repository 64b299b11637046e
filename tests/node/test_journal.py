"""The chart's default kernel log on a node with a real systemd-journald, and what befalls that.

The kernel prints no driver line that a test makes up. So the journal alone has it as the kernel's;
by syslog(2) it is a user's, which the sensor refuses and counts: the sign that it came that way.
"""

import contextlib
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from draguard.__main__ import main
from simulator import driver_messages
from tests.conftest import printer
from tests.lab import leftovers
from tests.lab.cluster import await_true
from tests.lab.journald import Journald, fill
from tests.lab.node.kernel_log import NodeLog
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release
from tests.node.workload import tainted

DISKS = """
for disk in /run/log /var/log/journal; do
    mkdir -p $disk
    mount -t tmpfs -o size=20m,mode=755 journal $disk
done
"""
CLEAN = "rm -rf /run/systemd/journal /run/log/journal /var/log/journal/*"
RATE_LIMIT = "RateLimitIntervalSec=1h\\nRateLimitBurst=1\\n"
BY_JOURNAL = ('draguard_kernel_log_info{via="Journal"} 1', 'draguard_source_up{source="kmsg"} 1')
NOISE = 20_000
"""Bytes that a program logs at a time; as random ones they take their space."""


def by_syslog(reason: str) -> tuple[str, str]:
    up = f'draguard_source_up{{source="kmsg",reason="{reason}"}} 1'
    return 'draguard_kernel_log_info{via="Syslog"} 1', up


@pytest.fixture(scope="module")
def node(
    control_plane_built: None, real_node_built: None, pytestconfig: pytest.Config
) -> Iterator[RealNode]:
    """A node of its own: the others have no journal."""
    with leftovers.kept(), RealNode("7xH100", say=printer(pytestconfig)) as real:
        real.plane.inside("/bin/sh", "-ec", DISKS)
        yield real


@pytest.fixture(scope="module")
def release(node: RealNode, helm_built: object) -> Release:
    """The sensor without privilege, as by default."""
    release = Release(node)
    plain = {"access": "runtime", "driverRoot": "/", "libraryDir": "usr/lib/x86_64-linux-gnu"}
    devices = "--pci-devices-dir=/host/driver/sim/pci"
    release.install({"exporter": {"gpu": plain, "extraArgs": [devices]}})
    release.await_ready()
    return release


class Log:
    """The node's journald and kernel log, and what the exporter's page says of them."""

    def __init__(self, node: RealNode, release: Release, journald: Journald, log: NodeLog) -> None:
        self.journald = journald
        self.gpus = node.gpus
        self._release = release
        self._log = log

    def print_xid(self, gpu: int) -> None:
        self._log.print(driver_messages.xid(self.gpus.gpu(gpu).pci, 119, pid=os.getpid()))

    def await_xids(self, gpu: int, count: int) -> None:
        await_true(f"{count} XIDs of GPU {gpu}", lambda: self.xids(gpu) == count)

    def xids(self, gpu: int) -> float:
        return self._sum("draguard_xid_errors_total{", f'UUID="{self.gpus.gpu(gpu).uuid}"')

    def refused(self) -> float:
        return self._sum('draguard_kernel_log_rejected_total{reason="user_space"}')

    def files(self) -> list[Path]:
        return list(self.journald.folders[1].rglob("*.journal"))

    def active(self) -> int | None:
        """Return the inode of the file that journald writes; it may just begin another."""
        for file in self.files():
            if file.name == "system.journal":
                with contextlib.suppress(FileNotFoundError):
                    return file.stat().st_ino
        return None

    def shows(self, *lines: str) -> bool:
        return set(self._release.metrics().splitlines()).issuperset(lines)

    def _sum(self, *words: str) -> float:
        lines = self._release.metrics().splitlines()
        return sum(float(line.split()[-1]) for line in lines if all(word in line for word in words))


@contextmanager
def journal(node: RealNode, release: Release, folder: Path, conf: str = "") -> Generator[Log]:
    """Start journald on empty disks, as a boot does."""
    node.plane.inside("/bin/sh", "-c", CLEAN)
    enter = ("nsenter", f"--mount=/proc/{node.plane.first_process}/ns/mnt")
    folder.mkdir(exist_ok=True)
    with (
        Journald(folder, conf, size="", on_disk=True, within=enter) as journald,
        NodeLog(journald) as log,
    ):
        yield Log(node, release, journald, log)


def test_an_xid_that_only_the_journal_has_taints_its_gpu(
    node: RealNode, release: Release, tmp_path: Path
) -> None:
    with journal(node, release, tmp_path) as log:
        release.await_shows(*BY_JOURNAL)
        refused = log.refused()

        log.print_xid(0)

        log.await_xids(0, 1)
        await_true("its taint", lambda: tainted(node).get("gpu-0") == "NoSchedule")
        assert log.refused() == refused


def test_rotation_and_a_rate_limit_lose_no_xid_and_repeat_none(
    node: RealNode, release: Release, tmp_path: Path
) -> None:
    with journal(node, release, tmp_path, RATE_LIMIT) as log:
        release.await_shows(*BY_JOURNAL)

        for _ in range(5):
            log.print_xid(1)
            old = log.active()
            log.journald.send(signal.SIGUSR2)
            await_true("another file", lambda old=old: log.active() not in {None, old})
        log.print_xid(2)

        log.await_xids(2, 1)
        assert log.xids(1) == 5
        assert log.shows(*BY_JOURNAL)


def test_with_readkmsg_no_the_log_comes_by_syslog_and_the_doctor_says_why(
    node: RealNode, release: Release, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with journal(node, release, tmp_path / "before") as log:
        release.await_shows(*BY_JOURNAL)
        log.print_xid(3)
        log.await_xids(3, 1)

    with journal(node, release, tmp_path / "without", "ReadKMsg=no\\n") as log:
        refused = log.refused()
        log.print_xid(3)
        await_true("it comes by syslog(2)", lambda: log.refused() == refused + 1)
        assert log.xids(3) == 1
        release.await_shows(*by_syslog("JournalSilent"))
        node.kill(release.process("exporter", "sensor"))
        # The new one has never seen a journal with the kernel's records.
        release.await_shows(*by_syslog("NoKernelRecords"))

        def doctor_says() -> bool:
            main(["doctor", "--kubeconfig", str(node.plane.kubeconfig)])
            return f"read by syslog(2) on 1 node ({node.name}) (NoKernelRecords)" in (
                capsys.readouterr().out
            )

        await_true("the doctor says so", doctor_says)

    with journal(node, release, tmp_path / "with", "ReadKMsg=yes\\n") as log:
        release.await_shows(*BY_JOURNAL)
        log.print_xid(4)
        log.await_xids(4, 1)


def test_with_full_disks_the_log_comes_by_syslog_until_there_is_space(
    node: RealNode, release: Release, tmp_path: Path
) -> None:
    with journal(node, release, tmp_path) as log:
        on_disk, below_run = log.journald.folders
        release.await_shows(*BY_JOURNAL)
        log.journald.send(signal.SIGUSR1)
        await_true("the disk", lambda: list(on_disk.rglob("system.journal")))
        ballast = [fill(on_disk)]
        while not log.files():
            log.journald.log(os.urandom(NOISE).hex())
        log.print_xid(5)
        log.await_xids(5, 1)
        assert log.shows(*BY_JOURNAL)
        refused, printed = log.refused(), 1

        ballast.append(fill(below_run))
        while not log.shows(*by_syslog("JournalSilent")):
            log.journald.log(os.urandom(NOISE).hex())
            log.print_xid(5)
            printed += 1
        await_true("one comes by syslog(2)", lambda: log.refused() > refused)

        for file in ballast:
            file.unlink()
        log.journald.send(signal.SIGUSR2)
        while not log.shows(*BY_JOURNAL):
            log.print_xid(5)
            printed += 1
        log.print_xid(6)
        log.await_xids(6, 1)
        # By the journal or by syslog(2): none is lost, and none comes twice.
        assert log.xids(5) + log.refused() - refused == printed
