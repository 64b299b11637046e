"""The end of a release where critical pods need a quota, which Helm deletes before the last Job."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.program import RELEASE
from deploy.sources import CHART
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from tests.deploy.releasing import Helm, ReleaseJobs, store_rule
from tests.deploy.test_chart_life import left
from tests.deploy.test_chart_uninstall import SOON, TAINT, stands
from tests.deploy.test_pods_not_created import as_on_gke

pytestmark = pytest.mark.verify


@pytest.fixture
def gke(control_plane_built: None, tmp_path: Path) -> Iterator[ControlPlane]:
    """An API server that is configured as GKE's is."""
    with as_on_gke(tmp_path) as one:
        yield one


def test_an_uninstallation_on_gke_leaves_no_taint(
    gke: ControlPlane, helm_built: Path, tmp_path: Path
) -> None:
    admin = Client(gke.endpoint(), timeout=60.0)
    helm = Helm(helm_built, gke, tmp_path)
    helm("install", RELEASE, str(CHART), *SOON, "--set", "stack=gke")
    store_rule(admin, TAINT)

    with ReleaseJobs(gke, admin, tmp_path) as jobs:
        helm("uninstall", RELEASE)

    assert len(jobs.output) == 2, "before and after the release"
    assert not stands(admin)
    assert left(admin) == []
    admin.close()
