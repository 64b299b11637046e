"""From the driver's line to the end of a container, with the real kubelet and a real runtime."""

from simulator.cluster.workloads import mig_request
from tests.lab.cluster import await_true
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release
from tests.node.conftest import SLICED, Pods
from tests.node.workload import await_end, driver_away, lose, tainted

LOST = "error getting device handle for index '1': GPU is lost"


def test_a_kernel_line_of_xid_79_ends_the_container_on_that_gpu_and_no_other(
    node: RealNode, release: Release, pods: Pods
) -> None:
    sick, sound = pods.on_gpu("sick"), pods.on_gpu("sound")
    device, process, spared = sick.device(), sick.process(), sound.process()

    lose(node, device)

    await_end(process)
    assert tainted(node)[device] == "NoExecute"
    await_true("the kubelet has removed the pod", lambda: sick.phase() == "gone")
    assert spared.exists()
    assert not sound.is_evicted()


def test_an_error_in_one_slice_ends_the_container_on_that_slice_and_no_other(
    node: RealNode, release: Release, pods: Pods
) -> None:
    running = [pods(f"slice-{number}", mig_request("1g.10gb")) for number in range(3)]
    sick, *sound = running
    device, process = sick.device(), sick.process()
    start = int(device.rpartition("-")[2])
    (instance,) = [part for part in node.gpus.gpu(SLICED).instances if part.start == start]

    node.gpus.inject_xid(SLICED, 94, gi=instance.gi, reset=False, drain_reset=False)

    await_end(process)
    assert {name: effect for name, effect in tainted(node).items() if "mig" in name} == {
        device: "NoExecute"
    }
    assert not any(pod.is_evicted() for pod in sound)


def test_a_gpu_that_is_lost_while_the_driver_cannot_start_is_emptied(
    node: RealNode, release: Release, pods: Pods
) -> None:
    """NVIDIA's driver starts on no node with a lost GPU; then the kubelet deletes its slices."""
    sick, sound = pods.on_gpu("late"), pods.on_gpu("late-sound")
    device, process, spared = sick.device(), sick.process(), sound.process()

    with driver_away(node):
        node.gpus.republish(failure=LOST)
        node.driver.start()
        await_true("the driver gives up", lambda: LOST in node.driver.last_words())
        await_true("its process has ended", lambda: not node.driver.running)

        lose(node, device)

        await_end(process)
        assert tainted(node)[device] == "NoExecute"
        assert not node.slices()
        assert spared.exists()
    assert not sound.is_evicted()


def test_the_metrics_name_the_pod_to_which_the_kubelet_gave_the_device(
    node: RealNode, release: Release, pods: Pods
) -> None:
    held = {pods.on_gpu(f"named-{n}").device(): f"named-{n}" for n in range(2)}
    uuids = {f"gpu-{gpu.minor}": gpu.uuid for gpu in node.gpus.scenario.load().gpus}

    release.await_shows_pods({uuids[device]: pod for device, pod in held.items()}, "UUID")
