"""What is not known of one GPU neither makes nor keeps a call for repair of its node."""

import pytest

from exporter.model.node_health import GpuHealth
from remediator.diagnose.fault import Verdict
from remediator.model.intent import Intent
from remediator.model.node import HARDWARE_READY, PROBLEM, REPAIR_NEEDED, NodeFacts
from remediator.plan.node_condition import HELD, VERIFYING, WAITING, conditions
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import WriteNodeConditions, disruption
from remediator.plan.view import NodeView
from remediator.policy.limits import LIFTED, Cap, Caps, Limits
from tests.remediator.builders import (
    NODE,
    RESET,
    Stored,
    action,
    at,
    dead,
    gpu,
    incident,
    policy,
    repair_request,
    report_with,
    uuid,
    view,
    with_fields,
)
from tests.remediator.plan.handover import HEALTHY, ON, SICK, UNKNOWN, node, pair, reconciled
from tests.remediator.plan.handover import stored as stored_before
from tests.remediator.playing import claim, pod


def idle(*gpus: GpuHealth) -> NodeView:
    return view(*gpus, pods=(), claims=())


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


def test_a_call_is_over_with_its_gpu_whatever_defers_that_of_another_one() -> None:
    stored, both = Stored(), (dead(0), dead(1))
    for second in (1, 2, 6):
        assert reconciled(stored, idle(dead(0), gpu(1)), second)[0] == "True"
    ours, theirs = stored.incident.name, f"{uuid(1).lower()}-1"
    reconciled(stored, idle(*both), 20, stopped="drill")
    stored.intend("Hold", Intent(by="bob", reason="do not touch", until=at(9000)), theirs)
    for second in (30, 40):
        stands = reconciled(stored, idle(*both), second)
        assert (stands[0], uuid(0) in stands[2], uuid(1) in stands[2]) == ("True", True, False)

    stored.intend("Ignore", Intent(by="ana", reason="a false alarm"), ours)

    assert reconciled(stored, idle(*both), 50)[:2] == ("False", HELD)


@pytest.mark.parametrize("what", ["hold", "stop", "budget"])
def test_a_boot_has_answered_a_call_whatever_defers_the_next_one(what: str) -> None:
    """The GPU is missing after the reboot, and a replacement waits. It was True: reboot again."""
    stored = Stored()
    for second in (1, 2, 6):
        assert reconciled(stored, idle(dead(0), gpu(1)), second)[0] == "True"
    if what == "hold":
        hold = Intent(by="bob", reason="let me look", until=at(90000))
        stored.intend("Hold", hold, stored.incident.name)
    stopped = "drill" if what == "stop" else ""
    limits = Limits(evict=Caps(cluster=Cap(1))) if what == "budget" else LIFTED
    other = incident(
        0, node="node-z", mode="Enforce", request=repair_request(at(90), node="node-z")
    )
    others = (other,) if what == "budget" else ()
    rows = policy(limits)
    after = idle(gpu(1))
    after = with_fields(after, report=report_with(after, boot_id="boot-2"))

    stands = ("", "", "")
    for second in (100, 130, 170, 7000):
        stands = reconciled(stored, after, second, rows, stopped=stopped, incidents=others)
        assert stands[0] == "False", second

    assert stands[1] == HELD
    assert stands[2].startswith(f"replacement needed by {uuid(0)}")


def test_an_unread_gpu_keeps_no_call_that_was_for_another_one() -> None:
    stored = Stored()
    for second in (1, 2, 6):
        stated = reconciled(stored, idle(dead(0), gpu(1, recovery_action=RESET)), second)
    assert (stated[0], uuid(1) in stated[2]) == ("True", False)
    back = gpu(0, epoch=2, epoch_started=at(90), recovery_action=action(0, 90, 100))
    after = idle(back, gpu(1, recovery_action=RESET))
    unread = frozenset({f"{uuid(1).lower()}-1"})
    after = with_fields(after, report=report_with(after, boot_id="boot-2"), unread=unread)

    assert reconciled(stored, after, 100)[:2] == ("False", VERIFYING)


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


@pytest.mark.parametrize(
    ("kind", "reason", "begins"),
    [
        (REPAIR_NEEDED, "NodeRebootNeeded", False),
        (REPAIR_NEEDED, "ReplacementNeeded", True),
        (HARDWARE_READY, "NvidiaXID79Error", False),
    ],
)
def test_a_call_for_another_act_is_one_that_begins(kind: str, reason: str, *, begins: bool) -> None:
    """So what it rests on is read once more. Other words, or another XID, begin nothing."""
    before = stored_before(kind=kind, status=PROBLEM[kind])
    after = with_fields(before, reason=reason, message="in other words")

    found = disruption([WriteNodeConditions(NODE, (after,))], (), (before,))

    assert found.repair is begins
