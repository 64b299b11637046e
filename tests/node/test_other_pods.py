"""Pods that got their GPU in another way, and a node that is drained."""

from tests.lab.cluster import NODES, await_true
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release
from tests.node.conftest import Pods
from tests.node.workload import await_end, lose, tainted


def await_lost_are_tainted(node: RealNode) -> None:
    """Wait until no GPU is left that is lost and takes pods all the same."""

    def so() -> bool:
        lost = {
            f"gpu-{gpu.minor}"
            for gpu in node.gpus.scenario.load().gpus
            if gpu.failure.kind == "lost"
        }
        return lost <= tainted(node).keys()

    await_true("all lost GPUs are tainted", so)


def test_a_pod_with_an_extended_resource_is_evicted_too(
    node: RealNode, release: Release, pods: Pods
) -> None:
    """NoExecute does not reach it (kubernetes#141290): Draguard asks for its eviction."""
    await_lost_are_tainted(node)
    sick = pods("extended", extended=1)
    device, process = sick.device(), sick.process()
    assert (process / "root" / "dev" / device.replace("gpu-", "nvidia")).exists()

    lose(node, device)

    await_end(process, 120)
    assert tainted(node)[device] == "NoExecute"


def test_a_drained_node_keeps_its_exporter_and_its_taints(
    node: RealNode, release: Release, pods: Pods
) -> None:
    running = pods.on_gpu("drained")
    process, before = running.process(), tainted(node)

    flags = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=120s")
    node.plane.kubectl("drain", node.name, *flags, timeout=180)
    try:
        assert not process.exists()
        release.await_ready("exporter")
        assert "draguard_gpu_up{" in release.metrics()
        assert tainted(node) == before
    finally:
        node.plane.kubectl("uncordon", node.name)
    release.await_ready()
    (found,) = node.items(NODES)
    assert not found["spec"].get("unschedulable")
