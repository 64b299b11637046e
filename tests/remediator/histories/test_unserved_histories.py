"""The same histories in a cluster that serves no DeviceTaintRules: only nodes are repaired."""

from datetime import datetime

from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant

from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.view import NodeView
from tests.remediator.builders import Stored, with_fields
from tests.remediator.histories.test_histories import HISTORYS, History


class UnservedHistory(History):
    """Nothing keeps pods away, and no repair is called for over one before its deadline."""

    def view(self) -> NodeView:
        return with_fields(super().view(), rules_served=False)

    def decide(self, stored: Stored, seen: NodeView, now: datetime | None = None) -> NodeDecision:
        fleet = with_fields(stored.fleet(), rules_served=False)
        view, now = self.over(stored, seen), now or self.clock
        return decide_node(view, fleet, self.in_use(), now, self.options)

    @invariant()
    def no_rule_is_written_and_no_pod_is_evicted(self) -> None:
        for stored in self.both():
            assert (stored.rules, stored.evicted) == ({}, [])


TestUnservedHistories = UnservedHistory.TestCase
TestUnservedHistories.settings = settings(
    max_examples=max(HISTORYS // 4, 1),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
