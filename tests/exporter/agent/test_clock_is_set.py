"""The agent notices that the wall clock was set before it takes in what the sensor says."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime

import msgspec
import pytest

from exporter import protocol
from exporter.agent.process import Agent
from exporter.metrics.counters_file import CountersFile
from exporter.model.node_health import GpuHealth
from exporter.settings import Settings
from tests.exporter.worlds import START, Sensed, at, gpu, seen

HOUR = 3600.0
UNREAD = gpu(recovery_supported=None, recovery_action=None)


class Wall:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def line(agent: Agent) -> None:
    signal = Sensed().kmsg(1 - HOUR, 95)
    agent.signals(protocol.Signals((signal,), 10))


def sample(agent: Agent) -> None:
    agent.observed(protocol.Observed(seen(UNREAD, seconds=1 - HOUR)))


def late_sample(agent: Agent) -> None:
    """A new observation with the reading of before the clock was set, as a sensor sends it."""
    before = seen(gpu(), seconds=0)
    assert before.nvml is not None
    booted_at = START - timedelta(seconds=clock_gettime(CLOCK_BOOTTIME))
    nvml = msgspec.structs.replace(before.nvml, booted_at=booted_at)
    agent.observed(protocol.Observed(msgspec.structs.replace(before, at=at(1 - HOUR), nvml=nvml)))


def a_line_after_a_new_connection(agent: Agent) -> None:
    agent.welcome(protocol.Welcome("run-1", "boot-1"))
    line(agent)


def loss(agent: Agent) -> None:
    agent.unreachable("the sensor is gone")


def found(agent: Agent) -> GpuHealth:
    (health,) = agent.snapshot().report.gpus
    return health


@pytest.mark.parametrize("news", [line, sample, late_sample, a_line_after_a_new_connection, loss])
def test_what_was_read_before_moves_along(tmp_path: Path, news: Callable[[Agent], None]) -> None:
    wall = Wall()
    settings = Settings(node_name="node-a", sensor_socket=tmp_path / "none.sock", kubernetes=False)
    agent = Agent(settings, None, "1", CountersFile(None), wall)
    agent.welcome(protocol.Welcome("run-1", "boot-1"))
    agent.observed(protocol.Observed(seen(gpu())))
    assert found(agent).recovery_action.observed_at == START

    wall.now = at(1 - HOUR)
    news(agent)

    report, read = agent.snapshot().report, found(agent).recovery_action.observed_at
    assert report.observed_at is not None
    assert report.observed_at <= wall.now + timedelta(milliseconds=1)
    assert read is not None
    assert abs(read - (START - timedelta(hours=1))) < timedelta(seconds=1.5)
    assert all(read < record.last_seen for record in found(agent).xids)
    assert bool(found(agent).xids) == (news in {line, a_line_after_a_new_connection})
