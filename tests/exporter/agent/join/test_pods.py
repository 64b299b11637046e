"""The node's pods as watched on a real API server."""

from collections.abc import Iterator

import pytest

from exporter.agent.join.pod_facts import MOST_LABELS
from exporter.agent.join.pods import LABELS_LEFT_OUT, Pods
from exporter.label_patterns import PatternError
from kubeapi.client import Client
from kubeapi.endpoint import Endpoint
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.workloads import claim_template, gpu_request, pod, pod_spec
from tests.exporter.agent.join.test_claim_details import SLICE
from tests.exporter.running import wait_for
from tests.lab.cluster import Cluster

KEY = ("default", "train-0")


@pytest.fixture
def news() -> list[int]:
    return []


@pytest.fixture
def pods(cluster: Cluster, news: list[int]) -> Iterator[Pods]:
    """A watch that may show the label `team`, on a node with one GPU."""
    cluster.player.add_node("node-a")
    cluster.player.publish("node-a", [SLICE])
    watched = Pods(cluster.client, "node-a", lambda: news.append(1), labels=True, allow=["^team$"])
    watched.start()
    yield watched
    watched.stop()


def test_uid_allowed_labels_and_what_each_container_requested_are_known(
    cluster: Cluster, pods: Pods
) -> None:
    cluster.add("resource.k8s.io/v1", "resourceclaimtemplates", claim_template("t", gpu_request()))
    made = pod("train-0", pod_spec(template="t"))
    made["metadata"]["labels"] = {"team": "blue", "other": "x"}
    cluster.add("v1", "pods", made)
    wait_for(cluster.running, what="a running pod")
    wait_for(lambda: KEY in pods.facts() and pods.facts()[KEY].requests, what="its claims")
    (stored,) = cluster.pods()
    (claim,) = cluster.items("/apis/resource.k8s.io/v1/resourceclaims")
    fact = pods.facts()[KEY]
    assert (fact.uid, fact.labels) == (stored["metadata"]["uid"], (("team", "blue"),))
    assert fact.requests == {("main", claim["metadata"]["name"], "")}
    assert pods.source().up


def test_an_extended_resource_is_named_as_the_pod_requested_it(
    cluster: Cluster, pods: Pods
) -> None:
    cluster.add("v1", "pods", pod("train-0", pod_spec(extended_gpus=1)))
    wait_for(lambda: KEY in pods.facts() and pods.facts()[KEY].extended, what="its mapping")
    ((container, request, resource),) = pods.facts()[KEY].extended
    assert (container, resource) == ("main", "nvidia.com/gpu")
    assert pods.facts()[KEY].resource("main", request) == "nvidia.com/gpu"


def test_a_change_that_is_not_shown_is_no_news_and_a_deletion_is(
    cluster: Cluster, pods: Pods, news: list[int]
) -> None:
    made = pod("train-0", pod_spec() | {"nodeName": "node-a"})
    made["metadata"]["labels"] = {"team": "blue"}
    cluster.add("v1", "pods", made)
    wait_for(cluster.running, what="a running pod")
    wait_for(lambda: KEY in pods.facts(), what="the pod")
    # Reported once, just after it can be seen.
    before, reported = pods.facts(), wait_for(lambda: len(news))
    path = "/api/v1/namespaces/default/pods/train-0"
    cluster.client.merge_patch(path, {"metadata": {"annotations": {"a": "b"}}})
    cluster.client.merge_patch(path, {"metadata": {"labels": {"other": "y"}}})
    second = pod("train-1", pod_spec() | {"nodeName": "node-a"})
    cluster.add("v1", "pods", second)
    wait_for(lambda: len(pods.facts()) == 2, what="the pod written after")
    assert pods.facts()[KEY] is before[KEY] or pods.facts()[KEY] == before[KEY]
    wait_for(lambda: len(news) > reported, what="its telling")
    assert len(news) == reported + 1
    cluster.client.delete(path, {"gracePeriodSeconds": 0})
    wait_for(lambda: KEY not in pods.facts(), what="the deletion")


def test_pods_of_other_nodes_are_not_requested(cluster: Cluster, pods: Pods) -> None:
    cluster.player.add_node("node-b")
    for name, node in (("elsewhere", "node-b"), ("train-0", "node-a")):
        cluster.add("v1", "pods", pod(name, pod_spec() | {"nodeName": node}))
    wait_for(lambda: KEY in pods.facts(), what="the pod of this node")
    assert list(pods.facts()) == [KEY]


def test_without_the_switch_no_label_rides(cluster: Cluster) -> None:
    made = pod("train-0", pod_spec() | {"nodeName": "node-a"})
    made["metadata"]["labels"] = {"team": "blue"}
    cluster.add("v1", "pods", made)
    pods = Pods(cluster.client, "node-a", lambda: None)
    pods.start()
    try:
        wait_for(lambda: KEY in pods.facts(), what="the pod")
    finally:
        pods.stop()
    assert (pods.facts()[KEY].labels, pods.facts()[KEY].uid != "") == ((), True)


def test_a_pod_with_thousands_of_labels_is_cut_and_named(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("train-0", "train-1"):
        made = pod(name, pod_spec() | {"nodeName": "node-a"})
        made["metadata"]["labels"] = {f"example.com/key-{n:04d}": "v" for n in range(9000)}
        cluster.add("v1", "pods", made)
    pods = Pods(cluster.client, "node-a", lambda: None, labels=True)
    pods.start()
    try:
        wait_for(lambda: len(pods.facts()) == 2, what="the pods")
        wait_for(lambda: caplog.messages, what="a line in the log")
        source = pods.source()
    finally:
        pods.stop()

    assert (source.up, source.reason) == (True, LABELS_LEFT_OUT)
    assert source.message.startswith(
        f"{9000 - MOST_LABELS} labels of pod default/train-0 (and 1 more) are left out"
    )
    assert len(pods.facts()[KEY].labels) == MOST_LABELS
    assert len([line for line in caplog.messages if "are left out" in line]) == 1


def test_a_missing_right_to_watch_pods_is_logged(control_plane: ControlPlane) -> None:
    client = Client(control_plane.endpoint("remediator"), timeout=60.0)
    pods = Pods(client, "node-a", lambda: None)
    pods.start()
    try:
        wait_for(lambda: "labels are missing" in pods.source().message, what="a refusal")
        assert not pods.source().up
    finally:
        pods.stop()
        client.close()


def test_a_bad_pattern_is_refused_before_anything_runs() -> None:
    client = Client(Endpoint(server="http://127.0.0.1:1"))
    with pytest.raises(PatternError):
        Pods(client, "node-a", lambda: None, labels=True, allow=["("])
    client.close()
