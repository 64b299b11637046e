"""What is not known of one GPU neither makes nor keeps a call for repair of its node."""

import pytest

from remediator.diagnose.fault import Verdict
from remediator.model.node import NodeFacts
from remediator.plan.node_condition import WAITING, conditions
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import WriteNodeConditions
from remediator.policy.limits import LIFTED
from tests.remediator.builders import NODE, RESET, Stored, at, dead, gpu, policy, uuid, view
from tests.remediator.plan.handover import HEALTHY, ON, SICK, UNKNOWN, node, pair, reconciled
from tests.remediator.plan.handover import stored as stored_before
from tests.remediator.playing import claim, pod


def test_an_undecided_gpu_keeps_no_call_beside_pods_that_came_later() -> None:
    stored, boards = Stored(), (dead(0), gpu(1, recovery_action=RESET), gpu(2))
    stated = ("", "", "")
    for second in (1, 2, 6, 20):
        stated = reconciled(stored, view(*boards, pods=(), claims=()), second)
    assert stated[0] == "True"
    unread = frozenset(name for name in stored.incidents if name.startswith(uuid(1).lower()))
    pods, claims = (pod("big", claims=("claim-of-big",)),), (claim("gpu-2", "big"),)

    for second in (100, 200, 3000):
        seen = view(*boards, pods=pods, claims=claims, unread=unread)
        assert reconciled(stored, seen, second)[:2] == ("False", WAITING)


def test_an_incident_that_has_lost_its_status_takes_no_call_back() -> None:
    """What it needs is not known in the decision that fills it again."""
    stored = Stored()
    for second in (1, 2, 6, 20):
        stated = reconciled(stored, view(dead(0), pods=(), claims=()), second)
    assert stated[0] == "True"
    stored.rules.clear()
    stored.loses_status(stored.incident.name)

    again = reconciled(stored, view(dead(0), pods=(), claims=()), 30, stopped="alice: looking")

    assert again == stated


def test_nor_does_a_call_begin_in_the_decision_that_fills_one_again() -> None:
    """Its pods may have been promised more time than the other GPU gives them."""
    stored, boards = Stored(), (dead(0), gpu(1, recovery_action=RESET))
    busy = view(*boards, pods=(pod("web"),), claims=(claim("gpu-0", "web"),))
    for second in (1, 2, 6, 20):
        assert reconciled(stored, busy, second)[:2] == ("False", WAITING)
    (lost,) = [name for name in stored.incidents if name.startswith(uuid(1).lower())]
    stored.loses_status(lost)
    conditions = tuple(stored.conditions.values())
    facts = NodeFacts(name=NODE, uid="u", conditions=conditions)
    empty = view(*boards, pods=(), claims=(), facts=facts, nodes_known=True)

    decision = decide_node(stored.over(empty), stored.fleet(), policy(LIFTED), at(30), ON)

    assert not [step for step in decision.steps if isinstance(step, WriteNodeConditions)]
    assert reconciled(stored, empty, 30)[0] == "True"


@pytest.mark.parametrize("verdict", [SICK, HEALTHY, UNKNOWN])
def test_an_incident_that_is_in_no_mode_yet_changes_nothing(verdict: Verdict) -> None:
    """Its status is filled again in two steps."""
    for before in ((), (stored_before(),)):
        assert conditions(node(*before), [pair(mode="", verdict=verdict)], at(60), ON) == ()
