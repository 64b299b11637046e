"""A pod that a claim is reserved for and that no list has: waited for, and gone in the end."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from kubeapi.client import Client
from remediator.controller.absent_pods import AbsentPods
from remediator.controller.node_pods import REMEMBERED, REMEMBERED_WITHOUT, NodePods
from remediator.model.claim import POD_GROUPS
from remediator.plan.pods import GONE_AFTER
from remediator.plan.view import NodeView
from tests.kubeapi import hostile
from tests.kubeapi.hostile import Behaviour, Hostile
from tests.remediator.builders import NODE, dead, gpu, view
from tests.remediator.clock import Clock
from tests.remediator.controller.api import PODS, serving
from tests.remediator.controller.test_blind_watches import SETTLED, leader, set_up
from tests.remediator.playing import claim

LATE = GONE_AFTER.total_seconds()
UNKNOWN_OWNER = "team/train-on-b: its owner is not known"
GHOST = view(dead(), claims=(claim("gpu-0", "train-0"), claim("gpu-0", "ghost")))


class Looks:
    """One node that is looked at again and again."""

    def __init__(self, pods: AbsentPods, clock: Clock, server: Hostile) -> None:
        self.pods = pods
        self.clock = clock
        self.server = server

    def at(self, seconds: float, seen: NodeView = GHOST) -> NodeView:
        self.clock.seconds = seconds
        return self.pods.with_pods(seen, live=False)

    def live(self) -> list[bool]:
        """Return for each list whether the newest state was requested."""
        return ["resourceVersion" not in request for request in self.server.requests]


@contextmanager
def looks(*answers: Behaviour) -> Generator[Looks]:
    clock = Clock()
    with Hostile(answers) as server:
        client = Client(server.endpoint, timeout=60.0)
        yield Looks(AbsentPods(NodePods(client, clock), clock), clock, server)
        client.close()


def listed(*names: str, group: str = "") -> Behaviour:
    spec = {"schedulingGroup": {"podGroupName": group}} if group else {}
    metas = ({"name": name, "namespace": "team", "uid": f"u-{name}"} for name in names)
    return hostile.listing("1", *({"metadata": meta, "spec": spec} for meta in metas))


def for_group(name: str) -> NodeView:
    return view(dead(), claims=(claim("gpu-0", name, resource=POD_GROUPS),))


def names(seen: NodeView) -> Sequence[str]:
    return [pod.name for pod in seen.usage.pods or ()]


def test_a_pod_that_lists_have_lacked_for_long_is_gone_when_the_newest_lacks_it_too() -> None:
    with looks(listed("train-0")) as node:
        for seconds in (0.0, 60.0, LATE - 1):
            assert node.at(seconds).usage.pods_gone == frozenset()
        assert node.live() == [False] * 3, "nothing is read for it before"

        seen = node.at(LATE + 4)
        assert (seen.usage.pods_gone, seen.usage.pods_live) == ({"u-ghost"}, True)
        assert node.live() == [False] * 4 + [True]
        assert node.at(LATE + 60).usage.pods_gone == {"u-ghost"}
        assert node.live() == [False] * 4 + [True, False], "once is enough"


HELD, FREE = view(dead(), claims=(claim("gpu-0"),)), view(dead())


def test_a_claim_that_is_given_back_shows_at_once_that_its_pod_has_ended() -> None:
    with looks(listed("train-0"), listed()) as node:
        assert names(node.at(0, HELD)) == ["train-0"]

        assert names(node.at(0.3, FREE)) == []
        assert len(node.live()) == 2
        node.at(0.6, FREE)
        assert len(node.live()) == 2, "once is enough"


def test_a_claim_that_loses_one_of_its_pods_has_given_that_one_back() -> None:
    both = view(dead(), claims=(claim("gpu-0", reserved=("train-0", "train-1")),))
    with looks(listed("train-0", "train-1"), listed("train-0")) as node:
        node.at(0, both)

        assert names(node.at(0.3, HELD)) == ["train-0"]


def test_a_claim_that_comes_and_one_that_stays_are_no_reason_to_list_pods_anew() -> None:
    with looks(listed("train-0")) as node:
        for seconds, seen in ((0, FREE), (0.3, HELD), (0.6, HELD)):
            node.at(seconds, seen)

        assert len(node.live()) == 1


def test_a_pod_that_only_the_cache_lacks_is_there() -> None:
    with looks(listed("train-0"), listed("train-0"), listed("train-0", "ghost")) as node:
        node.at(0)
        seen = node.at(LATE)

        assert seen.usage.pods_gone == frozenset()
        assert (names(seen), seen.usage.pods_live) == (["train-0", "ghost"], True)


def test_the_time_is_its_own_and_begins_anew_for_one_that_comes_back() -> None:
    early, both = listed("train-0"), listed("train-0", "ghost")
    with looks(early, both, early, early, early) as node:
        for seconds in (0.0, 60.0, 70.0, LATE + 69):
            assert node.at(seconds).usage.pods_gone == frozenset()

        assert node.at(LATE + 70).usage.pods_gone == {"u-ghost"}


def test_one_that_is_reserved_later_is_waited_for_from_then_on() -> None:
    alone = view(dead(), claims=(claim("gpu-0", "train-0"),))
    with looks(listed("train-0")) as node:
        node.at(0, alone)
        assert node.at(LATE).usage.pods_gone == frozenset()


def test_one_that_comes_a_moment_later_is_found_as_fast_as_a_node_may_be_listed() -> None:
    with looks(listed("train-0"), listed("train-0", "ghost")) as node:
        node.at(0)
        assert names(node.at(REMEMBERED_WITHOUT - 0.1)) == ["train-0"]
        assert names(node.at(REMEMBERED_WITHOUT)) == ["train-0", "ghost"]
        node.at(REMEMBERED_WITHOUT + REMEMBERED - 0.1)
        assert node.live() == [False] * 2, "a list that lacks nothing is good for longer"


def test_one_that_is_gone_needs_no_lists_faster_than_others() -> None:
    with looks(listed("train-0")) as node:
        for seconds in (0.0, LATE, LATE + REMEMBERED, LATE + REMEMBERED + REMEMBERED_WITHOUT):
            node.at(seconds)
        assert node.live() == [False, False, True, False]


def test_nothing_is_proven_while_pods_cannot_be_listed() -> None:
    with looks(listed("train-0"), listed("train-0"), hostile.refusal(403, "Forbidden")) as node:
        node.at(0)
        seen = node.at(LATE)
        assert (seen.usage.pods_gone, names(seen)) == (frozenset(), ["train-0"])

        assert node.at(LATE + 10).usage.pods is None
        assert node.at(LATE + 20).usage.pods_gone == frozenset()


def test_a_group_is_gone_with_the_last_of_its_pods() -> None:
    ring = for_group("ring")
    with looks(listed("ring-0", group="ring"), listed()) as node:
        assert node.at(0, ring).usage.pods_gone == frozenset()
        assert node.at(10, ring).usage.pods_gone == frozenset()
        assert node.at(10 + LATE, ring).usage.pods_gone == {"u-ring"}


def test_what_is_reserved_on_other_nodes_is_not_looked_for() -> None:
    other = view(dead(), claims=(claim("gpu-7", "peer-0", pool="node-b"),))
    with looks(listed()) as node:
        node.at(0, other)
        node.at(LATE, other)

        assert node.live() == [False, False]


def test_a_node_that_needs_no_pods_any_more_is_forgotten() -> None:
    with looks(listed("train-0")) as node:
        node.at(0)
        assert node.pods.without_pods(GHOST) == GHOST
        assert node.at(LATE).usage.pods_gone == frozenset()


def test_a_reservation_that_nobody_takes_back_stops_noexecute_for_two_minutes() -> None:
    time = Clock()
    with serving() as (api, endpoint), leader(api, endpoint, time) as room:
        set_up(room)
        api.drop(PODS, "train-on-b")
        room.report(dead(0), gpu(1))
        room.seen("it is sick", lambda: room.decide().pairs and room.api.effects())
        room.ahead = SETTLED
        time.seconds = 10.0
        room.seen("it waits", lambda: room.decide() and UNKNOWN_OWNER in room.message())
        assert room.api.effects() == {"gpu-0": "NoSchedule"}

        time.seconds = LATE + 20
        room.decide()
        assert room.api.effects() == {"gpu-0": "NoExecute"}
        assert room.cluster.peek(NODE).usage.pods_gone == {"u-train-on-b"}
