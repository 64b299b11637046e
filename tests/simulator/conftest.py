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
        _open(client)
        yield client


@pytest.fixture
def newer(node: SimulatedNode) -> Iterator[NvmlClient]:
    """As `nvml`, on a driver of R595, which has the totals of GPM."""
    with node.scenario.edit() as scenario:
        scenario.driver = "595.45.04"
    with NvmlClient(node) as client:
        _open(client)
        yield client


def _open(client: NvmlClient) -> None:
    client.ask("nvmlInit()")
    client.ask("g = [nvmlDeviceGetHandleByIndex(i) for i in range(nvmlDeviceGetCount())]")
