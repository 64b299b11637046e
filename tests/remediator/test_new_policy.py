"""A policy that comes in the middle of a decision."""

from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from remediator.controller.policy_on_lease import Policies, PolicyOnLease
from remediator.plan.events import Event
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import Step
from remediator.plan.view import Fleet, NodeView
from remediator.policy.file import PolicyFile
from remediator.policy.table import Policy
from remediator.reconcile import Reconciler
from tests.remediator.builders import Stored, at, dead, policy, uuid, view, with_fields
from tests.remediator.clock import Clock
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


@pytest.mark.parametrize(
    ("spared", "effect"), [(uuid(0), "NoSchedule"), (uuid(1, "node-b"), "NoExecute")]
)
def test_the_end_of_an_exemption_holds_the_evictions_of_its_own_gpus_alone(
    tmp_path: Path, spared: str, effect: str
) -> None:
    written = tmp_path / "policy.yaml"
    exempt = f"exempt: [{{devices: {spared}, why: burn-in, until: 2026-01-05T12:00:00Z}}]"
    written.write_text(f"defaults: {{mode: enforce}}\n{exempt}\n", encoding="utf-8")
    clock, changed = Clock(-3600), Fleet()

    def note(changed_at: datetime, before: Policies) -> None:
        nonlocal changed
        changed = Fleet(policy_changed_at=changed_at, policies_before=before)

    file = PolicyFile(written, clock.date, PolicyOnLease(note, clock.date, clock).on_policy_loaded)
    for seconds in (-3600, -3599, 1):
        clock.seconds = seconds
        file.load()

    stored = Stored()
    for second in (2, 3, 10, 11):
        fleet = with_fields(changed, rules=stored.fleet().rules, incidents=stored.fleet().incidents)
        decision = decide_node(stored.over(view(dead(0))), fleet, file.policy, at(second))
        for step in decision.steps:
            stored.take(step, at(second))
    assert stored.effects() == {"gpu-0": effect}
