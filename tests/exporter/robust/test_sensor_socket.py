"""What may happen at the sensor's socket without the agent's page noticing."""

import contextlib
import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter import protocol
from simulator.node import SimulatedNode
from tests.exporter.robust.peers import FakeAgent
from tests.exporter.running import Exporter, wait_for


@pytest.fixture
def exporter(node: SimulatedNode) -> Iterator[Exporter]:
    with Exporter(node) as running:
        running.wait_shows('draguard_source_up{source="nvml"} 1')
        yield running


def connect(exporter: Exporter) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX)
    # Without a time limit: with one, a full queue would refuse instead of making us wait.
    stream.connect(str(exporter.socket))
    stream.settimeout(60)
    return stream


def is_alive(node: SimulatedNode, exporter: Exporter, temperature: int) -> None:
    """The page shows what changes, and its one connection to the sensor was never lost."""
    node.set_value(0, "temperature_c", temperature)
    wait_for(lambda: float(temperature) in exporter.series("DCGM_FI_DEV_GPU_TEMP").values())
    assert exporter.logged().count("connected to sensor") == 1


@pytest.fixture
def many_files() -> Iterator[None]:
    """Many shells allow 1024 open files, some of which are taken already."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before, min(most, 4096)), most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


@pytest.mark.usefixtures("many_files")
def test_a_thousand_connections_that_say_nothing_cost_neither_threads_nor_descriptors(
    node: SimulatedNode, exporter: Exporter
) -> None:
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(connect(exporter)) for _ in range(1000)]
        sensor = exporter.sensor()
        # Threads whose connection had to go end when they get the processor.
        wait_for(lambda: _count(sensor, "task") < 40, what="few threads")
        wait_for(lambda: _count(sensor, "fd") < 60, what="few descriptors")
        is_alive(node, exporter, 71)
        # The oldest made room for the next.
        assert streams[0].recv(1) == b""
    is_alive(node, exporter, 72)


def test_half_frames_are_waited_for_in_vain_and_let_go(
    node: SimulatedNode, exporter: Exporter
) -> None:
    halves = (b"", b"\x01", struct.pack("!BI", protocol.PROTOCOL, 500) + b"{" * 100)
    with contextlib.ExitStack() as stack:
        for half in halves * 3:
            stack.enter_context(connect(exporter)).sendall(half)
        is_alive(node, exporter, 73)


def test_an_agent_that_does_not_read_holds_up_neither_the_sensor_nor_the_next_agent(
    node: SimulatedNode, exporter: Exporter
) -> None:
    with wait_for(lambda: _welcomed(exporter.socket), what="a welcome"):
        # It reads no more; the real agent comes back, as the newest.
        exporter.wait_shows('draguard_source_up{source="nvml"} 1')
        node.set_value(0, "temperature_c", 74)
        wait_for(lambda: 74.0 in exporter.series("DCGM_FI_DEV_GPU_TEMP").values())


def _welcomed(socket: Path) -> FakeAgent | None:
    """Return an agent that was received; None when the real one came back before its answer."""
    agent = FakeAgent(socket)
    try:
        agent.hello()
    except protocol.Closed:
        agent.channel.close()
        return None
    return agent


def test_agents_that_come_and_go_leave_no_thread_behind(exporter: Exporter) -> None:
    sensor = exporter.sensor()
    before = _count(sensor, "task")
    for _ in range(50):
        # Whether it is welcomed before the real one comes back or not.
        with FakeAgent(exporter.socket) as agent, contextlib.suppress(protocol.Closed):
            agent.hello()
    wait_for(lambda: _count(sensor, "task") <= before + 2, what="the end of their threads")
    exporter.wait_shows('draguard_source_up{source="nvml"} 1')


def _count(pid: int, what: str) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/{what}").iterdir())
