"""Eviction before NoExecute: one API server in memory, one leader after another."""

from collections.abc import Callable, Generator
from datetime import timedelta

import pytest

from kubeapi.endpoint import Endpoint
from remediator.model.taint_rule import EVICT
from remediator.policy.table import Evict, ForExtended, Policy, Then
from remediator.reconcile import Reconciler
from tests.lab.cluster import await_true
from tests.remediator.builders import NODE, dead, gpu, policy
from tests.remediator.controller.api import CLAIMS, INCIDENTS, PODS, RULES, Api, Json, serving
from tests.remediator.controller.test_blind_watches import Room, leader

WITHIN = timedelta(minutes=10)
LOOKS = timedelta(seconds=50)


@pytest.fixture
def served() -> Generator[tuple[Api, Endpoint]]:
    with serving() as both:
        yield both


@pytest.fixture
def room(served: tuple[Api, Endpoint]) -> Generator[Room]:
    with leader(*served) as one:
        yield one


def asks(room: Room, then: Then = "NoExecute", extended: ForExtended = "wait") -> Policy:
    rows = policy(evict=Evict(within=WITHIN, then=then, extended_resources=extended))
    room.reconciler = Reconciler(room.cluster, lambda: rows)
    return rows


def runs(room: Room, name: str, *, extended: bool = False) -> None:
    """Start a pod that holds the node's GPU."""
    room.hold("gpu-0", name)
    notes = {"resource.kubernetes.io/extended-resource-claim": "true"} if extended else {}
    room.api.put(CLAIMS, f"claim-{name}", metadata={"annotations": notes})
    meta = {"uid": f"u-{name}", "namespace": "team"}
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
    room.api.put(PODS, name, metadata=meta, spec={"nodeName": NODE}, status=ready)
    room.seen(
        "the claim is known",
        lambda: any(
            claim.metadata.name == f"claim-{name}" for claim in room.cluster.peek(NODE).usage.claims
        ),
    )


def sick(room: Room, *pods: str, extended: bool = False) -> None:
    """Taint a dead GPU that pods hold, and wait until its settle time is over."""
    room.publish(gpu(0))
    room.report(gpu(0))
    for name in pods:
        runs(room, name, extended=extended)
    room.report(dead(0))
    room.seen("it is reported", lambda: _lost(room))
    room.decide()
    assert room.api.effects() == {"gpu-0": "NoSchedule"}
    room.ahead += timedelta(seconds=5)


def _lost(room: Room) -> bool:
    seen = room.cluster.peek(NODE).agent.report
    return seen is not None and seen.gpus[0].presence == "Lost"


def later(room: Room, passed: timedelta) -> None:
    """Let time pass for decisions, with a look now and then: only that counts of `within`."""
    until_then = room.ahead + passed
    while room.ahead < until_then:
        room.ahead = min(room.ahead + LOOKS, until_then)
        room.decide()


def until(room: Room, what: str, condition: Callable[[], object]) -> None:
    def decided() -> object:
        room.decide(2)
        return condition()

    await_true(what, decided)


def status(room: Room) -> Json:
    (one,) = room.api.stored[INCIDENTS].values()
    return one["status"]


def start_time(room: Room) -> str | None:
    """Return since when evictions from the one device have been requested."""
    by_device = status(room).get("eviction", {}).get("byDevice", [])
    return by_device[0].get("startTime") if by_device else None


def condition(room: Room, kind: str) -> str:
    found = {entry["type"]: entry.get("message", "") for entry in status(room)["conditions"]}
    return str(found.get(kind, ""))


def test_a_pod_is_evicted_by_request_under_noschedule(room: Room) -> None:
    asks(room)
    sick(room, "a")

    until(room, "the pod is gone", lambda: "a" not in room.api.stored[PODS])

    assert room.api.evictions == ["a"]
    assert room.api.effects() == {"gpu-0": "NoSchedule"}
    (rule,) = room.api.stored[RULES].values()
    assert rule["metadata"]["annotations"][EVICT] == "true"


def test_two_budgets_block_their_own_pod_only(room: Room) -> None:
    asks(room)
    room.api.protected = {"a": 500}

    sick(room, "a", "b")

    until(room, "the other one is gone", lambda: "b" not in room.api.stored[PODS])
    assert "a" in room.api.stored[PODS]
    until(room, "the incident names it", lambda: "team/a" in condition(room, "EvictionRefused"))


def test_after_the_time_it_is_noexecute_and_the_mark_is_gone(room: Room) -> None:
    asks(room)
    room.api.protected = {"a": 429}
    sick(room, "a")
    until(room, "it was refused", lambda: room.api.evictions)
    until(room, "the clock is stored", lambda: start_time(room))

    later(room, WITHIN)

    until(room, "it is NoExecute", lambda: room.api.effects() == {"gpu-0": "NoExecute"})
    (rule,) = room.api.stored[RULES].values()
    assert EVICT not in rule["metadata"]["annotations"]


def test_a_leader_that_takes_over_goes_on_with_the_same_clock(
    room: Room, served: tuple[Api, Endpoint]
) -> None:
    asks(room)
    room.api.protected = {"a": 429}
    sick(room, "a")
    until(room, "the clock is stored", lambda: start_time(room))
    later(room, WITHIN - timedelta(seconds=60))
    began, requests = start_time(room), len(room.api.evictions)

    # What the old leader remembers dies with it: its backoff, and what it requested.
    with leader(*served) as other:
        asks(other)
        other.ahead = room.ahead
        until(other, "it asks again", lambda: len(other.api.evictions) > requests)
        assert start_time(other) == began
        assert other.api.effects() == {"gpu-0": "NoSchedule"}

        later(other, timedelta(seconds=61))
        until(other, "it is NoExecute", lambda: other.api.effects() == {"gpu-0": "NoExecute"})


def test_what_waits_says_which_pod_and_goes_on_when_the_budget_allows(room: Room) -> None:
    asks(room, "wait")
    room.api.protected = {"a": 429}
    sick(room, "a")
    until(room, "the clock is stored", lambda: start_time(room))
    later(room, WITHIN)
    until(room, "it is reported", lambda: "team/a (Ready)" in condition(room, "EvictionBlocked"))
    assert room.api.effects() == {"gpu-0": "NoSchedule"}

    room.api.protected = {}

    until(room, "the pod is gone", lambda: "a" not in room.api.stored[PODS])
    until(room, "nothing blocks", lambda: not condition(room, "EvictionBlocked"))


@pytest.mark.parametrize(("extended", "deleted"), [("wait", []), ("delete", ["a"])])
def test_a_pod_of_an_extended_resource_waits_or_is_deleted(
    room: Room, extended: ForExtended, deleted: list[str]
) -> None:
    asks(room, extended=extended)
    room.api.protected = {"a": 429}
    sick(room, "a", extended=True)
    until(room, "the clock is stored", lambda: start_time(room))
    later(room, WITHIN)
    until(room, "it is NoExecute", lambda: room.api.effects() == {"gpu-0": "NoExecute"})

    requests = len(room.api.evictions)
    until(
        room,
        "it goes, or is requested again",
        lambda: room.api.deletions or len(room.api.evictions) > requests,
    )

    assert room.api.deletions == deleted
