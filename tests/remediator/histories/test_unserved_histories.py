"""The same histories in a cluster that serves no DeviceTaintRules: only nodes are repaired."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant

from remediator.plan.view import Fleet, NodeView
from tests.remediator.builders import Stored, with_fields
from tests.remediator.histories.test_histories import HISTORYS, History


class UnservedHistory(History):
    """Nothing keeps pods away, and no repair is called for over one before its deadline."""

    def view(self) -> NodeView:
        return with_fields(super().view(), rules_served=False)

    def fleet(self, stored: Stored) -> Fleet:
        return with_fields(super().fleet(stored), rules_served=False)

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
