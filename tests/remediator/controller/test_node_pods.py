"""The pods of one node, page by page, remembered for a moment, and unknown when nobody answers."""

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from kubeapi.client import Client
from remediator.controller import node_pods
from remediator.controller.node_pods import REMEMBERED, NodePods
from remediator.model.pod import PodFacts
from simulator.cluster import workloads
from tests.kubeapi import hostile
from tests.kubeapi.hostile import Behaviour, Hostile
from tests.lab.cluster import Cluster, Json, await_true
from tests.remediator.clock import Clock


@contextmanager
def listed(clock: Clock, answers: Sequence[Behaviour]) -> Generator[tuple[NodePods, Hostile]]:
    with Hostile(answers) as server:
        client = Client(server.endpoint, timeout=60.0)
        yield NodePods(client, clock), server
        client.close()


def pod(name: str) -> Json:
    return {"metadata": {"name": name, "namespace": "team", "uid": f"u-{name}"}}


def names(pods: NodePods, node: str = "node-a") -> list[str] | None:
    found = pods.list_pods(node)
    return None if found is None else [facts.name for facts in found]


def test_all_pages_are_requested_with_the_nodes_name() -> None:
    pages = [hostile.listing("1", pod("a"), more="token"), hostile.listing("1", pod("b"))]
    with listed(Clock(), pages) as (pods, server):
        assert names(pods) == ["a", "b"]

        first, second = server.requests
    assert "fieldSelector=spec.nodeName%3Dnode-a" in first
    assert "limit=500" in first
    assert "continue=token" in second


def test_they_are_read_from_the_servers_cache_and_further_pages_go_on_from_there() -> None:
    pages = [hostile.listing("1", pod("a"), more="token"), hostile.listing("1", pod("b"))]
    with listed(Clock(), pages) as (pods, server):
        assert names(pods) == ["a", "b"]

        first, second = server.requests
    assert "resourceVersion=0" in first
    assert "resourceVersion" not in second


def test_the_newest_state_is_requested_where_a_node_is_handed_over() -> None:
    answers = [hostile.listing("1", pod(name)) for name in ("cached", "newest")]
    with listed(Clock(), answers) as (pods, server):
        assert names(pods) == ["cached"]
        found = pods.list_pods("node-a", live=True)

        assert found is not None
        assert [facts.name for facts in found] == ["newest"]
        assert "resourceVersion" not in server.requests[1]


def test_an_answer_is_remembered_for_a_moment_and_for_its_node_only() -> None:
    clock = Clock()
    answers = [hostile.listing("1", pod(name)) for name in ("a", "b", "c")]
    with listed(clock, answers) as (pods, _):
        assert names(pods) == ["a"]
        assert names(pods, "node-b") == ["b"]
        clock.seconds = REMEMBERED - 0.1
        assert names(pods) == ["a"]
        clock.seconds = REMEMBERED
        assert names(pods) == ["c"]


@pytest.mark.parametrize(
    "answer",
    [
        hostile.refusal(500),
        hostile.refusal(403, "Forbidden"),
        hostile.drop,
        hostile.body(b"no json"),
        hostile.body(b'{"items": [{"metadata": 5}]}'),
    ],
)
def test_pods_that_cannot_be_listed_are_unknown_and_that_is_logged_once(
    answer: Behaviour, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    with listed(clock, [answer]) as (pods, server):
        for seconds in (0.0, 1.0, 10.0, 20.0):
            clock.seconds = seconds
            assert names(pods) is None
        assert len(server.requests) == 3
    ours = [record for record in caplog.records if record.name == node_pods.__name__]
    (stated,) = [record for record in ours if record.levelno == logging.WARNING]
    assert "node-a: its pods cannot be listed, so NoExecute waits" in stated.getMessage()


def test_a_failure_between_two_pages_makes_no_half_list() -> None:
    pages = [hostile.listing("1", pod("a"), more="token"), hostile.refusal(410, "Expired")]
    with listed(Clock(), pages) as (pods, _):
        assert names(pods) is None


def test_it_is_logged_again_after_it_worked(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    answers = [hostile.refusal(500), hostile.listing("1"), hostile.refusal(500)]
    with listed(clock, answers) as (pods, _):
        seen: list[list[str] | None] = []
        for seconds in (0.0, 10.0, 20.0):
            clock.seconds = seconds
            seen.append(names(pods))
    assert seen == [None, [], None]
    assert (
        len([record for record in caplog.records if "cannot be listed" in record.getMessage()]) == 2
    )


def test_a_real_pod_is_read_with_its_owner(cluster: Cluster) -> None:
    cluster.player.add_node("node-a")
    template = workloads.pod_spec(node="node-a")
    cluster.add("apps/v1", "deployments", workloads.deployment("web", 1, template))
    await_true("it runs", cluster.running)

    def running() -> list[PodFacts]:
        # Read from the server's cache, which may be older than what was seen before.
        return [
            facts for facts in NodePods(cluster.client).list_pods("node-a") or () if facts.running
        ]

    (one,) = await_true("it is listed as running", running)
    assert (one.owner, one.terminating) == ("Deployment/web", False)
    assert NodePods(cluster.client).list_pods("node-b") == ()


def test_a_list_that_takes_long_is_as_old_as_its_answer() -> None:
    clock = Clock()

    def slow(*how: Any) -> None:
        clock.seconds += 3.0
        hostile.listing("1", pod("a"))(*how)

    with listed(clock, [slow, hostile.listing("2")]) as (pods, server):
        pods.list_pods("node-a", within=1.0)
        pods.list_pods("node-a", within=1.0)

        assert len(server.requests) == 1


def test_a_list_anew_takes_the_place_of_the_one_that_is_remembered() -> None:
    pages = [hostile.listing("1", pod("a")), hostile.listing("2", pod("a"), pod("b"))]
    with listed(Clock(), pages) as (pods, server):
        counted = [
            len(found or ())
            for found in (
                pods.list_pods("node-a", live=True),
                pods.list_newest("node-a"),
                pods.list_pods("node-a", live=True),
            )
        ]

        assert counted == [1, 2, 2]
        assert "resourceVersion" not in server.requests[1]
