"""CRDs that somebody else installs: without them, or with older ones, Helm refuses and says why."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.program import NAMESPACE
from deploy.sources import CHART, ROOT
from simulator.cluster.controlplane import ControlPlane
from tests.deploy.releasing import Helm

pytestmark = pytest.mark.verify
CRDS = ROOT / "deploy" / "crds"
INSTALL = ("install", "draguard", str(CHART), "--dry-run=server", "--set=crds.install=false")


@pytest.fixture(scope="module")
def bare(control_plane_built: None) -> Iterator[ControlPlane]:
    """A cluster that never had Draguard."""
    with ControlPlane(apiserver_flags=("--allow-privileged=true",)) as one:
        one.kubectl("create", "namespace", NAMESPACE)
        yield one


@pytest.fixture
def helm_there(helm_built: Path, bare: ControlPlane, tmp_path: Path) -> Helm:
    return Helm(helm_built, bare, tmp_path)


def test_a_cluster_without_or_with_older_crds_is_refused_with_what_to_do(
    helm_there: Helm, bare: ControlPlane
) -> None:
    """One story, because a CRD is deleted slowly: none, older ones, those of this version."""
    with pytest.raises(AssertionError, match=r"has no CRD .*draguard.dev: apply deploy/manifests"):
        helm_there(*INSTALL)

    for file in CRDS.glob("*.yaml"):
        crd: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
        if crd["spec"]["names"]["kind"] == "NodeDeviceHealth":
            schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            del schema["properties"]["status"]["properties"]["driverSince"]
        bare.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(crd))
    with pytest.raises(AssertionError, match=r"is older than this chart: it lacks .*driverSince"):
        helm_there(*INSTALL)

    crd = yaml.safe_load((CRDS / "nodedevicehealths.yaml").read_text(encoding="utf-8"))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    status = schema["properties"]["status"]["properties"]
    del status["inventory"]["properties"]["unidentified"]
    gpu = status["gpus"]["items"]["properties"]
    del gpu["recoveryAction"]["properties"]["unreadSinceTime"]
    bare.kubectl(
        *("apply", "--server-side", "--force-conflicts", "-f", "-"), stdin=yaml.safe_dump(crd)
    )
    lacking = "it lacks status.gpus.recoveryAction.unreadSinceTime, status.inventory.unidentified,"
    with pytest.raises(AssertionError, match=lacking):
        helm_there(*INSTALL)

    bare.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    assert "NOTES" in helm_there(*INSTALL)


def test_crds_that_belong_to_no_release_are_adopted_by_a_flag_or_left_alone(
    helm_there: Helm, bare: ControlPlane
) -> None:
    manifest = ROOT / "deploy" / "manifests" / "crds.yaml"
    bare.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(manifest))
    *install, alone = INSTALL

    with pytest.raises(AssertionError, match="invalid ownership metadata"):
        helm_there(*install)
    assert "NOTES" in helm_there(*install, "--take-ownership")
    assert "NOTES" in helm_there(*install, alone)


def test_metrics_alone_need_none(helm_there: Helm) -> None:
    assert "NOTES" in helm_there(*INSTALL, "--set=metricsOnly=true")
