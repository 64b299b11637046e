"""What a sensor keeps for its agent, and how far it says that it has reported."""

import threading
import time
from collections.abc import Mapping
from datetime import timedelta

import msgspec
import pytest

from exporter.flags.parser import parse
from exporter.model.node_health import Cursor
from exporter.model.signals import PASSING, PLACES_A_SECOND, Signal
from exporter.sensor import process
from exporter.sensor.feed import Position
from exporter.sensor.kernel_log.reload import SETTLED
from exporter.sensor.process import Sensor
from kubeapi import clock
from simulator.node import SimulatedNode
from tests.exporter.worlds import START

TEMPERATURE = 150
"""DCGM_FI_DEV_GPU_TEMP."""
XID = Signal(kind="xid", source="kmsg", at=START, code=48, bus_id="0000:18:00.0", kernel_sequence=9)


def sensor() -> Sensor:
    """Return one that was not started: nothing but what a test adds."""
    settings, _ = parse(["sensor"], {})
    return Sensor(settings)


def test_a_cursor_is_never_behind_the_signals_that_go_with_it() -> None:
    """A record's signal is kept before the record counts as read."""
    one = sensor()
    position, _ = one.feed.resume(Cursor(), "")
    one.add(XID)
    reported, _ = one.feed.since(position)
    assert reported is not None
    assert reported.kernel_sequence == 9


def test_the_many_lines_of_crashes_push_no_other_error_out_of_the_ring() -> None:
    one = sensor()
    position, _ = one.feed.resume(Cursor(), "")
    one.add(msgspec.structs.replace(XID, code=95))
    for crash in range(30):
        for line in range(400):
            at = PLACES_A_SECOND * crash * 2 + 24_000 * line
            lines = {"kernel_sequence": at, "unfinished": line < 399}
            one.add(msgspec.structs.replace(XID, code=13, **lines))
    reported, _ = one.feed.since(position)
    assert reported is not None
    assert [signal.code for signal in reported.signals] == [95, *[13] * 60]


def test_a_log_that_is_not_read_grows_old_in_what_is_observed() -> None:
    """An agent that begins beside a stuck reader has no earlier count of reads to compare."""
    settings, _ = parse(["sensor"], {})
    stuck_for = timedelta(hours=1)
    one = Sensor(settings, lambda: time.monotonic() + stuck_for.total_seconds())
    position, _ = one.feed.resume(Cursor(), "")
    _, observation = one.feed.since(position)
    assert observation is not None
    assert observation.reads["kmsg"].age >= stuck_for.total_seconds()


def test_a_signal_of_a_time_to_come_is_of_now() -> None:
    """DCGM dates its own; meanwhile the clock may have been set back."""
    one = sensor()
    position, _ = one.feed.resume(Cursor(), "")
    ahead = clock.now() + timedelta(hours=1)
    one.add(msgspec.structs.replace(XID, source="dcgm", at=ahead, kernel_sequence=None))
    reported, _ = one.feed.since(position)
    assert reported is not None
    (one_signal,) = reported.signals
    assert one_signal.at <= clock.now()


@pytest.mark.parametrize("in_between", [False, True])
def test_an_agent_that_comes_before_the_old_log_is_read_counts_nothing_twice(
    in_between: bool,
) -> None:
    """A new sensor reads all of this boot again; its agent may be there first."""
    one = sensor()
    cursor = Cursor(kernel_sequence=9, sensor_run="the one before", signal_sequence=4)
    _, boot_id = one.feed.resume(Cursor(), "")
    position, _ = one.feed.resume(cursor, boot_id)
    one.feed.since(position)
    if in_between:
        one.add(msgspec.structs.replace(XID, source="nvml", kernel_sequence=None))
        reported, _ = one.feed.since(position)
        assert reported is not None
        cursor = Cursor(kernel_sequence=9, sensor_run=position.run, signal_sequence=1)
        position, _ = one.feed.resume(cursor, boot_id)
        one.feed.since(position)

    for sequence in (7, 9, 10):
        one.add(msgspec.structs.replace(XID, code=13, kernel_sequence=sequence))

    reported, _ = one.feed.since(position)
    assert reported is not None
    assert [signal.kernel_sequence for signal in reported.signals] == [10]


def test_an_event_of_now_is_no_word_on_a_line_from_before_the_sensor(node: SimulatedNode) -> None:
    """The sensor before this one had the event of that line, which it paired and which is over."""
    node.inject_xid(0, 94, nvml=False)
    flags = [*node.exporter_flags(), "--nvml-library-dir=/not/there"]
    settings, _ = parse(["sensor", *flags], {})
    one = Sensor(settings)
    one.start()
    try:
        old = _taken(one, 1)[0]
        event = msgspec.structs.replace(old, source="nvml", kernel_sequence=None, gi=3, ci=0)
        one.add(event)
        node.inject_xid(0, 94, nvml=False)
        reported = _taken(one, 3)
    finally:
        one.stop()

    assert [signal.source for signal in reported] == ["kmsg", "nvml", "kmsg"]
    partners = [signal.partner and signal.partner.number for signal in reported]
    assert partners == [None, None, reported[1].number]


def _taken(sensor: Sensor, count: int) -> list[Signal]:
    """Wait until an agent that begins with nothing receives XID 94 so often."""
    position, _ = sensor.feed.resume(Cursor(), "")
    found: list[Signal] = []
    end = time.monotonic() + 60
    while len(found) < count and time.monotonic() < end:
        reported, _ = sensor.feed.since(position)
        found += [signal for signal in reported.signals if signal.code == 94] if reported else []
    return found


