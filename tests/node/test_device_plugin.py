"""A node whose GPUs a classic device plugin hands out: metrics and incidents, and no taints."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import printer
from tests.lab import leftovers
from tests.lab.cluster import await_true
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release
from tests.node.conftest import Pods
from tests.node.workload import lose, tainted

INCIDENTS = "/apis/draguard.dev/v1alpha1/deviceincidents"
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


def test_the_metrics_name_the_pod_to_which_the_kubelet_gave_a_gpu_of_the_plugin(
    node: RealNode, release: Release, pods: Pods
) -> None:
    pod = pods("plugged", extended=1)

    release.await_shows_pods({given(pod.process()): "plugged"}, "UUID")


def test_a_lost_gpu_of_the_plugin_gets_an_incident_and_its_pod_stays(
    node: RealNode, release: Release, pods: Pods
) -> None:
    pod = pods("stays", extended=1)
    process = pod.process()
    uuid = given(process)
    (number,) = [n for n, gpu in enumerate(node.gpus.scenario.load().gpus) if gpu.uuid == uuid]

    lose(node, f"gpu-{number}")

    def told() -> Json | None:
        found = [item for item in node.items(INCIDENTS) if item["spec"]["uuid"] == uuid]
        return found[0]["status"] if found and "status" in found[0] else None

    status = await_true("the incident is there", told)
    Path("/tmp/w/status.json").write_text(__import__("json").dumps(status, indent=1))
    assert tainted(node) == {}
    assert process.exists()
    assert not pod.is_evicted()


def given(process: Any) -> str:
    """Return the UUID in the environment of a container."""
    pairs = (process / "environ").read_text().split("\0")
    (uuid,) = [
        pair.partition("=")[2] for pair in pairs if pair.startswith("NVIDIA_VISIBLE_DEVICES=")
    ]
    return uuid
