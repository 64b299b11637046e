"""The chart as the real helm renders it, and a control plane on which releases live and end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.program import NAMESPACE
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from tests.conftest import built
from tests.deploy import rendered
from tests.deploy.releasing import Helm
from tests.lab import operators


@pytest.fixture(scope="session")
def helm_built(pytestconfig: pytest.Config) -> Path:
    """The folder with helm; fails when it cannot be built here."""
    return built(pytestconfig, "helm_built")


@pytest.fixture(scope="session")
def policies(helm_built: Path) -> str:
    """The admission policies alone, as YAML."""
    return rendered.text((), "--show-only=templates/admission.yaml")


@pytest.fixture(scope="session")
def plane(control_plane_built: None) -> Iterator[ControlPlane]:
    """One of its own: what a release takes along at its end, other tests need."""
    with ControlPlane(apiserver_flags=("--allow-privileged=true",)) as one:
        one.kubectl("create", "namespace", NAMESPACE)
        yield one


@pytest.fixture(scope="session")
def operators_known(plane: ControlPlane, real_components: list[str]) -> ControlPlane:
    """That control plane with the kinds of the operators that the chart writes for."""
    operators.install(plane)
    plane.kubectl("create", "namespace", "monitoring")
    real_components.append(operators.versions())
    return plane


@pytest.fixture(scope="session")
def admin(plane: ControlPlane) -> Iterator[Client]:
    one = Client(plane.endpoint(), timeout=60.0)
    yield one
    one.close()


@pytest.fixture
def helm(helm_built: Path, plane: ControlPlane, tmp_path: Path) -> Helm:
    return Helm(helm_built, plane, tmp_path)
