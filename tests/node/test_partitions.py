"""Dynamic MIG: partitions that share counters, made for a pod and removed after it.

The node is one of its own.
"""

from collections.abc import Iterator

import pytest

from simulator.cluster.workloads import gpu_request, mig_request
from simulator.gpu import Instance
from simulator.slices import Publishing
from tests.conftest import printer
from tests.lab import leftovers
from tests.lab.cluster import await_true
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release
from tests.node.conftest import Pods
from tests.node.workload import await_end, tainted

PROFILE = "1g.10gb"
Held = dict[str, tuple[int, Instance]]
"""By device, the GPU's number and the instance that was made for it."""


@pytest.fixture(scope="module")
def node(
    control_plane_built: None, real_node_built: None, pytestconfig: pytest.Config
) -> Iterator[RealNode]:
    """Two GPUs, each of which is offered whole and in every partition that it could have."""
    publishing = Publishing(dynamic_mig=True)
    say = printer(pytestconfig)
    with leftovers.kept(), RealNode("2xH100", publishing=publishing, say=say) as real:
        yield real


@pytest.fixture(scope="module")
def fresh() -> Iterator[int]:
    """No GPU is one test's own."""
    return iter(())


def held(node: RealNode) -> Held:
    """Return what the driver has made."""
    return {
        f"gpu-{gpu.minor}-mig-1g10gb-19-{instance.start}": (number, instance)
        for number, gpu in enumerate(node.gpus.scenario.load().gpus)
        for instance in gpu.instances
    }


def test_a_partition_is_there_as_long_as_its_pod_and_leaves_no_room_for_the_whole_gpu(
    node: RealNode, pods: Pods
) -> None:
    parts = [pods(f"part-{number}", mig_request(PROFILE)) for number in range(2)]
    assert {part.device() for part in parts} == held(node).keys()
    whole = pods("whole", gpu_request())
    taken = {device.partition("-mig-")[0] for device in held(node)}
    assert taken == {f"gpu-{n}" for n in range(2)} - {whole.device()}

    parts[0].remove()

    await_true("its partition is removed", lambda: held(node).keys() == {parts[1].device()})
    parts[1].remove()
    await_true("no partition is left", lambda: not held(node))
    assert not any(gpu.mig for gpu in node.gpus.scenario.load().gpus)


def test_a_first_installation_logs_no_warning(release: Release) -> None:
    """The CRDs come with it: a server that begins to serve them is busy for a moment."""
    names = [pod["metadata"]["name"] for pod in release.pods()]
    lines = [line for name in names for line in release.logs(name).splitlines()]

    assert any(" INFO " in line for line in lines)
    assert [line for line in lines if " WARNING " in line or " ERROR " in line] == []


def test_an_error_in_a_partition_ends_its_container_and_no_other_and_its_metrics_name_the_pod(
    node: RealNode, release: Release, pods: Pods
) -> None:
    running = {pod.device(): pod for pod in (pods(f"p-{n}", mig_request(PROFILE)) for n in "abc")}
    made = held(node)
    assert made.keys() == running.keys()
    names = {made[device][1].uuid: pod.name for device, pod in running.items()}
    release.await_shows_pods(names, "dra_mig_device_uuid")
    device, sick = next(iter(running.items()))
    process = sick.process()
    number, instance = made[device]

    node.gpus.inject_xid(number, 94, gi=instance.gi, reset=False, drain_reset=False)

    await_end(process)
    assert tainted(node)[device] == "NoExecute"
    sound = {name: pod for name, pod in running.items() if pod is not sick}
    assert not tainted(node).keys() & sound.keys()
    assert not any(pod.is_evicted() for pod in sound.values())
    await_true("the pod is gone", lambda: sick.phase() == "gone")
    assert device in tainted(node), "the taint outlasts the partition"
