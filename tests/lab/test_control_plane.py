"""The lab itself: what the real scheduler and controllers do with simulated nodes."""

from typing import Any

from simulator.cluster import workloads
from tests.lab.cluster import RULES, Cluster, await_true

Json = dict[str, Any]


def gpu_slice(node: str, gpus: int, generation: int = 1) -> Json:
    devices = [
        {
            "name": f"gpu-{minor}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{node}-{minor}"},
            },
        }
        for minor in range(gpus)
    ]
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": workloads.DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {}, "spec": spec}


def rule(name: str, node: str, device: str, effect: str) -> Json:
    selector = {"driver": workloads.DRIVER, "pool": node, "device": device}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {
            "deviceSelector": selector,
            "taint": {"key": "draguard.dev/test", "effect": effect},
        },
    }


def run_workload(cluster: Cluster, replicas: int) -> list[str]:
    template = workloads.claim_template("one-gpu", workloads.gpu_request())
    cluster.add("resource.k8s.io/v1", "resourceclaimtemplates", template)
    spec = workloads.pod_spec(template="one-gpu")
    cluster.add("apps/v1", "deployments", workloads.deployment("train", replicas, spec))
    running = await_true(
        "all replicas run",
        lambda: [found for found in [cluster.running()] if len(found) == replicas],
    )
    return [pod["metadata"]["name"] for pod in running[0]]


def test_a_pod_with_a_claim_template_is_scheduled_to_a_gpu_and_runs(cluster: Cluster) -> None:
    cluster.player.add_node("lab-a")
    cluster.player.publish("lab-a", [gpu_slice("lab-a", 2)])
    (pod,) = run_workload(cluster, 1)
    device = cluster.device_of(pod)
    assert device in ("lab-a/gpu-0", "lab-a/gpu-1")
    # What it tells of is its own watch's, which hears of the pod a moment after its API server.
    (reported,) = await_true("the kubelet tells of it", lambda: cluster.player.pods_of("lab-a"))
    (resource,) = reported["containers"][0]["dynamic_resources"][0]["claim_resources"]
    assert reported["name"] == pod
    assert f"{resource['pool_name']}/{resource['device_name']}" == device


def test_a_noexecute_rule_moves_the_pod_to_another_device_and_no_other_pod(
    cluster: Cluster,
) -> None:
    """The real device-taint-eviction controller deletes, the real ReplicaSet replaces."""
    cluster.player.add_node("lab-a")
    cluster.player.publish("lab-a", [gpu_slice("lab-a", 4)])
    pods = run_workload(cluster, 2)
    victim, neighbour = pods
    pool, device = cluster.device_of(victim).split("/")
    cluster.client.create(RULES, rule("sick", pool, device, "NoExecute"))

    def moved() -> set[str]:
        names = {pod["metadata"]["name"] for pod in cluster.running()}
        return names if victim not in names and len(names) == 2 else set()

    names = await_true("the pod was replaced", moved)
    (replacement,) = names - {neighbour}
    assert neighbour in names
    assert cluster.device_of(replacement) != f"{pool}/{device}"


def test_a_pod_that_asks_for_the_extended_resource_gets_a_gpu_too(cluster: Cluster) -> None:
    cluster.player.add_node("lab-a")
    cluster.player.publish("lab-a", [gpu_slice("lab-a", 1)])
    cluster.add("v1", "pods", workloads.pod("classic", workloads.pod_spec(extended_gpus=1)))
    await_true("the pod runs", cluster.running)
    (reported,) = await_true("the kubelet tells of it", lambda: cluster.player.pods_of("lab-a"))
    (resource,) = reported["containers"][0]["dynamic_resources"][0]["claim_resources"]
    assert resource["device_name"] == "gpu-0"
