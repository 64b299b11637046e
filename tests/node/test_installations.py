"""Ways to install: metrics alone, shares of pods, two replicas; and to uninstall."""

import re
import time
from pathlib import Path

import pytest

from deploy.program import NAMESPACE
from kubeapi.lease import leases
from tests.lab.cluster import await_true
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release
from tests.node.conftest import Pods
from tests.node.workload import await_end, lose, tainted


@pytest.fixture
def release(node: RealNode, helm_built: Path) -> Release:
    """Nothing is installed at the start of a test."""
    release = Release(node)
    release.remove()
    return release


def test_metrics_only_shows_a_lost_gpu_and_reports_and_taints_nothing(
    node: RealNode, release: Release, pods: Pods
) -> None:
    release.install({"metricsOnly": True})
    release.await_ready("exporter")
    held = pods.on_gpu("metrics-only")
    number = int(held.device().removeprefix("gpu-"))
    before = tainted(node)

    lose(node, held.device())

    uuid = node.gpus.gpu(number).uuid

    def counted() -> bool:
        lines = release.metrics().splitlines()
        found = [line for line in lines if line.startswith("draguard_xid_errors_total{")]
        return any('code="79"' in line and uuid in line for line in found)

    await_true("the XID is counted", counted)
    assert release.pods("remediator") == []
    assert tainted(node) == before
    assert not held.is_evicted()


def test_with_shares_of_pods_the_check_of_the_notes_has_the_flags_of_the_sensor(
    release: Release,
) -> None:
    """Process 1 there is the node's. Without the flags no library is found in the driver root."""
    release.install({"metricsOnly": True, "exporter": {"podShares": True}})
    release.await_ready("exporter")

    stated = release.check_of_notes()

    assert re.search(
        r"^NVML: [1-9]\d* GPUs, driver ", stated, re.MULTILINE
    )  # not of those that other tests have lost
    assert "missing  " not in stated
    assert "there    host-pids (sensor)" in stated
    assert "not here api-server (agent): check it in the container agent" in stated


def test_when_the_leader_of_two_replicas_is_killed_the_other_taints(
    node: RealNode, release: Release, pods: Pods
) -> None:
    release.install({"remediator": {"replicas": 2}})
    release.await_ready()
    await_true("both run", lambda: len(release.pods("remediator")) == 2)
    release.await_ready()

    led = await_true("one leads", release.leader)
    assert led is not None
    sick = pods.on_gpu("two-replicas")
    device, process = sick.device(), sick.process()

    node.kill(release.process_of(led, "remediator"))
    lose(node, device)

    await_end(process, 120)
    assert tainted(node)[device] == "NoExecute"


def test_uninstalling_removes_rules_and_leases_and_leaves_the_pods(
    node: RealNode, release: Release, pods: Pods
) -> None:
    # A namespace that the chart makes itself must not go before Helm's record of the release and
    # before the hook. Helm lets the chart make it where the CRDs of a release before are left.
    release.install()
    release.remove()
    node.plane.kubectl("delete", "namespace", NAMESPACE, timeout=120)
    release.install({"namespace": {"create": True}})
    release.await_ready()
    sick, running = pods.on_gpu("uninstalled"), pods.on_gpu("stays")
    device, process = sick.device(), sick.process()
    lose(node, device)
    await_end(process)
    assert tainted(node)[device] == "NoExecute"

    began = time.monotonic()
    release.uninstall()

    print(f"uninstalled in {time.monotonic() - began:.1f} s")  # noqa: T201
    assert tainted(node) == {}
    await_true("its pods are gone", lambda: release.pods() == [])
    assert not running.is_evicted()
    assert [item["metadata"]["name"] for item in node.items(leases(NAMESPACE))] == []
