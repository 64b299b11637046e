"""The real control plane that all tests of a session share, and a clean cluster for each test.

When it cannot be had the tests that need it fail; none is skipped.
"""

from collections.abc import Iterator

import pytest
from _pytest.capture import CaptureManager
from _pytest.terminal import TerminalReporter

from kubeapi.client import Client
from simulator.cluster.build import build
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.nodes import NodePlayer
from simulator.cluster.toolchain import BuildError, Say
from tests.lab.cluster import Cluster, install_classes

REAL_COMPONENTS = pytest.StashKey[list[str]]()
BUILD_FAILURE = pytest.StashKey[BuildError]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[REAL_COMPONENTS] = []


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the control plane before the first test, whose time limit is too short for it."""
    needed = any("control_plane_built" in getattr(one, "fixturenames", ()) for one in session.items)
    if needed and not session.config.option.collectonly:
        try:
            build(printer(session.config))
        except BuildError as error:
            session.config.stash[BUILD_FAILURE] = error


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash[REAL_COMPONENTS]:
        terminalreporter.write_line(f"real components used: {line}")


def printer(config: pytest.Config) -> Say:
    """Return a function that prints a line past pytest's capture, for what takes minutes."""
    capture = config.pluginmanager.getplugin("capturemanager")
    reporter = config.pluginmanager.getplugin("terminalreporter")

    def line(text: str) -> None:
        if isinstance(capture, CaptureManager) and isinstance(reporter, TerminalReporter):
            with capture.global_and_fixture_disabled():
                reporter.write_line(text)

    return line


@pytest.fixture(scope="session")
def real_components(pytestconfig: pytest.Config) -> list[str]:
    """Append what real thing was used, with its version; printed at the end of the session."""
    return pytestconfig.stash[REAL_COMPONENTS]


@pytest.fixture(scope="session")
def control_plane_built(pytestconfig: pytest.Config) -> None:
    """For tests that start a control plane of their own: fails when none can be built here."""
    failure = pytestconfig.stash.get(BUILD_FAILURE, None)
    if failure is not None:
        raise failure


@pytest.fixture(scope="session")
def control_plane(
    control_plane_built: None, pytestconfig: pytest.Config, real_components: list[str]
) -> Iterator[ControlPlane]:
    """The session's shared control plane. Tests that stop or freeze parts start their own."""
    with ControlPlane(say=printer(pytestconfig)) as plane:
        real_components.append(plane.versions())
        yield plane


@pytest.fixture(scope="session")
def client(control_plane: ControlPlane) -> Iterator[Client]:
    """The cluster's admin."""
    admin = Client(control_plane.endpoint())
    yield admin
    admin.close()


@pytest.fixture(scope="session")
def _player(client: Client) -> Iterator[NodePlayer]:
    install_classes(client)
    player = NodePlayer(client)
    player.start()
    yield player
    player.stop()


@pytest.fixture
def cluster(control_plane: ControlPlane, client: Client, _player: NodePlayer) -> Iterator[Cluster]:
    """The shared cluster without nodes, slices, claims, pods, rules; cleaned again afterwards."""
    fresh = Cluster(control_plane, client, _player)
    fresh.clean()
    yield fresh
    fresh.clean()


@pytest.fixture
def node_player(cluster: Cluster) -> NodePlayer:
    """Plays the kubelets of nodes that the test adds."""
    return cluster.player
