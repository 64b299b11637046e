"""Processes that are killed in any order, and ends that are requested while something hangs."""

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from simulator.node import SimulatedNode
from tests.exporter.running import PATIENCE, Exporter, is_running, send, wait_for

LIMIT = 30.0
"""Seconds in which an exporter must have ended: five are its own, the others a busy machine's.
What it waits for hangs for ever."""


@pytest.fixture
def pair(node: SimulatedNode) -> Iterator[tuple[Exporter, Exporter]]:
    """An agent and a sensor, as in the two containers of a pod."""
    with Exporter(node, "sensor") as sensor, Exporter(node, "agent") as agent:
        agent.wait_shows('draguard_source_up{source="nvml"} 1')
        yield sensor, agent
    for process in (sensor, agent):
        assert "not everything ended in time" not in process.logged(), process.logged()


@pytest.mark.parametrize("order", list(itertools.permutations(("sensor", "agent", "child"))))
def test_killed_in_any_order_all_come_back_and_nothing_of_the_kernel_log_counts_twice(
    node: SimulatedNode, pair: tuple[Exporter, Exporter], order: tuple[str, ...]
) -> None:
    sensor, agent = pair
    node.inject_xid(0, 79, nvml=False)
    agent.wait_count(79, 1)
    for number, who in enumerate(order, 2):
        _kill(who, sensor, agent)
        # While one is away.
        node.inject_xid(0, 79, nvml=False)
        agent.wait_count(79, number)
    agent.wait_shows('draguard_source_up{source="nvml"} 1', "DCGM_FI_DEV_GPU_TEMP")
    assert agent.count(79) == 4
    assert agent.get("/readyz")[0] == 200


def _kill(who: str, sensor: Exporter, agent: Exporter) -> None:
    if who == "child":
        send(sensor.nvml_child(), signal.SIGKILL)
        return
    process = sensor if who == "sensor" else agent
    process.kill()
    process.start()


def test_an_agent_killed_without_a_report_counts_again_what_the_sensor_still_knows(
    node: SimulatedNode, pair: tuple[Exporter, Exporter]
) -> None:
    _, agent = pair
    node.inject_xid(0, 43, kernel=False)
    agent.wait_count(43, 1)
    agent.kill()
    agent.start()
    agent.wait_count(43, 1)


def test_an_error_that_nvml_alone_reported_outlives_the_sensor_in_the_agent(
    node: SimulatedNode, pair: tuple[Exporter, Exporter]
) -> None:
    sensor, agent = pair
    node.inject_xid(0, 43, kernel=False)
    agent.wait_count(43, 1)
    sensor.kill()
    agent.wait_shows('draguard_source_up{source="nvml",reason="SensorUnreachable"} 0')
    sensor.start()
    agent.wait_shows('draguard_source_up{source="nvml"} 1')
    assert agent.count(43) == 1


def test_sensor_and_agent_killed_at_once_lose_what_only_nvml_reported(
    node: SimulatedNode, pair: tuple[Exporter, Exporter]
) -> None:
    """The kernel log is read again; NVML tells an event once, and nobody else wrote it down."""
    sensor, agent = pair
    node.inject_xid(0, 43, kernel=False)
    node.inject_xid(0, 79, nvml=False)
    agent.wait_count(43, 1)
    agent.wait_count(79, 1)
    for process in pair:
        process.kill()
    sensor.start()
    agent.start()
    agent.wait_count(79, 1)
    agent.wait_shows('draguard_source_up{source="nvml"} 1')
    assert agent.count(43) == 0


def test_sigterm_ends_in_time_while_library_and_kubelet_hang(node: SimulatedNode) -> None:
    with Exporter(node, "run", "--sample-deadline=600") as exporter:
        exporter.wait_shows('draguard_source_up{source="nvml"} 1')
        node.kubelet.hang()
        before = node.kubelet.calls
        node.hang(0)
        wait_for(lambda: node.kubelet.calls > before, what="a call that hangs")
        _ends_in_time(exporter)


@pytest.mark.parametrize("role", ["run", "sensor"])
def test_sigterm_ends_in_time_with_a_child_that_is_stopped(node: SimulatedNode, role: str) -> None:
    with Exporter(node, role) as exporter:
        send(exporter.nvml_child(), signal.SIGSTOP)
        _ends_in_time(exporter)


def _ends_in_time(exporter: Exporter) -> None:
    started = exporter.descendants()
    begun = time.monotonic()
    assert exporter.stop() == 0
    assert time.monotonic() - begun < LIMIT
    wait_for(lambda: not any(map(is_running, started)), LIMIT, f"the end of {started}")


def test_sighup_ends_no_process_of_it(node: SimulatedNode, pair: tuple[Exporter, Exporter]) -> None:
    sensor, agent = pair
    child = sensor.nvml_child()
    for pid in (sensor.pid, agent.pid, child):
        for _ in range(3):
            send(pid, signal.SIGHUP)
    node.set_value(0, "temperature_c", 71)
    wait_for(lambda: 71.0 in agent.series("DCGM_FI_DEV_GPU_TEMP").values())
    assert is_running(sensor.pid)
    assert is_running(agent.pid)
    assert sensor.nvml_child() == child


LATE = """
import time
from exporter.shutdown import Ending
import signal
ending = Ending(0.2)
ending.listen(signal.SIGTERM)
print("ready", flush=True)
ending.await_signal()
time.sleep(600)
"""


def test_what_does_not_end_by_itself_is_ended_and_got_sigterm() -> None:
    command = [sys.executable, "-c", LATE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        try:
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
