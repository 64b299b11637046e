"""Evictions, as a real API server and a scripted one answer them."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import msgspec
import pytest

from kubeapi.client import Client
from remediator.controller.evictions import FIRST_WAIT, LONGEST_WAIT, SETTLING, Evictions
from remediator.model.incident_status import AffectedPod
from simulator.cluster import workloads
from tests.kubeapi import hostile
from tests.kubeapi.hostile import Behaviour, Hostile
from tests.lab.cluster import Cluster, await_true
from tests.remediator.clock import Clock

POD = AffectedPod("default", "nb-0", "c", "gpu.nvidia.com/node-a/gpu-0", "u-1", "ExtendedResource")
REFUSED = hostile.refusal(429, "TooManyRequests", "would violate the pod's disruption budget")
ACCEPTED = hostile.body(b"{}", 201)


@contextmanager
def evicting(clock: Clock, answers: Sequence[Behaviour]) -> Generator[tuple[Evictions, Hostile]]:
    with Hostile(answers) as server:
        client = Client(server.endpoint, timeout=60.0)
        yield Evictions(client, clock), server
        client.close()


def test_an_accepted_eviction_is_not_requested_again() -> None:
    clock = Clock()
    with evicting(clock, [ACCEPTED]) as (evictions, server):
        for seconds in (0.0, 1.0, SETTLING - 0.1):
            clock.seconds = seconds
            evictions.evict(POD)

        assert len(server.requests) == 1
        assert "POST /api/v1/namespaces/default/pods/nb-0/eviction" in server.requests[0]
    assert (evictions.accepted, evictions.refused, evictions.refused_pod_count) == (1, 0, 0)


def test_a_refusal_is_retried_later_and_later_and_ends_no_tick() -> None:
    clock = Clock()
    requested_at: list[float] = []
    with evicting(clock, [REFUSED]) as (evictions, server):
        for second in range(200):
            clock.seconds = float(second)
            before = len(server.requests)
            evictions.evict(POD)
            requested_at += [clock.seconds] * (len(server.requests) - before)

    waits = [later - earlier for earlier, later in pairwise(requested_at)]
    assert waits[0] == FIRST_WAIT
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_WAIT
    assert evictions.refused == len(requested_at)
    assert evictions.refused_pod_count == 1


def test_the_wait_that_the_server_asks_for_is_kept() -> None:
    clock = Clock()
    answer = hostile.refusal(429, "TooManyRequests", headers="retry-after: 10\r\n")
    with evicting(clock, [answer, ACCEPTED]) as (evictions, server):
        for seconds, requests in ((0.0, 1), (9.9, 1), (10.0, 2)):
            clock.seconds = seconds
            evictions.evict(POD)
            assert len(server.requests) == requests
    assert (evictions.accepted, evictions.refused_pod_count) == (1, 0)


def test_one_pods_refusal_holds_back_no_other_pod() -> None:
    other = msgspec.structs.replace(POD, pod="nb-1", uid="u-2")
    with evicting(Clock(), [REFUSED, ACCEPTED]) as (evictions, server):
        evictions.evict(POD)
        evictions.evict(other)

        assert len(server.requests) == 2
    assert (evictions.accepted, evictions.refused) == (1, 1)


@pytest.mark.parametrize("answer", [hostile.refusal(404), hostile.refusal(409, "Conflict")])
def test_a_pod_that_is_gone_or_another_is_no_error(answer: Behaviour) -> None:
    with evicting(Clock(), [answer]) as (evictions, _):
        evictions.evict(POD)
    assert (evictions.accepted, evictions.refused) == (0, 0)


@pytest.mark.parametrize("answer", [hostile.refusal(403), hostile.refusal(500)])
def test_any_other_error_is_the_pods_own_and_is_requested_again_after_a_backoff(
    answer: Behaviour,
) -> None:
    clock, other = Clock(), msgspec.structs.replace(POD, pod="nb-1", uid="u-2")
    with evicting(clock, [answer, ACCEPTED, ACCEPTED]) as (evictions, server):
        for seconds, pod, requests in (
            (0.0, POD, 1),
            (0.0, other, 2),
            (FIRST_WAIT - 0.1, POD, 2),
            (FIRST_WAIT, POD, 3),
        ):
            clock.seconds = seconds
            evictions.evict(pod)
            assert len(server.requests) == requests
    assert (evictions.accepted, evictions.refused, evictions.failed) == (2, 0, 1)


def test_a_server_that_does_not_answer_is_not_queried_for_the_next_pod_at_once() -> None:
    clock, other = Clock(), msgspec.structs.replace(POD, pod="nb-1", uid="u-2")
    with evicting(clock, [hostile.drop, ACCEPTED]) as (evictions, server):
        evictions.evict(POD)
        evictions.evict(other)
        assert len(server.requests) == 1

        clock.seconds = FIRST_WAIT
        evictions.evict(other)

    assert (evictions.accepted, evictions.failed, evictions.refused_pod_count) == (1, 1, 1)


def test_a_refusal_is_known_by_its_pod_until_the_pod_goes() -> None:
    clock = Clock()
    two = hostile.refusal(500, "InternalError", "This pod has more than one PodDisruptionBudget")
    with evicting(clock, [two, ACCEPTED]) as (evictions, _):
        evictions.evict(POD)
        why = "500 InternalError: This pod has more than one PodDisruptionBudget"
        assert evictions.refusals() == {POD.uid: why}

        clock.seconds = FIRST_WAIT
        evictions.evict(POD)
        assert evictions.refusals() == {}


def test_a_refusal_says_which_disruption_budget_it_was() -> None:
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget web needs 1 healthy pods and has 1 currently",
    }
    stated = {
        "kind": "Status",
        "code": 429,
        "reason": "TooManyRequests",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"causes": [cause]},
    }
    with evicting(Clock(), [hostile.body(json.dumps(stated).encode(), 429)]) as (evictions, _):
        evictions.evict(POD)

    assert evictions.refusals()[POD.uid].endswith(f"disruption budget.; {cause['message']}")


def test_a_pod_is_deleted_once() -> None:
    clock = Clock()
    with evicting(clock, [ACCEPTED]) as (evictions, server):
        for seconds in (0.0, 1.0):
            clock.seconds = seconds
            evictions.evict(POD, delete=True)

        (request,) = server.requests
    assert request.startswith("DELETE /api/v1/namespaces/default/pods/nb-0 ")
    assert evictions.accepted == 1


def test_without_the_right_to_delete_it_is_that_pods_refusal() -> None:
    with evicting(Clock(), [hostile.refusal(403, "Forbidden", "may not delete")]) as (evictions, _):
        evictions.evict(POD, delete=True)

    assert "Forbidden" in evictions.refusals()[POD.uid]


def test_only_a_busy_server_and_no_disruption_budget_slows_other_writes_down() -> None:
    paused: list[float] = []
    later = "retry-after: 10\r\n"
    answers = [hostile.refusal(429, headers=later), hostile.refusal(503, headers=later)]
    with Hostile(answers) as server:
        client = Client(server.endpoint, timeout=60.0)
        evictions = Evictions(client, Clock(), paused.append)
        evictions.evict(POD)
        assert paused == []

        evictions.evict(msgspec.structs.replace(POD, uid="u-2"))
        assert paused == [10.0]
        client.close()


def test_a_real_pod_goes_and_one_that_took_its_name_stays(cluster: Cluster) -> None:
    cluster.player.add_node("node-a")
    spec = workloads.pod_spec(node="node-a")
    made = cluster.add("v1", "pods", workloads.pod("nb-0", spec))
    await_true("it runs", cluster.running)
    mine = msgspec.structs.replace(POD, uid=made["metadata"]["uid"])
    evictions = Evictions(cluster.client)

    evictions.evict(POD)
    assert "deletionTimestamp" not in cluster.pods()[0]["metadata"]
    assert evictions.accepted == 0
    evictions.evict(mine)

    await_true("it is deleted", lambda: not cluster.running())
    assert evictions.accepted == 1
