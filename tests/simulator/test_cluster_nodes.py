"""The node player and the publisher against the real scheduler and controllers."""

import copy
from typing import Any

from kubeapi.client import Client
from simulator.cluster import publisher, workloads
from simulator.cluster.nodes import NodePlayer
from tests.lab.cluster import SLICES, Cluster, await_true

Json = dict[str, Any]


def device(name: str, kind: str = "gpu", **attributes: str) -> Json:
    named = {"type": kind, "uuid": f"UUID-{name}", **attributes}
    return {"name": name, "attributes": {key: {"string": value} for key, value in named.items()}}


def slice_of(node: str, *devices: Json, name: str = "", generation: int = 1) -> Json:
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": workloads.DRIVER, "nodeName": node, "pool": pool, "devices": list(devices)}
    return {"metadata": {"name": name} if name else {}, "spec": spec}


def device_names(cluster: Cluster, node: str) -> list[str]:
    (reported,) = cluster.player.pods_of(node)
    return [
        resource["device_name"]
        for dynamic in reported["containers"][0]["dynamic_resources"]
        for resource in dynamic["claim_resources"]
    ]


def test_a_pod_gets_a_mig_slice_of_the_profile_it_asks_for(cluster: Cluster) -> None:
    cluster.player.add_node("node-a")
    small = device("gpu-0-mig-1g5gb-19-0", "mig", profile="1g.5gb", parentUUID="GPU-0")
    large = device("gpu-0-mig-3g20gb-9-4", "mig", profile="3g.20gb", parentUUID="GPU-0")
    cluster.player.publish("node-a", [slice_of("node-a", small, large)])
    template = workloads.claim_template("slice", workloads.mig_request("3g.20gb"))
    cluster.add("resource.k8s.io/v1", "resourceclaimtemplates", template)
    cluster.add("v1", "pods", workloads.pod("train", workloads.pod_spec(template="slice")))
    await_true("it runs", cluster.running)
    await_true("the kubelet tells of it", lambda: cluster.player.pods_of("node-a"))
    assert device_names(cluster, "node-a") == ["gpu-0-mig-3g20gb-9-4"]


def test_two_pods_share_one_claim(cluster: Cluster) -> None:
    cluster.player.add_node("node-a")
    cluster.player.publish("node-a", [slice_of("node-a", device("gpu-0"))])
    shared = workloads.claim("both", workloads.gpu_request())
    cluster.add("resource.k8s.io/v1", "resourceclaims", shared)
    for name in ("left", "right"):
        cluster.add("v1", "pods", workloads.pod(name, workloads.pod_spec(shared_claim="both")))
    await_true("both run", lambda: len(cluster.running()) == 2)
    reported = await_true(
        "the kubelet tells of both",
        lambda: [pods for pods in [cluster.player.pods_of("node-a")] if len(pods) == 2],
    )
    claims = [pod["containers"][0]["dynamic_resources"] for pod in reported[0]]
    assert claims[0] == claims[1]
    assert claims[0][0]["claim_name"] == "both"


def test_a_deleted_pod_is_finished_at_once_and_its_node_notified(
    cluster: Cluster, client: Client
) -> None:
    """Its grace period is 30 seconds; without a kubelet it would stay for ever."""
    reported: list[str] = []
    player = NodePlayer(client, on_change=reported.append)
    player.start()
    try:
        player.add_node("node-b")
        cluster.add("v1", "pods", workloads.pod("short", workloads.pod_spec(node="node-b")))
        await_true("it runs", cluster.running)
        await_true("the node was notified", lambda: reported and player.pods_of("node-b"))
        reported.clear()
        client.delete("/api/v1/namespaces/default/pods/short")
        await_true("it is gone", lambda: not cluster.pods())
        await_true("the node was notified again", lambda: reported and not player.pods_of("node-b"))
        assert set(reported) == {"node-b"}
    finally:
        player.stop()


def test_a_cleaned_cluster_plays_no_node_of_the_test_before(cluster: Cluster) -> None:
    cluster.player.add_node("node-a")
    cluster.clean()
    assert cluster.player.nodes() == []


def test_pods_of_nodes_that_are_not_played_are_left_alone(cluster: Cluster, client: Client) -> None:
    other = NodePlayer(client)
    other.add_node("node-c")
    cluster.add("v1", "pods", workloads.pod("alone", workloads.pod_spec(node="node-c")))
    await_true("it is bound", lambda: cluster.pods()[0]["spec"].get("nodeName"))
    cluster.player.add_node("node-d")
    cluster.add("v1", "pods", workloads.pod("played", workloads.pod_spec(node="node-d")))
    (running,) = await_true("the other runs", cluster.running)
    assert running["metadata"]["name"] == "played"
    other.start()
    try:
        await_true("a late player finds it", lambda: len(cluster.running()) == 2)
    finally:
        other.stop()


def test_pods_that_wait_on_a_node_start_when_it_is_taken_over(
    cluster: Cluster, client: Client
) -> None:
    NodePlayer(client).add_node("node-e")
    cluster.add("v1", "pods", workloads.pod("early", workloads.pod_spec(node="node-e")))
    await_true("it is bound", lambda: cluster.pods()[0]["spec"].get("nodeName"))
    cluster.player.add_node("node-f")
    cluster.add("v1", "pods", workloads.pod("later", workloads.pod_spec(node="node-f")))
    await_true("the player has seen both", lambda: len(cluster.running()) == 1)
    cluster.player.add_node("node-e")
    await_true("both run", lambda: len(cluster.running()) == 2)


def test_published_slices_become_exactly_what_is_requested(cluster: Cluster) -> None:
    player = cluster.player
    player.add_node("node-a")
    first, second = slice_of("node-a", device("gpu-0"), name="s-0"), slice_of("node-a", name="s-1")
    player.publish("node-a", [first, second])
    versions = {
        item["metadata"]["name"]: item["metadata"]["resourceVersion"]
        for item in cluster.items(SLICES)
    }
    changed = copy.deepcopy(first)
    changed["spec"]["devices"].append(device("gpu-1"))
    (found,) = player.publish("node-a", [changed])
    assert [entry["name"] for entry in found["spec"]["devices"]] == ["gpu-0", "gpu-1"]
    assert found["metadata"]["resourceVersion"] != versions["s-0"]
    assert found["metadata"]["ownerReferences"][0]["name"] == "node-a"
    (again,) = player.publish("node-a", [changed])
    assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]


def test_a_new_generation_is_above_all_that_the_server_has(cluster: Cluster) -> None:
    cluster.player.add_node("node-a")
    desired = [slice_of("node-a", device("gpu-0"), generation=7)]
    cluster.player.publish("node-a", desired)
    (found,) = cluster.player.publish("node-a", desired, new_generation=True)
    assert found["spec"]["pool"]["generation"] == 8


def test_slices_of_one_node_are_not_touched_by_another(cluster: Cluster) -> None:
    for node in ("node-a", "node-b"):
        cluster.player.add_node(node)
        cluster.player.publish(node, [slice_of(node, device("gpu-0"))])
    cluster.player.publish("node-a", [])
    (left,) = cluster.items(SLICES)
    assert left["spec"]["nodeName"] == "node-b"


def test_a_removed_node_takes_its_slices_with_it(cluster: Cluster) -> None:
    cluster.player.add_node("node-a")
    cluster.player.publish("node-a", [slice_of("node-a", device("gpu-0"))])
    cluster.player.remove_node("node-a")
    await_true("garbage collection", lambda: not publisher.published(cluster.client, "node-a"))
