"""A sensor that is stuck is told from one whose GPU, library or driver is."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.sensor import heartbeat
from exporter.sensor.heartbeat import STALLED, Heartbeat, stalled
from simulator.node import SimulatedNode
from tests.exporter.running import HANGS_AFTER, ROOT, SOON, Exporter, wait_for


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EVERY", 0.05)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short one: a socket's path may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="dg-") as name:
        yield Path(name)


@pytest.fixture
def served(folder: Path) -> Iterator[Path]:
    """A socket that somebody serves."""
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(folder / "sensor.sock"))
        yield folder / "sensor.sock"


@pytest.fixture
def lock() -> threading.Lock:
    return threading.Lock()


@pytest.fixture
def beating(served: Path, lock: threading.Lock) -> Iterator[Path]:
    def passes() -> None:
        with lock:
            pass

    beat = Heartbeat(served, (lambda: None, passes))
    beat.start()
    wait_for(lambda: noted(served) <= time.monotonic(), what="a first time")
    yield served
    beat.stop()


def noted(at: Path) -> float:
    return at.lstat().st_mtime


def beats(at: Path) -> bool:
    """Whether a time comes that is newer than that of now."""
    before = noted(at)
    wait_for(lambda: noted(at) > before, what="a new time")
    return True


def still(at: Path, seconds: float = 0.5) -> bool:
    before = noted(at)
    time.sleep(seconds)
    return noted(at) == before


def all_stopped(pid: int) -> bool:
    """Whether no thread of a process runs any more: a signal needs a moment to reach each."""
    states = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return all(text.rpartition(")")[2].split()[0] == "T" for text in states)


def test_a_sensor_is_alive_while_its_locks_can_be_taken(beating: Path) -> None:
    assert beats(beating)
    assert stalled(beating, time.monotonic()) == ""


def test_a_lock_that_nobody_gives_back_is_no_progress(beating: Path, lock: threading.Lock) -> None:
    with lock:
        # What it noted when the lock was taken may still come.
        wait_for(lambda: still(beating), what="a time that stays")

        assert stalled(beating, noted(beating) + STALLED - 1) == ""
        assert "no progress for 61 s" in stalled(beating, noted(beating) + STALLED + 1)
    assert beats(beating)


def test_a_socket_that_is_new_is_alive(served: Path) -> None:
    assert stalled(served, time.monotonic()) == ""


def test_without_a_socket_there_is_no_sensor(folder: Path) -> None:
    assert "is not there" in stalled(folder / "sensor.sock", 0.0)


def test_a_link_in_the_shared_folder_leads_neither_side_anywhere(
    folder: Path, served: Path
) -> None:
    """The agent may write there, and the sensor is root."""
    link = folder / "link"
    link.symlink_to(served)
    before = noted(served)
    beat = Heartbeat(link, ())
    beat.start()
    wait_for(lambda: noted(link) <= time.monotonic(), what="a time")
    beat.stop()

    assert noted(served) == before
    assert "is not a socket" in stalled(link, time.monotonic())


def checked(at: Path) -> tuple[int, str]:
    """Return what the probe's command says of the sensor at a socket."""
    command = [sys.executable, "-m", "draguard", "exporter", "--alive", f"--sensor-socket={at}"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout


def test_the_command_says_yes_to_a_sensor_whose_gpus_hang(node: SimulatedNode) -> None:
    with Exporter(node, "run", SOON) as sensor:
        wait_for(sensor.socket.exists, what="a sensor")
        node.hang(0)
        wait_for(lambda: "hangs in" in sensor.log.read_text(encoding="utf-8"), what="a hang")
        wait_for(lambda: noted(sensor.socket) <= time.monotonic(), what="a time")
        before = noted(sensor.socket)
        wait_for(
            lambda: noted(sensor.socket) > before + HANGS_AFTER,
            what="progress while the GPU hangs",
        )

        assert checked(sensor.socket) == (0, "ok\n")
    assert checked(sensor.socket)[0] == 1


def test_the_command_says_no_to_a_sensor_that_is_stopped(node: SimulatedNode) -> None:
    with Exporter(node, "sensor") as sensor:
        wait_for(sensor.socket.exists, what="a sensor")
        wait_for(lambda: noted(sensor.socket) <= time.monotonic(), what="a time")
        os.kill(sensor.pid, signal.SIGSTOP)
        try:
            wait_for(lambda: all_stopped(sensor.pid), what="threads that stand still")
            # A minute later.
            old = noted(sensor.socket) - STALLED - 10
            os.utime(sensor.socket, (old, old))

            code, says = checked(sensor.socket)
        finally:
            os.kill(sensor.pid, signal.SIGCONT)

    assert (code, "has made no progress for" in says) == (1, True)
