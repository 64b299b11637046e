"""Parts of the node fail: sensor, kubelet, DRA driver. A taint stays, and nobody is evicted."""

import time

import msgspec

from tests.lab.cluster import await_true
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import PODS, Release
from tests.node.conftest import Pods
from tests.node.workload import Workload, await_end, lose, tainted

HOLDS_SECONDS = 5.0


def taint(node: RealNode, sick: Workload) -> str:
    """Let the GPU of a pod be lost; returns the device, once its pod is gone."""
    device, process = sick.device(), sick.process()
    lose(node, device)
    await_end(process)
    await_true("the pod is gone", lambda: sick.phase() == "gone")
    return device


def restarts(node: RealNode, release: Release, container: str) -> int:
    (pod, *_) = release.pods("exporter")
    body = node.client.get(f"{PODS}/{pod['metadata']['name']}")
    statuses = msgspec.json.decode(body)["status"]["containerStatuses"]
    (count,) = [status["restartCount"] for status in statuses if status["name"] == container]
    return int(count)


def test_a_sensor_that_is_killed_is_started_again_and_taints_nothing(
    node: RealNode, release: Release, pods: Pods
) -> None:
    running = pods.on_gpu("beside-sensor")
    before, agents = tainted(node), restarts(node, release, "agent")
    sensors = restarts(node, release, "sensor")

    node.kill(release.process("exporter", "sensor"))

    await_true(
        "the sensor is started again", lambda: restarts(node, release, "sensor") == sensors + 1
    )
    release.await_ready("exporter")
    release.await_shows(
        'draguard_source_up{source="nvml"} 1', 'draguard_source_up{source="kmsg"} 1'
    )
    assert restarts(node, release, "agent") == agents
    assert tainted(node) == before
    assert not running.is_evicted()


def test_a_kubelet_that_starts_again_takes_the_slices_away_and_no_taint(
    node: RealNode, release: Release, pods: Pods
) -> None:
    """At its start the kubelet deletes the slices of its node; the driver publishes them anew."""
    device = taint(node, pods.on_gpu("sick-kubelet"))
    running = pods.on_gpu("beside-kubelet")
    process = running.process()
    node.driver.stop()

    node.kubelet.stop()
    node.kubelet.start()

    await_true("the kubelet has deleted the slices", lambda: not node.slices())
    began = time.monotonic()
    while time.monotonic() - began < HOLDS_SECONDS:
        assert tainted(node).get(device) == "NoExecute"
        time.sleep(0.2)
    node.driver.start()
    await_true("the slices are published again", node.slices)
    await_true("the node is Ready", node.is_ready)
    assert tainted(node)[device] == "NoExecute"
    assert process.exists()
    assert not running.is_evicted()


def test_a_driver_that_crashes_leaves_slices_taints_and_pods(
    node: RealNode, release: Release, pods: Pods
) -> None:
    device = taint(node, pods.on_gpu("sick-driver"))
    running = pods.on_gpu("beside-driver")
    before = [item["metadata"]["name"] for item in node.slices()]

    node.driver.stop()
    time.sleep(HOLDS_SECONDS)

    assert tainted(node)[device] == "NoExecute"
    node.driver.start()
    assert pods.on_gpu("after-driver").process().exists()
    assert [item["metadata"]["name"] for item in node.slices()] == before
    assert tainted(node)[device] == "NoExecute"
    assert not running.is_evicted()
