"""One supervised NVML process over a simulated node, and the states that it went through."""

from typing import TypeVar

import pytest

from exporter.children.child import VendorChild, VendorState
from exporter.nvml.vendor import NvmlVendor
from exporter.readings import NvmlReading
from exporter.setup.settings import Settings
from simulator.node import SimulatedNode

V = TypeVar("V", bound=NvmlVendor)
States = list[VendorState[NvmlReading]]


def supervised(
    node: SimulatedNode, monkeypatch: pytest.MonkeyPatch, kind: type[V], interval: float
) -> tuple[V, VendorChild[NvmlReading], States]:
    """Return a vendor, its child, which is not started yet, and the list its states go to."""
    for name, value in node.environment().items():
        monkeypatch.setenv(name, value)
    settings = Settings(
        node_name="node-a",
        nvml_library_dir=node.library_dir,
        release_file=node.root / "release",
        interval=interval,
    )
    vendor, states = kind(settings, lambda: ()), States()
    child = VendorChild[NvmlReading](vendor, settings, states.append, lambda _: None)
    return vendor, child, states
