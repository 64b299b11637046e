"""Processes that all stood still for a while, as in a frozen container: no GPU hung meanwhile."""

import signal
import time

import pytest

from exporter import protocol
from exporter.model.readings import CallNote
from exporter.sensor.nvml.budget import Budget
from exporter.sensor.nvml.library import NvmlError
from exporter.sensor.supervisor.calls import Excuses
from simulator.node import SimulatedNode
from tests.exporter.robust.peers import FakeSensor, frame
from tests.exporter.running import Exporter, send, wait_for
from tests.exporter.worlds import gpu, seen

STANDSTILL = 24.0
"""Seconds: longer than a call, and the wait of five seconds for an event beside it, may take, and
longer than a sensor may be silent: an interval and two deadlines."""
DEADLINE = "--sample-deadline=10"
"""Of a call: longer than a busy machine lets one process alone stand still."""


def test_after_a_standstill_of_all_no_gpu_is_reported_to_hang(node: SimulatedNode) -> None:
    with Exporter(node, "run", "--no-report", DEADLINE) as exporter:
        exporter.wait_shows("DCGM_FI_DEV_GPU_TEMP")
        child = exporter.nvml_child()
        everybody = (exporter.pid, exporter.sensor(), child)
        for pid in everybody:
            send(pid, signal.SIGSTOP)
        try:
            time.sleep(STANDSTILL)
            node.set_value(0, "temperature_c", 71)
        finally:
            for pid in everybody:
                send(pid, signal.SIGCONT)
        wait_for(lambda: 71.0 in exporter.series("DCGM_FI_DEV_GPU_TEMP").values())
        assert exporter.nvml_child() == child
        exporter.wait_shows('draguard_source_up{source="nvml"} 1')
        for wrong in (
            "hangs in",
            "is down",
            "took too long",
            "not finished",
            "no message from",
            "has not read",
        ):
            assert wrong not in exporter.logged()


def test_an_agent_that_stood_still_does_not_call_its_sensor_silent(node: SimulatedNode) -> None:
    at = node.root / "sensor.sock"
    reported = protocol.Observed(seen(gpu(1, values={150: 40})))
    frames = frame(protocol.Welcome("run-1", "boot-1")), frame(reported)
    with (
        FakeSensor(at, *frames) as sensor,
        Exporter(node, "agent", "--no-report", "--interval=2", DEADLINE) as agent,
    ):
        agent.wait_shows('UUID="GPU-1"')
        send(agent.pid, signal.SIGSTOP)
        try:
            time.sleep(STANDSTILL)
        finally:
            send(agent.pid, signal.SIGCONT)
        wait_for(lambda: agent.get("/debug")[0] == 200)
        time.sleep(2.5)  # it looks at least once an interval whether the sensor speaks
        sensor.say(frame(reported))
        wait_for(lambda: agent.get("/readyz")[0] == 200)
        assert "no message from" not in agent.logged()


def call(began: float, now: float) -> tuple[CallNote | None, ...]:
    return (CallNote(0, "nvmlSomething", now - began), None, None)


def seconds(excuses: Excuses, began: float, now: float) -> float:
    (note, *_) = excuses.counted(call(began, now), now)
    assert note is not None
    return note.seconds


def test_a_call_that_was_under_way_then_has_its_time_once_more_and_a_later_one_its_own() -> None:
    excuses = Excuses()
    excuses.paused(call(95.0, 220.0), 220.0)
    assert seconds(excuses, 95.0, 223.0) == 3.0
    assert seconds(excuses, 222.0, 223.0) == 1.0


def test_a_call_that_hangs_is_named_where_everybody_is_always_late() -> None:
    excuses = Excuses()
    for now in range(100, 140, 12):
        excuses.paused(call(95.0, now), now)
    assert seconds(excuses, 95.0, 140.0) == 40.0


def test_a_gpu_is_not_slow_for_a_call_that_nobody_could_have_waited_for() -> None:
    took = iter((0.1, 120.0, 0.1, 6.0))
    now = 0.0

    def slow_call(gpu: int, name: str, *_: object) -> tuple[int, str]:
        nonlocal now
        now += next(took)
        return gpu, name

    budget = Budget(slow_call, clock=lambda: now)
    budget.begin(5.0)
    for _ in range(3):
        budget(0, "nvmlDeviceGetTemperature")
    assert not budget.overdue
    budget(0, "nvmlDeviceGetTemperature")
    with pytest.raises(NvmlError):
        budget(0, "nvmlDeviceGetTemperature")
