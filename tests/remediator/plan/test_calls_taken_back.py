"""A call for repair of a node is taken back for pods that came later, whatever else is unknown."""

from remediator.plan.node_condition import WAITING
from tests.remediator.builders import RESET, Stored, dead, gpu, uuid, view
from tests.remediator.plan.handing import reconciled
from tests.remediator.telling import claim, pod


def test_an_undecided_gpu_keeps_no_call_beside_pods_that_came_later() -> None:
    stored, boards = Stored(), (dead(0), gpu(1, recovery_action=RESET), gpu(2))
    said = ("", "", "")
    for second in (1, 2, 6, 20):
        said = reconciled(stored, view(*boards, pods=(), claims=()), second)
    assert said[0] == "True"
    unread = frozenset(name for name in stored.incidents if name.startswith(uuid(1).lower()))
    pods, claims = (pod("big", claims=("claim-of-big",)),), (claim("gpu-2", "big"),)

    for second in (100, 200, 3000):
        seen = view(*boards, pods=pods, claims=claims, unread=unread)
        assert reconciled(stored, seen, second)[:2] == ("False", WAITING)


def test_an_incident_that_has_lost_its_status_takes_no_call_back() -> None:
    """What it needs is not known in the decision that fills it again."""
    stored = Stored()
    for second in (1, 2, 6, 20):
        said = reconciled(stored, view(dead(0), pods=(), claims=()), second)
    assert said[0] == "True"
    stored.rules.clear()
    stored.loses_status(stored.incident.name)

    again = reconciled(stored, view(dead(0), pods=(), claims=()), 30, stopped="alice: looking")

    assert again == said
