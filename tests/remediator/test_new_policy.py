"""A policy that comes in the middle of a decision."""

from datetime import datetime

import msgspec

from remediator.plan.events import Event
from remediator.plan.steps import Step
from remediator.plan.view import Fleet, NodeView
from remediator.policy.table import Policy
from remediator.reconcile import Reconciler
from tests.remediator.builders import Stored, at, dead, policy, view
from tests.remediator.playing import settle


class ReadMeanwhile:
    """Cluster and policy file: one that moves pods comes once the fleet was looked at."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self.in_force = policy(ceiling="NoSchedule")
        self.changed_at: datetime | None = None

    def policy(self) -> Policy:
        return self.in_force

    def observe(self, node: str) -> NodeView:
        return self.stored.over(view(dead(0), node=node))

    def confirm(self, *_: object) -> str:
        return ""

    def fleet(self) -> Fleet:
        before = msgspec.structs.replace(self.stored.fleet(), policy_changed_at=self.changed_at)
        self.changed_at, self.in_force = at(5), policy()
        return before

    def apply(self, step: Step) -> None:
        self.stored.take(step, at(5))

    def post(self, event: Event, now: datetime) -> None:
        """Events do not matter here."""


def test_a_new_policy_never_meets_the_date_of_the_one_before() -> None:
    """Or nobody would be held for the time after a change, and pods would be moved at once."""
    stored = Stored()
    cluster = ReadMeanwhile(stored)
    settle(stored, view(dead(0)), 1, cluster.policy())
    reconciler = Reconciler(cluster, cluster.policy)

    for second in (5, 6):
        reconciler.reconcile("node-a", at(second))
        assert stored.effects() == {"gpu-0": "NoSchedule"}
    assert "the policy changed less than" in stored.incident.status.message
