"""A story that is played once per session, and what draws dashboards, installed beforehand."""

import pytest

from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from tests.chain.conftest import install as install_crds
from tests.conftest import made, printer
from tests.lab.browser.install import Installed
from tests.lab.cluster import Cluster
from tests.lab.pictures_cluster import played
from tests.lab.pictures_story import ONE_HOUR, Story, play


@pytest.fixture(scope="session")
def installed(pytestconfig: pytest.Config) -> Installed:
    """What draws dashboards; fails when it cannot be had here."""
    found = made(pytestconfig, "installed")
    assert isinstance(found, Installed)
    return found


@pytest.fixture(scope="session")
def story(
    control_plane: ControlPlane,
    client: Client,
    request: pytest.FixtureRequest,
    pytestconfig: pytest.Config,
) -> Story:
    """An hour of a cluster: healthy, then a GPU is lost, then a node falls silent."""
    install_crds(control_plane, client)
    cluster = Cluster(control_plane, client, request.getfixturevalue("_player"))
    cluster.clean()
    with played(cluster) as one:
        reported = play(one, ONE_HOUR, printer(pytestconfig))
    cluster.clean()
    return reported
