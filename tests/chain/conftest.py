"""A scene for each test: an empty real cluster with the CRDs, and the remediator to start."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kubeapi.client import ApiError, Client, Conflict
from simulator.cluster.controlplane import ControlPlane
from tests.chain.scene import INCIDENTS, LEASES, REPORTS, Scene
from tests.lab.cluster import Cluster, await_true

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
STEADY = 25
"""Good answers in a row after which a definition is taken to be in force: half a second."""


@pytest.fixture(scope="session")
def crds(control_plane: ControlPlane, client: Client) -> None:
    """Install what the chart installs, with the real kubectl."""
    install(control_plane, client)


def install(control_plane: ControlPlane, client: Client) -> None:
    """Make the objects known to an API server, and return when it serves them."""
    control_plane.kubectl("apply", "-f", str(CRDS))
    control_plane.await_established()
    await_true("both are served", steadily(lambda: served(client, REPORTS, INCIDENTS)))
    with suppress(Conflict):
        client.create("/api/v1/namespaces", {"metadata": {"name": LEASES}})


def steadily(look: Callable[[], bool]) -> Callable[[], bool]:
    """Ask for STEADY good looks in a row: what was changed is in force a moment later."""
    in_a_row = [0]

    def good() -> bool:
        in_a_row[0] = in_a_row[0] + 1 if look() else 0
        return in_a_row[0] >= STEADY

    return good


def served(client: Client, *paths: str) -> bool:
    """A new CRD, and a changed one, answers 429 for a moment, while its storage is made."""
    try:
        for path in paths:
            client.get(path)
    except ApiError:
        return False
    return True


@pytest.fixture
def scene(crds: None, cluster: Cluster, tmp_path: Path) -> Iterator[Scene]:
    one = Scene(cluster, tmp_path)
    yield one
    one.close()
    for log in sorted(tmp_path.glob("remediator-*.log")):
        sys.stdout.write(log.read_text(encoding="utf-8"))  # shown when the test failed
