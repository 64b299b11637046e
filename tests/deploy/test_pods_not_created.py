"""Pods that the real API server refuses, as the doctor reads it in its controller's own Events."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
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


CRITICAL = """
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
  - name: ResourceQuota
    configuration:
      apiVersion: apiserver.config.k8s.io/v1
      kind: ResourceQuotaConfiguration
      limitedResources:
        - resource: pods
          matchScopes:
            - scopeName: PriorityClass
              operator: In
              values: [system-node-critical, system-cluster-critical]
"""
"""What GKE configures: pods of these classes need a quota that names them."""
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
ORDINARY = "--set=exporter.priorityClassName="


@contextmanager
def as_on_gke(tmp_path: Path) -> Generator[ControlPlane]:
    """Run an API server where critical pods need a quota, with the controller of quotas."""
    file = tmp_path / "admission.yaml"
    file.write_text(CRITICAL, encoding="utf-8")
    flags = ("--allow-privileged=true", f"--admission-control-config-file={file}")
    with ControlPlane(apiserver_flags=flags) as one:
        add_controllers(one, "resourcequota-controller")
        one.kubectl("create", "namespace", NAMESPACE)
        yield one


@pytest.fixture
def plane(control_plane_built: None, tmp_path: Path) -> Iterator[ControlPlane]:
    """One for each test, as Events outlive their cause; with the controllers of DaemonSets."""
    with as_on_gke(tmp_path) as one:
        yield one


@pytest.fixture
def admin(plane: ControlPlane) -> Iterator[Client]:
    client = Client(plane.endpoint(), timeout=60.0)
    player = NodePlayer(client)
    player.start()
    player.add_node("node-a", {"nvidia.com/gpu.present": "true"})
    yield client
    player.stop()
    client.close()


@pytest.fixture
def with_class(admin: Client) -> None:
    admin.create(CLASSES, {"metadata": {"name": "nvidia"}, "handler": "nvidia"})


@pytest.fixture
def installed(admin: Client, plane: ControlPlane, helm_built: Path, tmp_path: Path) -> Helm:
    helm = Helm(helm_built, plane, tmp_path)
    upgrade(helm, ORDINARY)
    return helm


def upgrade(helm: Helm, *values: str) -> None:
    chart = ("draguard", str(rendered.CHART), "--set=metricsOnly=true")
    helm("upgrade", "--install", *chart, *values)


def own(admin: Client) -> list[Check]:
    return [check for check in pods(admin, NAMESPACE) if check.about == "own pods"]


def test_a_missing_runtime_class_is_named_until_the_cluster_has_it(
    installed: Helm, admin: Client
) -> None:
    (found,) = await_true("the refusal is seen", lambda: own(admin))

    assert 'RuntimeClass "nvidia" not found' in found.says
    assert "docs/install.md, What your nodes have" in found.remedy
    admin.create(CLASSES, {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
    await_true("it is over", lambda: not own(admin), timeout=120)


def test_a_namespace_that_enforces_pod_security_is_named_with_its_label(
    with_class: None, installed: Helm, admin: Client, plane: ControlPlane
) -> None:
    label = "pod-security.kubernetes.io/enforce"
    plane.kubectl("label", "namespace", NAMESPACE, f"{label}=baseline")
    plane.kubectl("delete", "pods", "--all", "--namespace", NAMESPACE, "--wait=false")

    (found,) = await_true("the refusal is seen", lambda: own(admin), timeout=120)

    assert 'violates PodSecurity "baseline:latest"' in found.says
    assert found.remedy == f"kubectl label namespace {NAMESPACE} {label}=privileged"
    plane.kubectl("label", "namespace", NAMESPACE, f"{label}=privileged", "--overwrite")
    await_true("it is over", lambda: not own(admin), timeout=120)


def test_a_quota_that_is_missing_is_named_and_the_preset_for_gke_brings_it(
    with_class: None, installed: Helm, admin: Client
) -> None:
    upgrade(installed)

    (found,) = await_true("the refusal is seen", lambda: own(admin), timeout=120)

    assert "insufficient quota to match these scopes" in found.says
    assert "stack=gke" in found.remedy
    upgrade(installed, "--set=stack=gke")
    await_true("it is over", lambda: not own(admin), timeout=120)
