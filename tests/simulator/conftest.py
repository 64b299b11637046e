"""A fresh simulated node per test: 8 H100, the first cut into seven slices."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.node import SimulatedNode
from tests.simulator.nvml_client import NvmlClient


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SimulatedNode]:
    with SimulatedNode(tmp_path / "n", "node-1").create(mig={0: ["1g.10gb"] * 7}) as node:
        yield node


@pytest.fixture
def nvml(node: SimulatedNode) -> Iterator[NvmlClient]:
    """A process with NVML initialised; `g[k]` is the handle of GPU k."""
    with NvmlClient(node) as client:
        client.ask("nvmlInit()")
        client.ask("g = [nvmlDeviceGetHandleByIndex(i) for i in range(nvmlDeviceGetCount())]")
        yield client
