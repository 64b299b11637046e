"""A sensor that is stuck is told from one whose GPU, library or driver is."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.sensor import heartbeat
from exporter.sensor.heartbeat import STALLED, Heartbeat, beside, stalled
from simulator.node import SimulatedNode
from tests.exporter.running import HANGS_AFTER, ROOT, SOON, Exporter, wait_for


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EVERY", 0.05)


@pytest.fixture
def lock() -> threading.Lock:
    return threading.Lock()


@pytest.fixture
def file(tmp_path: Path, lock: threading.Lock) -> Iterator[Path]:
    def passes() -> None:
        with lock:
            pass

    beat = Heartbeat(tmp_path / "alive", (lambda: None, passes))
    beat.start()
    yield tmp_path / "alive"
    beat.stop()


def beats(file: Path) -> bool:
    """Whether a time comes that is newer than that of now."""
    before = file.read_text(encoding="ascii")
    wait_for(lambda: file.read_text(encoding="ascii") != before, what="a new time")
    return True


def test_a_sensor_is_alive_while_its_locks_can_be_taken(file: Path) -> None:
    assert beats(file)
    assert stalled(file, time.monotonic()) == ""


def test_a_lock_that_nobody_gives_back_is_no_progress(file: Path, lock: threading.Lock) -> None:
    with lock:
        # What it was writing when the lock was taken may still come.
        wait_for(lambda: _unchanged(file), what="a time that stays")
        written = float(file.read_text(encoding="ascii"))

        assert stalled(file, written + STALLED - 1) == ""
        assert "no progress for 61 s" in stalled(file, written + STALLED + 1)
    assert beats(file)


def _unchanged(file: Path) -> bool:
    before = file.read_text(encoding="ascii")
    time.sleep(0.5)
    return file.read_text(encoding="ascii") == before


@pytest.mark.parametrize("text", ["", "soon\n", None])
def test_what_is_no_time_is_no_sensor(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "alive").write_text(text, encoding="ascii")

    assert "no sensor runs there" in stalled(tmp_path / "alive", 0.0)


def test_a_link_in_the_shared_folder_leads_neither_side_anywhere(tmp_path: Path) -> None:
    """The agent may write there, and the sensor is root."""
    secret = tmp_path / "secret"
    secret.write_text("1e9\n", encoding="ascii")
    (tmp_path / "alive").symlink_to(secret)
    assert "cannot be read" in stalled(tmp_path / "alive", 0.0)

    beat = Heartbeat(tmp_path / "alive", ())
    beat.start()
    beat.stop()

    assert secret.read_text(encoding="ascii") == "1e9\n"
    assert not (tmp_path / "alive").exists()


def asked(socket: Path) -> tuple[int, str]:
    """Return what the probe's command says of the sensor at a socket."""
    command = [sys.executable, "-m", "draguard", "exporter", "--alive", f"--sensor-socket={socket}"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout


def test_the_command_says_yes_to_a_sensor_whose_gpus_hang(node: SimulatedNode) -> None:
    with Exporter(node, "run", SOON) as sensor:
        wait_for(lambda: beside(sensor.socket).exists(), what="a sensor")
        node.hang(0)
        wait_for(lambda: "hangs in" in sensor.log.read_text(encoding="utf-8"), what="a hang")
        before = float(beside(sensor.socket).read_text(encoding="ascii"))
        wait_for(
            lambda: float(beside(sensor.socket).read_text(encoding="ascii")) > before + HANGS_AFTER,
            what="progress while the GPU hangs",
        )

        assert asked(sensor.socket) == (0, "ok\n")
    assert asked(sensor.socket)[0] == 1


def test_the_command_says_no_to_a_sensor_that_is_stopped(node: SimulatedNode) -> None:
    with Exporter(node, "sensor") as sensor:
        file = beside(sensor.socket)
        wait_for(file.exists, what="a sensor")
        os.kill(sensor.pid, signal.SIGSTOP)
        try:
            wait_for(lambda: _still(file), what="a time that stays")
            # A minute later.
            old = float(file.read_text(encoding="ascii")) - STALLED - 10
            file.write_text(f"{old:.3f}\n", encoding="ascii")

            code, says = asked(sensor.socket)
        finally:
            os.kill(sensor.pid, signal.SIGCONT)

    assert (code, "has made no progress for" in says) == (1, True)


def _still(file: Path) -> bool:
    before = file.read_text(encoding="ascii")
    time.sleep(2 * 5.0)
    return file.read_text(encoding="ascii") == before
