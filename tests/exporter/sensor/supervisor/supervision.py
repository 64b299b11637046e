"""One supervised NVML process over a simulated node, and the states that it went through."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from exporter.model.readings import NvmlReading
from exporter.model.signals import Signal
from exporter.sensor.nvml.vendor import NvmlVendor
from exporter.sensor.supervisor.child import VendorChild, VendorState
from exporter.settings import Settings
from simulator.node import SimulatedNode

V = TypeVar("V", bound=NvmlVendor)
State = VendorState[NvmlReading]
States = list[State]


def supervised(
    node: SimulatedNode,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[V],
    interval: float,
    *,
    reported: Callable[[State], None] = lambda _: None,
    on_signal: Callable[[Signal], None] = lambda _: None,
) -> tuple[V, VendorChild[NvmlReading], States]:
    """Return a vendor, its child, which is not started yet, and the list its states go to.

    The supervisor waits for `reported` with each state before it does anything else.
    """
    for name, value in node.environment().items():
        monkeypatch.setenv(name, value)
    settings = Settings(
        node_name="node-a",
        nvml_library_dir=str(node.library_dir),
        release_file=node.root / "release",
        interval=interval,
    )
    vendor, states = kind(settings, lambda: ()), States()

    def on_state(state: State) -> None:
        reported(state)
        states.append(state)

    child = VendorChild[NvmlReading](vendor, settings, on_state, on_signal)
    return vendor, child, states