def test_what_only_has_the_gpus_looked_at_pushes_no_error_out() -> None:
    one = sensor()
    one.add(XID)
    for _ in range(9000):
        for kind in PASSING:
            one.add(Signal(kind=kind, source="nvml", at=START))
    position, _ = one.feed.resume(Cursor(), "")
    reported, seen = one.feed.since(position)
    assert reported is not None
    assert [(signal.kind, signal.number) for signal in reported.signals] == [("xid", 1)]
    assert seen is not None
    assert seen.signals_dropped == 0


def test_an_agent_that_comes_late_counts_more_than_the_ring_holds() -> None:
    one = sensor()
    for sequence in range(9000):
        one.add(msgspec.structs.replace(XID, kernel_sequence=sequence))
    position, _ = one.feed.resume(Cursor(), "")
    count, seen = 0, None
    while seen is None:
        reported, seen = one.feed.since(position)
        count += sum(signal.times for signal in reported.signals) if reported else 0
    while position.backlog:
        reported, _ = one.feed.since(position)
        count += sum(signal.times for signal in reported.signals) if reported else 0
    assert count == 9000
    assert seen.signals_dropped == 0


def test_a_gpu_off_the_bus_is_reported_by_its_config_space_while_nvml_is_not_there(
    node: SimulatedNode,
) -> None:
    node.lose(0)
    flags = [*node.exporter_flags(), "--nvml-library-dir=/not/there", "--interval=0.2"]
    settings, _ = parse(["sensor", *flags], {})
    one = Sensor(settings)
    one.start()
    try:
        position, _ = one.feed.resume(Cursor(), "")
        reported = _reported_of_the_bus(one, position, gpus=3)
    finally:
        one.stop()

    assert reported == {
        node.gpu(0).pci: "AllOnes",
        node.gpu(1).pci: "Answers",
        node.gpu(2).pci: "Answers",
    }


class Moments:
    """A clock that is set forwards."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


LOAD = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025"


def test_a_load_of_a_driver_that_nvml_goes_on_to_use_is_none(
    node: SimulatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in node.environment().items():
        monkeypatch.setenv(name, value)
    moments = Moments()
    node.kernel_log.write(LOAD)
    settings, _ = parse(["sensor", *node.exporter_flags(), "--interval=0.2"], {})
    one = Sensor(settings, moments)
    one.start()
    try:
        position, _ = one.feed.resume(Cursor(), "")
        loads = [*_loads_until(one, position, up=True)]
        assert len(loads) == 1  # of before the sensor

        moments.ahead += SETTLED - 30
        node.kernel_log.write(LOAD)
        loads += _loads_until(one, position)

        moments.ahead += 60
        node.kernel_log.write(LOAD)
        assert _loads_until(one, position, contradicted=1) == []

        node.unload_driver()
        assert _loads_until(one, position, up=False) == []
        node.kernel_log.write(LOAD)
        loads += _loads_until(one, position)

        node.load_driver()
        assert _loads_until(one, position, up=True) == []
        node.kernel_log.write(LOAD)
        loads += _loads_until(one, position)
    finally:
        one.stop()
    assert [signal.kernel_sequence for signal in loads] == [0, 1, 3, 4]


def _loads_until(
    sensor: Sensor, position: Position, *, up: bool | None = None, contradicted: int | None = None
) -> list[Signal]:
    """Return the reported loads until NVML is up or not, or so many were refused, or one."""
    end, found = time.monotonic() + 60, list[Signal]()
    while time.monotonic() < end:
        signals, seen = sensor.feed.since(position)
        reported = signals.signals if signals else ()
        found += [signal for signal in reported if signal.kind == "driver-load"]
        if up is None and found:
            return found
        if seen is not None and up is not None and (seen.nvml is not None) == up:
            return found
        if seen is not None and seen.rejected.get("contradicted", 0) == contradicted:
            return found
    raise AssertionError("the sensor did not tell it within a minute")


def _reported_of_the_bus(sensor: Sensor, position: Position, *, gpus: int) -> dict[str, str]:
    """Wait until each GPU has an answer."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        _, observation = sensor.feed.since(position)
        if observation is not None and len(observation.pci_config) == gpus:
            return dict(observation.pci_config)
    raise AssertionError("not every GPU was read within a minute")


def test_the_first_reading_has_what_an_agent_names_that_starts_beside_the_sensor(
    node: SimulatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page without it would be ready, and lack most of its series until the second reading."""
    for name, value in node.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(process, "FIRST_AGENT", 60.0)
    settings, _ = parse(["sensor", *node.exporter_flags()], {})
    starting = Sensor(settings)
    starting.start()
    agent = threading.Timer(0.5, starting.want, [(TEMPERATURE,)])
    agent.start()
    try:
        values = _first_values(starting)
    finally:
        agent.join()
        starting.stop()

    assert TEMPERATURE in values


def _first_values(sensor: Sensor) -> Mapping[int, object]:
    """Wait for the first reading of the GPUs, and return the fields of one."""
    position, _ = sensor.feed.resume(Cursor(), "")
    end = time.monotonic() + 60
    while time.monotonic() < end:
        _, seen = sensor.feed.since(position)
        if seen is not None and seen.nvml is not None and seen.nvml.gpus:
            return seen.nvml.gpus[0].values
    raise AssertionError("no reading came")
