"""A node whose GPUs a classic device plugin hands out: metrics and incidents, and no taints."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remediator.model.node import REPAIR_NEEDED
from tests.conftest import printer
from tests.lab import leftovers
from tests.lab.cluster import NODES, await_true
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release
from tests.node.conftest import Pods
from tests.node.workload import lose, tainted

INCIDENTS = "/apis/draguard.dev/v1alpha1/deviceincidents"
GIVEN = "NVIDIA_VISIBLE_DEVICES="
HOURS = {"remediator": {"nodeConditions": {"enabled": True}}}
"""A node whose repair is called for waits an hour for the pods with GPUs."""
Json = dict[str, Any]


@pytest.fixture(scope="module")
def node(
    control_plane_built: None, real_node_built: None, pytestconfig: pytest.Config
) -> Iterator[RealNode]:
    with leftovers.kept(), RealNode("2xH100", plugin=True, say=printer(pytestconfig)) as real:
        yield real


@pytest.fixture(scope="module")
def fresh() -> Iterator[int]:
    """The kubelet chooses the GPU."""
    return iter(())


@pytest.fixture(scope="module")
def release(node: RealNode, helm_built: Path) -> Release:
    release = Release(node)
    release.install(HOURS)
    release.await_ready()
    return release


def given(process: Path) -> str:
    """Return the UUID of the GPU that a container was given."""
    pairs = (process / "environ").read_text().split("\0")
    (found,) = [pair.removeprefix(GIVEN) for pair in pairs if pair.startswith(GIVEN)]
    return found


def test_the_metrics_name_the_pod_to_which_the_kubelet_gave_a_gpu_of_the_plugin(
    release: Release, pods: Pods
) -> None:
    pod = pods("plugged", extended=1)

    release.await_shows_pods({given(pod.process()): "plugged"}, "UUID")


def test_the_pod_on_a_lost_gpu_of_the_plugin_stays_and_draguard_says_that_it_waits_for_it(
    node: RealNode, release: Release, pods: Pods
) -> None:
    """No rule can name the GPU, so that NoExecute cannot reach the pod; a repair would end it."""
    pod = pods("stays", extended=1)
    process = pod.process()
    uuid = given(process)
    (number,) = [n for n, gpu in enumerate(node.gpus.scenario.load().gpus) if gpu.uuid == uuid]

    lose(node, f"gpu-{number}")

    def message() -> str:
        """Return what the Node says of its repair."""
        (found,) = node.items(NODES)
        conditions = found["status"]["conditions"]
        return next((each["message"] for each in conditions if each["type"] == REPAIR_NEEDED), "")

    await_true("the pod is waited for", lambda: "pods with devices: default/stays" in message())
    (incident,) = [item for item in node.items(INCIDENTS) if item["spec"]["uuid"] == uuid]
    assert incident["status"]["message"] == "no published device to taint"
    stated = {each["type"]: each for each in incident["status"]["conditions"]}
    assert "may have given it to default/stays" in stated["AffectedPodsIncomplete"]["message"]
    assert tainted(node) == {}
    assert process.exists()
    assert not pod.is_evicted()
