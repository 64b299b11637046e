"""Histories of what happens around the node, too: its driver, its Node, its slots.

Always the same ones: a search among others has found cases in which the judge is wrong, or we are.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from remediator.plan.node_decision import NodeDecision
from remediator.plan.view import NodeView
from tests.remediator.histories.played import enforces
from tests.remediator.histories.test_histories import DIES, INDEX, THEN, History


class WiderHistory(History):
    def _rests(self, seen: NodeView, decision: NodeDecision) -> None:
        super()._rests(seen, decision)
        if enforces(self.policy):
            self.taints.miss_nothing(self.calm, seen, decision)

    @rule(away=st.booleans(), index=INDEX, lost=st.booleans(), then=THEN, dies=DIES)
    def a_driver_that_cannot_start(
        self, away: bool, index: int, lost: bool, then: float, dies: int
    ) -> None:
        """Such as while a GPU is lost; another one may fail meanwhile."""
        self.machine.driver_goes(away=away)
        self.then(then, dies)
        if lost:
            self.machine.goes(index, "Lost")
            self.machine.xid(index, 79, None)
            self.then(then, dies)

    @rule(second=st.booleans(), then=THEN, dies=DIES)
    def a_second_driver(self, second: bool, then: float, dies: int) -> None:
        self.machine.second_driver = second
        self.then(then, dies)

    @rule(twin=st.booleans(), then=THEN, dies=DIES)
    def a_twin_for_virtual_machines(self, twin: bool, then: float, dies: int) -> None:
        self.machine.twin = twin
        self.then(then, dies)

    @rule(index=INDEX, then=THEN, dies=DIES)
    def a_new_board_in_another_slot(self, index: int, then: float, dies: int) -> None:
        self.machine.board_moves_to_another_slot(index)
        self.then(then, dies)

    @rule(watched=st.booleans(), then=st.sampled_from([1.0, 61.0, 6 * 86400.0]), dies=DIES)
    def the_watch_of_nodes(self, watched: bool, then: float, dies: int) -> None:
        self.machine.nodes_watched = watched
        self.then(then, dies)

    @rule(others=st.booleans(), away=THEN, then=THEN, dies=DIES)
    def a_node_made_again(self, others: bool, away: float, then: float, dies: int) -> None:
        self.machine.gone = self.machine.silent = True
        self.then(away, dies)
        self.machine.node_is_made_again(others=others)
        self.then(then, dies)


TestWiderHistories = WiderHistory.TestCase
TestWiderHistories.settings = settings(
    derandomize=True,
    database=None,
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
