"""One GPU's trouble costs that GPU: the others, and all deletions, go on."""

from datetime import datetime

import pytest

from kubeapi.client import ApiError
from remediator.decide import plan
from remediator.decide.fleet import Fleet
from remediator.decide.plan import DeleteRule, Step
from remediator.decide.reconcile import Reconciler
from remediator.decide.view import NodeView
from remediator.objects.events import Event
from tests.remediator.builders import Stored, action, at, dead, gpu, policy, uuid, view, xid
from tests.remediator.telling import settle


class RefusesOne:
    """Stores every step but those of one GPU, which the server refuses; deletions pass."""

    def __init__(self, seen: NodeView, stored: Stored, refused: str) -> None:
        self.seen = seen
        self.stored = stored
        self.refused = refused
        self.tried: list[Step] = []

    def view(self, node: str) -> NodeView:
        assert node == self.seen.node
        return self.stored.over(self.seen)

    def fleet(self) -> Fleet:
        return self.stored.fleet()

    def take(self, step: Step) -> None:
        self.tried.append(step)
        if plan.gpu_of(step) == self.refused and not isinstance(step, DeleteRule):
            raise ApiError("422 Unprocessable", status=422)
        self.stored.take(step, at(700))

    def post(self, event: Event, now: datetime) -> None:
        """Events do not matter here."""


def test_a_step_that_always_fails_stops_no_other_gpu_and_no_release() -> None:
    stored = Stored()
    sick = gpu(2, xid(95), recovery_action=action(1, 1, 1))
    mended = gpu(2, xid(95), recovery_action=action(0, 2, 2))
    settle(stored, view(sick), 1)
    settle(stored, view(mended), 2)
    hands = RefusesOne(view(dead(0), dead(1), mended), stored, refused=uuid(0))

    with pytest.raises(ApiError, match="422"):
        Reconciler(hands, policy).reconcile("node-a", at(700))

    assert stored.effects() == {"gpu-1": "NoSchedule"}
    assert sum(plan.gpu_of(step) == uuid(0) for step in hands.tried) == 1
