"""One real node for all tests of this folder, and Draguard on it as the chart installs it.

A test takes devices of its own and removes its pods; what it breaks of the node it mends.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.cluster.toolchain import Say
from simulator.cluster.workloads import DRIVER, GPU_CLASS
from tests.conftest import built, made, printer
from tests.lab import leftovers
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release
from tests.node.workload import Workload

GPUS = 24
SLICED = 7
"""The GPU that is in seven slices; the others are whole."""
SOURCES = ("nvml", "kmsg", "podresources", "resourceslices", "claims", "report")
"""All that an exporter needs of a node and of the API server."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/node/" in item.nodeid:
            item.add_marker(pytest.mark.node)


@pytest.fixture(scope="session")
def real_node_built(pytestconfig: pytest.Config) -> None:
    """Programs and images; fails where they cannot be built here."""
    made(pytestconfig, "real_node_built")


@pytest.fixture(scope="session")
def node(
    control_plane_built: None,
    real_node_built: None,
    pytestconfig: pytest.Config,
    real_components: list[str],
) -> Iterator[RealNode]:
    """Many GPUs, one of them in slices; fails where a real node cannot run."""
    say = printer(pytestconfig)
    slices = {SLICED: ["1g.10gb"] * 7}
    with leftovers.kept(), RealNode(f"{GPUS}xH100", mig=slices, say=say) as real:
        real_components.append(real.plane.versions())
        real_components.append(f"a node of them: {real.versions()}")
        yield real
        if os.environ.get("KEEP"):
            _keep(real, say)


def _keep(real: RealNode, say: Say) -> None:
    """Say how to reach the node, and wait for Ctrl-C."""
    at = real.plane.layout
    say("the node is left up until Ctrl-C")
    say(f"{real.plane.kubectl_program} --kubeconfig {at.kubeconfig}")
    say(f"nsenter --target {real.plane.first_process} --mount --net --uts --ipc --pid")
    say(f"logs: {real.plane.logs}; GPUs, for `python -m simulator`: {real.gpus.simulated}")
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(1)


@pytest.fixture(scope="session")
def helm_built(pytestconfig: pytest.Config) -> Path:
    return built(pytestconfig, "helm_built")


@pytest.fixture(scope="module")
def release(node: RealNode, helm_built: Path) -> Release:
    """Draguard with the driver root mounted, one replica, and a policy that enforces."""
    release = Release(node)
    release.install()
    release.await_ready()
    release.await_shows(*(f'draguard_source_up{{source="{name}"}} 1' for name in SOURCES))
    return release


@pytest.fixture(scope="session")
def fresh(node: RealNode) -> Iterator[int]:
    """Whole GPUs that no test has had before: what one test breaks is no other's affair."""
    return iter([number for number in range(GPUS) if number != SLICED])


@pytest.fixture
def pods(node: RealNode, fresh: Iterator[int]) -> Iterator["Pods"]:
    """Start pods with devices; they are gone after the test."""
    pods = Pods(node, fresh)
    yield pods
    pods.remove()


class Pods:
    """The pods of one test."""

    def __init__(self, node: RealNode, fresh: Iterator[int]) -> None:
        self._node = node
        self._fresh = fresh
        self._started: list[Workload] = []

    def __call__(self, name: str, *requests: dict[str, object], extended: int = 0) -> Workload:
        started = Workload(self._node, name, *requests, extended=extended)
        self._started.append(started)
        return started

    def on_gpu(self, name: str) -> Workload:
        """Start a pod on a whole GPU that no test has had before."""
        gpus = (self._node.gpus.gpu(number) for number in self._fresh)
        # A pod that did not choose its GPU may have had one of these.
        return self(name, gpu_of(next(gpu.uuid for gpu in gpus if gpu.failure.kind != "lost")))

    def remove(self) -> None:
        for workload in self._started:
            workload.remove()


def gpu_of(uuid: str) -> dict[str, object]:
    """Ask for one GPU by its UUID."""
    expression = f"device.attributes['{DRIVER}'].uuid == '{uuid}'"
    requested = {"deviceClassName": GPU_CLASS, "selectors": [{"cel": {"expression": expression}}]}
    return {"name": "gpu", "exactly": requested}
