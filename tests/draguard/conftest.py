"""The small fleet that the command line looks at, made once for the tests of one file."""

from collections.abc import Iterator

import pytest

from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.nodes import NodePlayer
from tests.chain.conftest import install
from tests.draguard.fleet import Fleet
from tests.lab.cluster import Cluster


@pytest.fixture(scope="session")
def crds(control_plane: ControlPlane, client: Client) -> None:
    install(control_plane, client)


@pytest.fixture(scope="module")
def fleet(
    crds: None, control_plane: ControlPlane, client: Client, _player: NodePlayer
) -> Iterator[Fleet]:
    """Not for tests that use `cluster`, which empties what this has made."""
    one = Fleet(Cluster(control_plane, client, _player))
    one.clear()
    try:
        one.furnish()
        yield one
    finally:
        one.clear()
