"""Pods that the real API server refuses, as the doctor reads it in its controller's own Events."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from draguard.doctor.check import Check
from draguard.doctor.pods import pods
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.nodes import NodePlayer
from tests.deploy import rendered
from tests.deploy.installed import NAMESPACE, add_controllers
from tests.deploy.releasing import Helm
from tests.lab.cluster import await_true

pytestmark = pytest.mark.verify


@pytest.fixture(scope="module")
def plane(control_plane_built: None) -> Iterator[ControlPlane]:
    """One of its own, with the controller of DaemonSets."""
    with ControlPlane(apiserver_flags=("--allow-privileged=true",)) as one:
        add_controllers(one)
        one.kubectl("create", "namespace", NAMESPACE)
        yield one


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Iterator[Client]:
    client = Client(plane.endpoint(), timeout=60.0)
    player = NodePlayer(client)
    player.start()
    player.add_node("node-a", {"nvidia.com/gpu.present": "true"})
    yield client
    player.stop()
    client.close()


@pytest.fixture
def installed(admin: Client, plane: ControlPlane, helm_built: Path, tmp_path: Path) -> Helm:
    helm = Helm(helm_built, plane, tmp_path)
    helm("upgrade", "--install", "draguard", str(rendered.CHART), "--set=metricsOnly=true")
    return helm


def own(admin: Client) -> list[Check]:
    return [check for check in pods(admin, NAMESPACE) if check.about == "own pods"]


def test_a_missing_runtime_class_is_named_until_the_cluster_has_it(
    installed: Helm, admin: Client, plane: ControlPlane
) -> None:
    (found,) = await_true("the refusal is seen", lambda: own(admin))

    assert 'RuntimeClass "nvidia" not found' in found.says
    assert "docs/install.md, What your nodes have" in found.remedy
    runtime = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
    admin.create("/apis/node.k8s.io/v1/runtimeclasses", runtime)
    await_true("it is over", lambda: not own(admin), timeout=120)


def test_a_namespace_that_enforces_pod_security_is_named_with_its_label(
    installed: Helm, admin: Client, plane: ControlPlane
) -> None:
    label = "pod-security.kubernetes.io/enforce"
    plane.kubectl("label", "namespace", NAMESPACE, f"{label}=baseline")
    plane.kubectl("delete", "pods", "--all", "--namespace", NAMESPACE, "--wait=false")

    (found,) = await_true("the refusal is seen", lambda: own(admin), timeout=120)

    assert 'violates PodSecurity "baseline:latest"' in found.says
    assert found.remedy == f"kubectl label namespace {NAMESPACE} {label}=privileged"
    plane.kubectl("label", "namespace", NAMESPACE, f"{label}=privileged", "--overwrite")
    await_true("it is over", lambda: not own(admin), timeout=120)
