"""`-w`: what has changed is printed, and nothing else."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kubeapi.lease import leases
from remediator.controller.agents import LEASE_NAME
from tests.chain.scene import INCIDENTS, LEASES
from tests.draguard.fleet import LOST_INCIDENT, Fleet
from tests.draguard.test_cli_terminal import PROGRAM, environment
from tests.lab.cluster import await_true


class Watching:
    """A command that watches, its output in a file."""

    def __init__(self, file: Path, *arguments: str) -> None:
        self._file = file
        with file.open("wb") as out:
            self.process = subprocess.Popen(
                ["env", "--default-signal=INT", *PROGRAM, *arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment(),
            )

    def lines(self) -> list[str]:
        return self._file.read_text(encoding="utf-8").splitlines()

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


@pytest.fixture
def noted(fleet: Fleet) -> Iterator[Fleet]:
    yield fleet
    before = {"status": {"message": "NoExecute deferred: hold by ana: until the run ends"}}
    fleet.cluster.client.merge_patch(f"{INCIDENTS}/{LOST_INCIDENT}/status", before)


def test_a_list_that_is_watched_goes_on_with_what_changes(noted: Fleet, tmp_path: Path) -> None:
    watched = Watching(tmp_path / "out", "incidents", "-w", "--kubeconfig", noted.kubeconfig)
    try:
        await_true("the list is there", lambda: len(watched.lines()) == 3)
        change = {"status": {"message": "it has changed"}}
        noted.cluster.client.merge_patch(f"{INCIDENTS}/{LOST_INCIDENT}/status", change)
        await_true("the change is there", lambda: len(watched.lines()) == 4)
    finally:
        status = watched.end()

    assert status == 128 + signal.SIGINT
    last = watched.lines()[-1]
    assert last.startswith("gpu-b0000000-1  node-b/0  ")
    assert last.endswith("it has changed")


def test_an_incident_that_is_watched_is_printed_again_when_it_was_written(
    noted: Fleet, tmp_path: Path
) -> None:
    where = ("-o", "jsonpath={.status.message}", "--kubeconfig", noted.kubeconfig)
    watched = Watching(tmp_path / "out", "incidents", LOST_INCIDENT, "-w", *where)
    try:
        await_true("it is there", lambda: len(watched.lines()) == 1)
        change = {"status": {"message": "once more"}}
        noted.cluster.client.merge_patch(f"{INCIDENTS}/{LOST_INCIDENT}/status", change)
        await_true("the change is there", lambda: len(watched.lines()) == 2)
    finally:
        watched.end()

    assert watched.lines()[-1] == "once more"


def test_a_status_that_is_watched_is_printed_again_only_when_it_changes(
    noted: Fleet, tmp_path: Path
) -> None:
    watched = Watching(tmp_path / "out", "status", "-w", "--kubeconfig", noted.kubeconfig)

    def pages() -> int:
        return sum(line.startswith("Draguard in ") for line in watched.lines())

    try:
        await_true("it is there", lambda: pages() == 1)
        for _ in range(2):
            before = renewed(noted)
            await_true("the Lease is renewed", lambda last=before: renewed(noted) != last)
        assert pages() == 1
        change = {"status": {"message": "once more"}}
        noted.cluster.client.merge_patch(f"{INCIDENTS}/{LOST_INCIDENT}/status", change)
        await_true("the change is there", lambda: pages() == 2)
    finally:
        watched.end()

    assert any(line.startswith("--- 20") for line in watched.lines())


def renewed(fleet: Fleet) -> str:
    lease = msgspec.json.decode(fleet.cluster.client.get(f"{leases(LEASES)}/{LEASE_NAME}"))
    return lease["spec"]["renewTime"]
