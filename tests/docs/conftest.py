"""Where the commands of documents run: a cluster with something in it, and who types them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.nodes import NodePlayer
from tests.chain.conftest import install
from tests.conftest import built
from tests.docs import reader as reading
from tests.docs.reader import Reader
from tests.draguard.fleet import Fleet
from tests.lab.cluster import Cluster


@pytest.fixture(scope="session")
def crds(control_plane: ControlPlane, client: Client) -> None:
    install(control_plane, client)


@pytest.fixture(scope="session")
def helm_built(pytestconfig: pytest.Config) -> Path:
    """The folder with helm; fails when it cannot be built here."""
    return built(pytestconfig, "helm_built")


@pytest.fixture(scope="module")
def fleet(
    crds: None, control_plane: ControlPlane, client: Client, _player: NodePlayer
) -> Iterator[Fleet]:
    """Not for tests that use `cluster`, which empties what this has made."""
    one = Fleet(Cluster(control_plane, client, _player))
    one.clear()
    one.furnish()
    reading.furnish(one)
    yield one
    reading.clear(one)
    one.clear()


@pytest.fixture(scope="module")
def reader(fleet: Fleet, helm_built: Path, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    kubectl = fleet.cluster.plane.kubectl_program
    programs = (Path(sys.executable).parent, helm_built, kubectl.parent)
    return Reader(fleet, programs, tmp_path_factory.mktemp("reader"))
