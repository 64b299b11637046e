"""The supervising process: starts, signals, reaps, and ends with its owner."""

import signal
from pathlib import Path

import pytest

from simulator.cluster.supervise import Supervisor, SupervisorError
from tests.lab.cluster import await_true


def test_output_goes_to_the_log_and_the_exit_code_is_known(tmp_path: Path) -> None:
    supervisor = Supervisor()
    pid = supervisor.start(["sh", "-c", "echo out; echo err >&2; exit 3"], tmp_path / "log")
    await_true("it ended", lambda: supervisor.exit_code(pid) is not None)
    assert supervisor.exit_code(pid) == 3
    assert (tmp_path / "log").read_text() == "out\nerr\n"
    supervisor.signal(pid, signal.SIGTERM)
    supervisor.kill(pid)
    supervisor.close()


def test_what_cannot_be_started_is_an_error_and_the_supervisor_goes_on(tmp_path: Path) -> None:
    supervisor = Supervisor()
    with pytest.raises(SupervisorError, match=r"FileNotFoundError.*/no/such/program"):
        supervisor.start(["/no/such/program"], tmp_path / "log")
    with pytest.raises(SupervisorError, match="KeyError: 1"):
        supervisor.kill(1)
    pid = supervisor.start(["sleep", "60"], tmp_path / "log")
    assert supervisor.exit_code(pid) is None
    supervisor.kill(pid)
    assert supervisor.exit_code(pid) == -signal.SIGKILL
    supervisor.close()


def test_closing_kills_what_runs_also_when_frozen_and_removes_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    supervisor = Supervisor(folder)
    frozen = supervisor.start(["sleep", "60"], folder / "log")
    deaf = supervisor.start(["sh", "-c", "trap '' TERM; sleep 60"], folder / "log")
    supervisor.signal(frozen, signal.SIGSTOP)
    supervisor.close()
    assert not folder.exists()
    for pid in (frozen, deaf):
        assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(SupervisorError, match="is gone"):
        supervisor.exit_code(frozen)
    supervisor.close()
