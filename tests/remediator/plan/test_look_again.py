"""When a node is looked at again whose watches lag, while another GPU's pods are being evicted."""

from datetime import timedelta
from itertools import pairwise

from remediator.plan.board import RENEWALS_NEEDED
from remediator.plan.steps import Disruption
from remediator.plan.view import NodeView
from remediator.policy.table import Evict
from remediator.reconcile import Reconciler
from tests.remediator.builders import action, at, dead, gpu, policy, view
from tests.remediator.plan.test_trust import Looking
from tests.remediator.playing import claim, pod

DIFFERS = "the report of node-a differs from what the watch reported"
PATIENT = policy(evict=Evict(within=timedelta(hours=9), then="wait"))


class OlderReport(Looking):
    """What is evicted already is as seen, what would be untainted is not."""

    def confirm(self, _: NodeView, begins: Disruption, /) -> str:
        return DIFFERS if begins.untainted else ""


def both(seconds: float) -> NodeView:
    """A pod stays on gpu-0, which is lost; gpu-1 was lost, and answers again."""
    repaired = gpu(1, epoch_started=at(200), epoch=2, recovery_action=action(0, 250, 250))
    confirmed = tuple(at(seconds - 60 * minute) for minute in range(RENEWALS_NEEDED))
    second = dead(1) if seconds < 300 else repaired
    return view(dead(0), second, claims=(claim("gpu-0"),), pods=(pod(),), renewals=confirmed)


def test_evictions_that_go_on_do_not_hurry_the_looks_before_an_untaint() -> None:
    cluster = OlderReport(both(0))
    reconciler = Reconciler(cluster, lambda: PATIENT)
    for seconds in (100, 110, 120, 300, 800):
        cluster.seen = both(seconds)
        cluster.rounds(reconciler, seconds)
    assert set(cluster.stored.effects()) == {"gpu-0", "gpu-1"}

    waits: list[timedelta] = []
    for number in range(12):
        cluster.seen = both(5000 + number)
        decision = cluster.rounds(reconciler, 5000 + number, times=1)
        assert decision.begins.continued, "its pod is still to be evicted"
        assert decision.unconfirmed == DIFFERS
        assert decision.wake_at is not None
        waits.append(decision.wake_at - cluster.now)
    assert all(wait <= other for wait, other in pairwise(waits))
    assert waits[0] == timedelta(seconds=0.25)
    assert waits[-1] > timedelta(seconds=4)
