"""A simulated node for each test that asks for one."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from simulator.node import SimulatedNode


@pytest.fixture
def node() -> Iterator[SimulatedNode]:
    """Three H100, the last one in seven static MIG slices."""
    # Short paths: a unix socket's has 107 bytes at most.
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("3xH100", mig={2: ["1g.10gb"] * 7}) as node,
    ):
        yield node
