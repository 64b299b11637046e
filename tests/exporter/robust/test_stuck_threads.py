"""Each thread of the sensor is stopped in turn: nothing it read before looks fresh for long.

The thread is stopped by the kernel, in the real process, with everything else running.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from exporter.agent.report.stored_report import COLLECTION
from exporter.model.node_health import REPORT_HASH
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from simulator.dcgm_engine import SimulatedDcgm
from simulator.node import SimulatedNode
from tests.exporter.agent.report.test_report_on_real_apiserver import (
    LEASES,
    flags,
    install,
    report,
)
from tests.exporter.live.stage import simulated
from tests.exporter.robust import named_threads
from tests.exporter.robust.stopped_thread import stopped
from tests.exporter.running import Exporter, wait_for

HEALTH = "DCGM_EXP_GPU_HEALTH_STATUS"
EXPECTED = 'draguard_gpus_expected{source="pci"}'
SEEN = "\ndraguard_gpus_seen "
"""NVML's alone: while that is down, values come from DCGM."""
LEASE = f"{LEASES}/draguard-agent-node-a"
TIMES = ("--interval=0.5", "--sample-deadline=3", "--lease-interval=0.2")
SILENT = "no message from the sensor"
ALLOWED = 0.5 + 2 * 3.0
"""Seconds that a part may be old."""


class Row(msgspec.Struct, frozen=True):
    """What is true once a thread of the sensor has stood still for long enough."""

    thread: str
    source: str
    reason: str
    gone: str
    """What the page does not show any more, "" for nothing of its own."""
    ready: bool = False


STUCK = (
    Row("nvml", "nvml", "Stale", SEEN),
    Row("dcgm", "dcgm", "Stale", HEALTH),
    Row("kernel log", "kmsg", "Stale", ""),
    Row("node state", "podresources", "Stale", EXPECTED),
    Row("NVML child", "nvml", "Slow", SEEN, ready=True),
)
HARMLESS = ("folder watch", "config space", "sensor socket", "agent's words", "heartbeat")
"""Without these everything else is read on."""


class NamedThreads(Exporter):
    """A sensor whose threads can be told apart."""

    def __init__(self, node: SimulatedNode, *flags: str) -> None:
        super().__init__(node, "sensor", *flags)
        self._file = node.root / "threads.json"
        program = [sys.executable, str(Path(named_threads.__file__)), str(self._file)]
        self._command = [*program, *self._command[3:]]

    def thread(self, name: str) -> int:
        return json.loads(self._file.read_text(encoding="utf-8"))[name]


class Stage(msgspec.Struct):
    """A sensor, its agent, and what the API server has of the agent."""

    sensor: NamedThreads
    agent: Exporter
    api: Client

    def page_says(self, name: str, reason: str) -> bool:
        return self.agent.shows(f'draguard_source_up{{source="{name}",reason="{reason}"}} 0')

    def report_says(self, name: str, reason: str) -> bool:
        sources = report(self.api).sources
        return any(
            (source.name, source.reason, source.up) == (name, reason, False) and source.message
            for source in sources
        )

    def presences(self) -> set[tuple[str, str]]:
        return {(gpu.presence, gpu.presence_reason) for gpu in report(self.api).gpus}

    def lease(self) -> tuple[str, str]:
        """Return the Lease's version and the hash that it confirms."""
        meta = json.loads(self.api.get(LEASE))["metadata"]
        return meta["resourceVersion"], meta["annotations"][REPORT_HASH]

    def works(self) -> bool:
        up = {source.name for source in report(self.api).sources if source.up}
        ready = self.agent.get("/readyz")[0] == 200
        shown = self.agent.shows(SEEN, f"{HEALTH}{{", EXPECTED)
        return ready and shown and up == {"nvml", "kmsg", "podresources", "dcgm"}

    def versions_of(self, confirmed: str, until: Callable[[], bool]) -> set[str]:
        """Return the Lease's versions that confirm a hash, as they come until something is true."""
        found: set[str] = set()

        def reached() -> bool:
            version, now = self.lease()
            if now == confirmed:
                found.add(version)
            return until()

        wait_for(reached, what="the end of what was read before")
        return found


@pytest.fixture(scope="module")
def stage(control_plane: ControlPlane, client: Client) -> Iterator[Stage]:
    install(control_plane, client)
    with simulated("2xH100") as node:
        counters = node.root / "counters.csv"
        counters.write_text(f"DCGM_FI_DEV_GPU_TEMP,gauge,t\n{HEALTH},gauge,h\n", encoding="utf-8")
        dcgm = SimulatedDcgm(node)
        with pytest.MonkeyPatch.context() as patch:
            for key, value in dcgm.environment().items():
                patch.setenv(key, value)
            sensor = NamedThreads(
                node, *TIMES, "--dcgm=embedded", f"--dcgm-library-dir={node.library_dir}"
            )
        own = (*TIMES, f"--collectors={counters}", *flags(control_plane.endpoint(), node))
        with sensor, Exporter(node, "agent", *own) as agent:
            made = Stage(sensor, agent, client)
            wait_for(made.works, what="all sources")
            yield made
    for path in (f"{COLLECTION}/node-a", LEASE):
        client.delete(path)


@pytest.mark.parametrize("row", STUCK, ids=lambda row: row.thread)
def test_what_a_stuck_thread_read_before_expires_and_is_reported_as_unknown(
    stage: Stage, row: Row
) -> None:
    wait_for(stage.works, what="all sources")
    with stopped(stage.sensor.thread(row.thread)):
        wait_for(lambda: stage.page_says(row.source, row.reason), what=row.reason)

        assert not row.gone or not stage.agent.shows(row.gone)
        assert (stage.agent.get("/readyz")[0] == 200) == row.ready
        wait_for(lambda: stage.report_says(row.source, row.reason), what="the report")
        if row.source == "nvml":
            wait_for(
                lambda: stage.presences() == {("Unknown", f"Nvml{row.reason}")}, what="presences"
            )
        else:
            assert stage.presences() == {("Present", "")}
    wait_for(stage.works, what="all sources again")


def test_a_lease_confirms_no_reading_that_did_not_happen(stage: Stage) -> None:
    wait_for(stage.works, what="all sources")
    with stopped(stage.sensor.thread("nvml")):
        _, healthy = stage.lease()
        versions = stage.versions_of(healthy, lambda: stage.page_says("nvml", "Stale"))
        # The reading that was there, one that was under way, and the renewal under way then.
        assert len(versions) <= 3
        wait_for(lambda: stage.lease()[1] != healthy, what="the report of unknown GPUs confirmed")
    wait_for(stage.works, what="all sources again")
    wait_for(
        lambda: stage.lease()[1] == report(stage.api).content_hash, what="what is read confirmed"
    )


def test_an_agent_whose_connection_says_nothing_more_makes_another(stage: Stage) -> None:
    wait_for(stage.works, what="all sources")
    before = stage.agent.logged().count(SILENT)
    with stopped(stage.sensor.thread("agent")):
        wait_for(lambda: stage.agent.logged().count(SILENT) > before, what="the end of patience")
        wait_for(stage.works, what="all sources by another connection")


@pytest.mark.parametrize("thread", HARMLESS)
def test_a_stuck_thread_that_reads_no_source_makes_nothing_stale(stage: Stage, thread: str) -> None:
    wait_for(stage.works, what="all sources")
    with stopped(stage.sensor.thread(thread)):
        time.sleep(ALLOWED + 1)
        assert stage.works()
