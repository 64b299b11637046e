"""Evictions, as a real API server and a scripted one answer them."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import msgspec
import pytest

from kubeapi.client import ApiError, Client
from remediator.hands.evictions import FIRST_WAIT, LONGEST_WAIT, SETTLING, Evictions
from remediator.objects.incident import PodHold
from simulator.cluster import workloads
from tests.kubeapi import hostile
from tests.kubeapi.hostile import Behaviour, Hostile
from tests.lab.cluster import Cluster, await_true

POD = PodHold("default", "nb-0", "c", "gpu.nvidia.com/node-a/gpu-0", "u-1", "extended")
REFUSED = hostile.refusal(429, "TooManyRequests", "would violate the pod's disruption budget")
ACCEPTED = hostile.body(b"{}", 201)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@contextmanager
def asked(clock: Clock, answers: Sequence[Behaviour]) -> Generator[tuple[Evictions, Hostile]]:
    with Hostile(answers) as server:
        client = Client(server.endpoint, timeout=60.0)
        yield Evictions(client, clock), server
        client.close()


def test_an_accepted_eviction_is_not_asked_for_again() -> None:
    clock = Clock()
    with asked(clock, [ACCEPTED]) as (evictions, server):
        for seconds in (0.0, 1.0, SETTLING - 0.1):
            clock.seconds = seconds
            evictions.evict(POD)

        assert len(server.requests) == 1
        assert "POST /api/v1/namespaces/default/pods/nb-0/eviction" in server.requests[0]
    assert (evictions.accepted, evictions.refused, evictions.waiting) == (1, 0, 0)


def test_a_refusal_is_asked_again_later_and_later_and_ends_no_tick() -> None:
    clock = Clock()
    asked_at: list[float] = []
    with asked(clock, [REFUSED]) as (evictions, server):
        for second in range(200):
            clock.seconds = float(second)
            before = len(server.requests)
            evictions.evict(POD)
            asked_at += [clock.seconds] * (len(server.requests) - before)

    waits = [later - earlier for earlier, later in pairwise(asked_at)]
    assert waits[0] == FIRST_WAIT
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_WAIT
    assert evictions.refused == len(asked_at)
    assert evictions.waiting == 1


def test_the_wait_that_the_server_asks_for_is_kept() -> None:
    clock = Clock()
    answer = hostile.refusal(429, "TooManyRequests", headers="retry-after: 10\r\n")
    with asked(clock, [answer, ACCEPTED]) as (evictions, server):
        for seconds, requests in ((0.0, 1), (9.9, 1), (10.0, 2)):
            clock.seconds = seconds
            evictions.evict(POD)
            assert len(server.requests) == requests
    assert (evictions.accepted, evictions.waiting) == (1, 0)


def test_one_pods_refusal_holds_back_no_other_pod() -> None:
    other = msgspec.structs.replace(POD, pod="nb-1", uid="u-2")
    with asked(Clock(), [REFUSED, ACCEPTED]) as (evictions, server):
        evictions.evict(POD)
        evictions.evict(other)

        assert len(server.requests) == 2
    assert (evictions.accepted, evictions.refused) == (1, 1)


@pytest.mark.parametrize("answer", [hostile.refusal(404), hostile.refusal(409, "Conflict")])
def test_a_pod_that_is_gone_or_another_is_no_error(answer: Behaviour) -> None:
    with asked(Clock(), [answer]) as (evictions, _):
        evictions.evict(POD)
    assert (evictions.accepted, evictions.refused) == (0, 0)


@pytest.mark.parametrize("answer", [hostile.refusal(403), hostile.refusal(500), hostile.drop])
def test_any_other_answer_is_an_error_and_is_asked_again(answer: Behaviour) -> None:
    with asked(Clock(), [answer, ACCEPTED]) as (evictions, _):
        with pytest.raises(ApiError):
            evictions.evict(POD)
        evictions.evict(POD)
    assert evictions.accepted == 1


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
