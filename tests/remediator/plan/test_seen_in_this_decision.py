"""Caps count what a decision sees, also where incidents say so only from the next one on."""

from datetime import timedelta

import msgspec

from remediator.model.incident_status import RuleRecord
from remediator.model.node import NodeFacts
from remediator.plan.view import Fleet
from remediator.policy.limits import LIFTED, Cap, Caps, Rate
from tests.remediator.builders import Stored, at, dead, gpu, policy, uuid, view, with_fields
from tests.remediator.plan.fleets import an_incident, desired, effects, grant, rule
from tests.remediator.plan.fleets import stored as written
from tests.remediator.playing import claim, evicts_later, pod, settle, tick

LIMITS = msgspec.structs.replace(LIFTED, evict=Caps(cluster=Cap(1)))
ONE = policy(LIMITS)
PODS = (pod("web"), pod("train"))
NODE = NodeFacts(name="node-a", uid="n-1")
WEB, TRAIN = claim("gpu-0", "web"), claim("gpu-1", "train")


def emptied() -> Stored:
    """A node on which one of two GPUs has failed and nobody is left on it."""
    stored = Stored()
    for second in (1, 5, 10):
        settle(stored, view(dead(0), gpu(1), pods=PODS, claims=(WEB, TRAIN)), second, ONE)
    for second in (20, 40):
        settle(stored, view(dead(0), gpu(1), pods=PODS[1:], claims=(TRAIN,)), second, ONE)
    assert stored.incident.status.phase == "Drained"
    return stored


def test_a_gpu_that_a_pod_has_come_back_to_counts_at_once() -> None:
    stored = emptied()
    both = view(dead(0), dead(1), pods=PODS[1:], claims=(TRAIN,))
    settle(stored, both, 50, evicts_later(ONE))
    assert stored.effects()["gpu-1"] == "NoSchedule"

    decision = tick(stored, view(dead(0), dead(1), pods=PODS, claims=(WEB, TRAIN)), 60, ONE)

    (held,) = [planned.granted.deferred for case, planned in decision.pairs if case.uuid == uuid(1)]
    assert stored.effects() == {"gpu-0": "NoExecute", "gpu-1": "NoSchedule"}
    assert "evict.cluster=1 is used up (1/1" in held


def test_while_nobody_comes_back_the_next_gpu_is_emptied() -> None:
    stored = emptied()
    for second in (50, 60):
        settle(stored, view(dead(0), dead(1), pods=PODS[1:], claims=(TRAIN,)), second, ONE)

    assert stored.effects() == {"gpu-0": "NoExecute", "gpu-1": "NoExecute"}


def test_a_gpu_that_a_pod_has_come_back_to_takes_no_room_from_itself() -> None:
    """It is emptied once more, whoever waits."""
    stored = emptied()
    seen = view(dead(0), gpu(1), pods=PODS, claims=(WEB, TRAIN))

    decision = tick(stored, seen, 60, ONE)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert not any(planned.granted.deferred for _, planned in decision.pairs)


def test_nor_does_a_further_device_of_it_wait_for_its_own_sake() -> None:
    fleet = stored_as_drained()

    itself = grant(LIMITS, fleet, desired("a0", "NoExecute", "NoExecute"))["a0"]
    other = grant(LIMITS, fleet, desired("b0", "NoExecute"))["b0"]

    assert effects(itself) == ["NoExecute", "NoExecute"]
    assert effects(other) == ["NoSchedule"]


def test_elsewhere_it_takes_no_room_back_that_others_use() -> None:
    """Its rule names the node that it counts on, which need not be the one that it is seen on."""
    (other,) = written(rule("a1", "NoExecute"))
    moved = stored_as_drained(node="node-z")
    fleet = with_fields(moved, rules=(*moved.rules, other))
    limits = msgspec.structs.replace(LIFTED, evict=Caps(node=Cap(1)))

    answer = grant(limits, fleet, desired("a0", "NoExecute", "NoExecute"))["a0"]

    assert "evict.node=1 is used up (1/1" in answer.deferred


def test_a_further_device_of_it_counts_for_the_rate() -> None:
    rate = Caps(rate=Rate(1, timedelta(minutes=10)))
    limits = msgspec.structs.replace(LIFTED, evict=rate)
    all_desired = desired("a0", "NoExecute", "NoExecute"), desired("b0", "NoExecute")

    answers = grant(limits, stored_as_drained(since=-3600), *all_desired)

    assert effects(answers["a0"]) == ["NoExecute", "NoExecute"]
    assert "evict.rate=1 in 10m is used up" in answers["b0"].deferred


def stored_as_drained(node: str = "node-a", since: float = -60) -> Fleet:
    """One drained GPU, a0, on which a pod is seen again."""
    (mine,) = written(rule("a0", "NoExecute", time_added=at(since), node=node))
    drained = an_incident(
        "a0",
        opened=at(since),
        evicting_at=at(since),
        drained_at=at(since + 30),
        empty_since=at(since + 20),
        rules=(RuleRecord(mine.name, mine.uid, str(mine.device), mine.effect),),
    )
    again = frozenset({(mine.uid, mine.effect)})
    return Fleet(rules=(mine,), incidents=(drained,), filled_again=again)


def test_a_node_that_is_back_counts_at_once() -> None:
    stored, both = Stored(), (WEB, TRAIN)
    well = view(dead(0), gpu(1), pods=PODS, claims=both, nodes_known=True, facts=NODE)
    sick = view(dead(0), dead(1), pods=PODS, claims=both, nodes_known=True, facts=NODE)
    for second in (1, 5, 10):
        settle(stored, well, second, ONE)
    settle(stored, with_fields(well, facts=None, stale="silent"), 15, ONE)
    settle(stored, sick, 20, ONE)
    settle(stored, with_fields(sick, facts=None, stale="silent"), 21, ONE)

    tick(stored, sick, 35, ONE)

    assert stored.effects() == {"gpu-0": "NoExecute", "gpu-1": "NoSchedule"}


def test_a_node_whose_object_is_gone_counts_while_its_hardware_is_reported() -> None:
    """Somebody has deleted the Node; the machine runs on, and its pods with it."""
    stored, both = Stored(), (WEB, TRAIN)
    sick = view(dead(0), dead(1), pods=PODS, claims=both, nodes_known=True)
    for second in (1, 5, 10):
        settle(stored, sick, second, ONE)

    settle(stored, sick, 30, ONE)

    assert sorted(stored.effects().values()) == ["NoExecute", "NoSchedule"]


def test_a_node_is_gone_while_all_of_its_incidents_say_so() -> None:
    """One that cannot be written goes on saying so when the node is back."""
    rules = written(rule("a0", "NoExecute"), rule("a1", "NoExecute"))
    unwritten, back = an_incident("a0", node_gone_since=at(-60)), an_incident("a1")
    limits = msgspec.structs.replace(LIFTED, evict=Caps(cluster=Cap(2)))

    both = grant(
        limits, Fleet(rules=rules, incidents=(unwritten, back)), desired("b0", "NoExecute")
    )
    gone = grant(limits, Fleet(rules=rules, incidents=(unwritten,)), desired("b0", "NoExecute"))

    assert "evict.cluster=2 is used up (2/2" in both["b0"].deferred
    assert not gone["b0"].deferred
