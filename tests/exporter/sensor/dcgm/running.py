"""The real DCGM child under its real supervisor, on a simulated node; and bounded waiting."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import pytest

from exporter.model.readings import DcgmEntity, DcgmReading, Values
from exporter.model.signals import Signal
from exporter.sensor.dcgm.vendor import DcgmVendor
from exporter.sensor.supervisor.child import VendorChild, VendorState
from exporter.settings import Settings
from simulator.dcgm_engine import SimulatedDcgm
from simulator.node import SimulatedNode
from tests.exporter.running import PATIENCE, free_port

INTERVAL = 0.2
TEMPERATURE, XID = 150, 230
REQUESTED = (TEMPERATURE, 155, 252)


class Supervised:
    """States and signals of one DCGM, received in the order in which they came."""

    def __init__(
        self, dcgm: SimulatedDcgm, address: str = "embedded", *requested: int, **fields: Any
    ) -> None:
        self.requested = requested or REQUESTED
        usual: dict[str, Any] = {
            "node_name": "node-a",
            "nvml_library_dir": str(dcgm.node.library_dir),
            "dcgm_library_dir": dcgm.node.library_dir,
            "release_file": dcgm.node.root / "release",
            "dcgm": address,
            "interval": INTERVAL,
        }
        self.settings = Settings(**(usual | fields))
        self.states: list[VendorState[DcgmReading]] = []
        self.signals: list[Signal] = []
        self._reported = 0
        """How many states there were up to the one that was returned last."""
        self._changed = threading.Condition()
        vendor = DcgmVendor(self.settings, lambda: self.requested)
        self._child = VendorChild(vendor, self.settings, self._state, self._signal)

    def __enter__(self) -> Self:
        self._child.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.stop()

    def wait(self, good: Callable[[VendorState[DcgmReading]], object]) -> VendorState[DcgmReading]:
        """Return the first state from now on that is as requested."""
        with self._changed:
            return self._first(good, len(self.states))

    def reading(self, good: Callable[[DcgmReading], object] = lambda _: True) -> DcgmReading:
        """Return the first reading from now on that is as requested."""
        state = self.wait(
            lambda candidate: candidate.reading is not None and good(candidate.reading)
        )
        assert state.reading is not None
        return state.reading

    def since(self, good: Callable[[VendorState[DcgmReading]], object]) -> VendorState[DcgmReading]:
        """Return the first state that is as requested since the one that was returned last.

        Not from now on: what a test has just done may be known, and over, by the time it asks.
        """
        with self._changed:
            return self._first(good, self._reported)

    def down(self, reason: str) -> VendorState[DcgmReading]:
        """Return the first such state since the one that was returned last."""
        return self.since(lambda state: not state.source.up and state.source.reason == reason)

    def _first(
        self, good: Callable[[VendorState[DcgmReading]], object], at: int
    ) -> VendorState[DcgmReading]:
        def found() -> int | None:
            return next((n for n in range(at, len(self.states)) if good(self.states[n])), None)

        self._changed.wait_for(lambda: found() is not None, PATIENCE)
        place = found()
        assert place is not None, f"not in {PATIENCE} s; the last was {self.states[-1:]}"
        self._reported = place + 1
        return self.states[place]

    def received(self, count: int) -> list[Signal]:
        """Wait for so many signals in all."""
        with self._changed:
            good = self._changed.wait_for(lambda: len(self.signals) >= count, PATIENCE)
            assert good, f"{len(self.signals)} signals in {PATIENCE} s: {self.signals}"
            return list(self.signals)

    def _state(self, state: VendorState[DcgmReading]) -> None:
        with self._changed:
            self.states.append(state)
            self._changed.notify_all()

    def _signal(self, signal: Signal) -> None:
        with self._changed:
            self.signals.append(signal)
            self._changed.notify_all()


def entity(
    reading: DcgmReading, uuid: str, gi: int | None = None, ci: int | None = None
) -> DcgmEntity:
    """Return what a reading has of an entity; with no values when it has nothing."""
    found = [
        candidate
        for candidate in reading.entities
        if (candidate.uuid, candidate.gi, candidate.ci) == (uuid, gi, ci)
    ]
    assert len(found) <= 1
    return found[0] if found else DcgmEntity(uuid=uuid, gi=gi, ci=ci)


def values(reading: DcgmReading, uuid: str, gi: int | None = None, ci: int | None = None) -> Values:
    return entity(reading, uuid, gi, ci).values


def simulated(node: SimulatedNode, monkeypatch: pytest.MonkeyPatch) -> SimulatedDcgm:
    """Give a node a DCGM that children of this process find by their settings alone."""
    made = SimulatedDcgm(node)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("LD_LIBRARY_PATH")
    return made


def let_go(seen: Supervised, names: str) -> None:
    """Write the release file at once: one that is empty for a moment names all GPUs."""
    file = seen.settings.release_file
    whole = file.with_name("release-to-be")
    whole.write_text(names, encoding="utf-8")
    whole.replace(file)


def listening(dcgm: SimulatedDcgm) -> str:
    """Start a host engine and return its address."""
    address = f"127.0.0.1:{free_port()}"
    dcgm.listen(address)
    return address


def uuid(dcgm: SimulatedDcgm, gpu: int) -> str:
    return dcgm.node.gpu(gpu).uuid
