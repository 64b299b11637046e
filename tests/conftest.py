"""The real servers that all tests of a session share, and a clean cluster for each test.

When one cannot be had the tests that need it fail; none is skipped.
"""

import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.capture import CaptureManager
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from xdist.remote import Producer
from xdist.workermanage import WorkerController

from kubeapi.client import Client
from simulator.cluster import build
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.nodes import NodePlayer
from simulator.cluster.toolchain import Say
from simulator.compiler import BuildError
from tests.lab import builds, leftovers
from tests.lab.cluster import Cluster, install_classes
from tests.lab.examples import SEARCH
from tests.lab.lanes import Lanes
from tests.lab.served_program import version

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""How long an example takes is the machine's affair; figures are for benchmarks."""
settings.register_profile(SEARCH, settings.get_profile("untimed"), max_examples=500)
"""New examples, and many times as many."""
settings.register_profile(
    "tests", settings.get_profile("untimed"), derandomize=True, database=None, max_examples=60
)
settings.load_profile("tests")
"""The same examples each time: what is red today was made so by a change, and not by the dice."""
NOT_OURS = (
    *("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "NODE_NAME"),
    *("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"),
    *("PAGER", "LESS", "PYTHONWARNINGS", "PYTHONOPTIMIZE"),
)
"""What somebody's shell may say, and the programs under test would hear."""
LOOPBACK = "127.0.0.1,localhost,::1"
"""Where all servers of the tests are; downloads may need a proxy all the same."""
WORKERS_PER_CORE, MOST_WORKERS = 3, 12
REAL_COMPONENTS = pytest.StashKey[list[str]]()
WORKER_COMPONENTS = "real_components"
BUILT = pytest.StashKey[dict[str, object]]()


class Release(NamedTuple):
    """What is built, and what turns DeviceTaintRules on there."""

    built: build.Release
    apiserver_flags: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()


RELEASES = {
    "1.37": Release(build.RELEASE),
    "1.36": Release(
        build.RELEASE_1_36,
        ("--runtime-config=resource.k8s.io/v1beta2=true",),
        ("DRADeviceTaintRules=true",),
    ),
}
"""By `--kubernetes`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubernetes",
        choices=sorted(RELEASES),
        default="1.37",
        help="release of the shared control plane",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[REAL_COMPONENTS] = []
    settings_of_exporters = [name for name in os.environ if name.startswith(("DCGM_", "DRAGUARD_"))]
    for name in (*NOT_OURS, *settings_of_exporters):
        os.environ.pop(name, None)
    # The servers are Go's: with fewer collections a control plane costs a quarter less CPU.
    os.environ["GOGC"] = "400"
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, (os.environ.get(name), LOOPBACK)))
    if not config.getoption("--hypothesis-profile", None):
        _draw_from_no_module()


def _draw_from_no_module() -> None:
    """Let examples be the same whatever was loaded: Hypothesis draws constants of our modules too.

    Which of them are loaded is a matter of what ran before on the same worker.
    """
    nothing = Constants()
    known = providers._get_local_constants  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no setting turns it off
    setattr(providers, known.__name__, lambda: nothing)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build servers before the first test, whose time limit is too short for it."""
    if session.config.option.collectonly:
        return
    requested = {name for item in session.items for name in _requested(item)}
    release = RELEASES[str(session.config.getoption("--kubernetes"))]
    known = {
        **builds.NODE,
        **builds.VERIFY,
        "control_plane_built": partial(builds.kubernetes, release=release.built),
    }
    needed = {name: make for name, make in known.items() if name in requested}
    session.config.stash[BUILT] = dict(builds.make(needed, printer(session.config)))


def _requested(item: pytest.Item) -> set[str]:
    """Return the fixtures that a test uses; a parameter may name one, too."""
    requested: set[str] = set(getattr(item, "fixturenames", ()))
    called = getattr(item, "callspec", None)
    return (
        requested | {value for value in called.params.values() if isinstance(value, str)}
        if called
        else requested
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """More workers than cores: most of them wait."""
    return min(WORKERS_PER_CORE * (os.cpu_count() or 1), MOST_WORKERS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes | None:
    return Lanes(config, log) if config.getoption("dist") == "loadfile" else None


def built(config: pytest.Config, name: str) -> Path:
    """Return the folder of what was built for a fixture; raises BuildError when it was not."""
    result = made(config, name)
    assert isinstance(result, Path)
    return result


def made(config: pytest.Config, name: str) -> object:
    """Return what was made for a fixture; raises BuildError when it could not be."""
    result = config.stash[BUILT][name]
    if isinstance(result, BuildError):
        raise result
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output[WORKER_COMPONENTS] = session.config.stash[REAL_COMPONENTS]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """Take over what a worker of a parallel run used; one that crashed has left nothing."""
    used: list[str] = getattr(node, "workeroutput", {}).get(WORKER_COMPONENTS, [])
    node.config.stash[REAL_COMPONENTS].extend(used)


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    for line in sorted(set(config.stash[REAL_COMPONENTS])):
        terminalreporter.write_line(f"real components used: {line}")


def printer(config: pytest.Config) -> Say:
    """Return a function that prints a line past pytest's capture, for what takes minutes."""
    capture = config.pluginmanager.getplugin("capturemanager")

    def line(text: str) -> None:
        if isinstance(capture, CaptureManager):
            with capture.global_and_fixture_disabled():
                # The standard error of a worker is the terminal's; its standard output is not.
                build.to_stderr(text)

    return line


@pytest.fixture(scope="module", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """A file leaves its process as it found it, for those that run there after it."""
    before, others = leftovers.state(), set(threading.enumerate())
    yield
    changes = leftovers.changes(before)
    if running := leftovers.threads(others, leftovers.PATIENCE):
        changes.append(f"threads that do not end: {', '.join(running)}")
    assert not changes, "; ".join(changes)


@pytest.fixture(scope="session")
def real_components(pytestconfig: pytest.Config) -> list[str]:
    """Append what real thing was used, with its version; printed at the end of the session."""
    return pytestconfig.stash[REAL_COMPONENTS]


@pytest.fixture(scope="session")
def control_plane_built(pytestconfig: pytest.Config) -> None:
    """For tests that start a control plane of their own: fails when none can be built here."""
    built(pytestconfig, "control_plane_built")


@pytest.fixture(scope="session")
def prometheus_built(pytestconfig: pytest.Config, real_components: list[str]) -> Path:
    """The folder with prometheus and promtool; fails when they cannot be built here."""
    folder = built(pytestconfig, "prometheus_built")
    real_components.append(version(folder / "prometheus"))
    return folder


@pytest.fixture(scope="session")
def prometheus_2_42_built(pytestconfig: pytest.Config, real_components: list[str]) -> Path:
    """The folder with prometheus and promtool 2.42; fails when they cannot be built here."""
    folder = built(pytestconfig, "prometheus_2_42_built")
    real_components.append(version(folder / "prometheus"))
    return folder


@pytest.fixture(scope="session")
def alertmanager_built(pytestconfig: pytest.Config, real_components: list[str]) -> Path:
    """The folder with alertmanager and amtool; fails when they cannot be built here."""
    folder = built(pytestconfig, "alertmanager_built")
    real_components.append(version(folder / "alertmanager"))
    return folder


@pytest.fixture(scope="session")
def amtool_0_25_built(pytestconfig: pytest.Config, real_components: list[str]) -> Path:
    """The folder with the oldest amtool; fails when it cannot be built here."""
    folder = built(pytestconfig, "amtool_0_25_built")
    real_components.append(version(folder / "amtool"))
    return folder


@pytest.fixture(scope="session")
def control_plane(
    control_plane_built: None, pytestconfig: pytest.Config, real_components: list[str]
) -> Iterator[ControlPlane]:
    """The session's shared control plane. Tests that stop or freeze parts start their own."""
    release = RELEASES[str(pytestconfig.getoption("--kubernetes"))]
    with ControlPlane(
        say=printer(pytestconfig),
        release=release.built,
        apiserver_flags=release.apiserver_flags,
        gates=release.gates,
    ) as plane:
        real_components.append(plane.versions())
        yield plane


@pytest.fixture(scope="session")
def client(control_plane: ControlPlane) -> Iterator[Client]:
    """The cluster's admin, who is patient: a busy machine answers late."""
    admin = Client(control_plane.endpoint(), timeout=60.0)
    yield admin
    admin.close()


@pytest.fixture(scope="session")
def _player(client: Client) -> Iterator[NodePlayer]:
    install_classes(client)
    player = NodePlayer(client)
    with leftovers.kept():
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
