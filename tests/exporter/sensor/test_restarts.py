"""Sensors and agents that restart between errors, in drawn orders: every error counts once."""

from collections import Counter
from random import Random

import msgspec
import pytest

from exporter.agent.report import ledger
from exporter.flags.parser import parse
from exporter.model.node_health import Cursor, NodeHealth
from exporter.model.signals import Signal
from exporter.sensor.feed import Position
from exporter.sensor.process import Sensor
from tests.exporter.worlds import BUS, START, at, mig_gpu, seen

STEPS = 60
PAUSES = (0.05, 0.5, 1.0, 3.0, 8.0, 200.0)
"""Seconds between two errors: within the window of the sensor's dedup and far beyond."""
Counts = Counter[tuple[int, int | None]]
"""By code and GPU instance."""


class Node:
    """One MIG GPU with its kernel log, the sensor and the agent of now, and the stored report."""

    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self._seconds = 0.0
        self._log: list[Signal] = []
        self.happened: Counts = Counter()
        self._sensor = _sensor()
        _, boot_id = self._sensor.feed.resume(Cursor(), "")
        self.report = ledger.observe(ledger.begin(boot_id, "1", START), seen(mig_gpu()))
        self.stored = self.report
        self._position = self._connected()

    def err(self) -> None:
        """Let two or three sources tell of one error, in any order; the log names no instance."""
        self._seconds += self._draw.choice(PAUSES)
        code, gi = self._draw.choice((48, 94)), self._draw.choice((3, 5))
        self.happened[code, gi] += 1
        line = Signal(
            kind="xid",
            source="kmsg",
            at=at(self._seconds),
            code=code,
            bus_id=BUS["GPU-1"],
            kernel_sequence=16 * (len(self._log) + 1),
        )
        self._log.append(line)
        words = [line, self._event("nvml", code, gi)]
        if self._draw.random() < 0.4:
            words.append(self._event("dcgm", code, gi))
        self._draw.shuffle(words)
        for word in words:
            self._sensor.add(word)
            if self._draw.random() < 0.3:
                self.hear()
            if self._draw.random() < 0.1:
                self.restart_agent()

    def hear(self) -> None:
        """Have the agent take everything."""
        position = self._position
        # The first state comes after all signals.
        position.state = -1
        reported, seen_by_it = self._sensor.feed.since(position)
        while reported is not None or seen_by_it is None:
            if reported is not None:
                self.report = ledger.take(
                    self.report,
                    reported.signals,
                    run=position.run,
                    kernel_sequence=reported.kernel_sequence,
                )
            position.state = -1
            reported, seen_by_it = self._sensor.feed.since(position)

    def store(self) -> None:
        self.stored = self.report

    def restart_agent(self) -> None:
        self.report = self.stored
        self._position = self._connected()

    def restart_sensor(self) -> None:
        """Nothing is on its way: what NVML alone reported to an agent that forgets it is lost."""
        self.hear()
        self.store()
        self._seconds += self._draw.choice((1.0, 2.0, 6.0))
        self._sensor = _sensor()
        early = self._draw.random() < 0.5
        if early:
            self.restart_agent()
        for line in self._log:
            self._sensor.add(msgspec.structs.replace(line, past=True))
        if not early:
            self.restart_agent()

    def counted(self) -> Counts:
        self.hear()
        return _counts(self.report)

    def _connected(self) -> Position:
        return self._sensor.feed.resume(self.report.cursor, self.report.boot_id)[0]

    def _event(self, source: str, code: int, gi: int) -> Signal:
        return Signal(
            kind="xid",
            source="nvml" if source == "nvml" else "dcgm",
            at=at(self._seconds + 0.01),
            code=code,
            uuid="GPU-1",
            bus_id=BUS["GPU-1"],
            gi=gi,
            ci=0,
        )


def _sensor() -> Sensor:
    settings, _ = parse(["sensor"], {})
    return Sensor(settings)


def _counts(report: NodeHealth) -> Counts:
    found: Counts = Counter()
    for gpu in report.gpus:
        for record in gpu.xids:
            found[record.code, record.gi] += record.count
    return found


@pytest.mark.parametrize("seed", range(12))
def test_however_sensor_and_agent_restart_every_error_counts_once_on_its_slice(seed: int) -> None:
    draw = Random(seed)  # noqa: S311 - it must come again
    node = Node(draw)
    steps = [node.err, node.err, node.err, node.err, node.hear, node.store, node.restart_agent]
    for number in range(STEPS):
        draw.choice(steps)()
        if number % 12 == 11:
            node.restart_sensor()
    assert node.counted() == node.happened
