"""Found histories of a soak, and of a call for repair beside an eviction."""

from datetime import timedelta

from remediator.plan.node_condition import HandoverOptions
from remediator.plan.node_decision import NodeDecision
from remediator.plan.steps import ChangeRule, WriteNodeConditions
from remediator.plan.view import NodeView
from remediator.policy.table import Evict
from tests.remediator.histories.taints import raises
from tests.remediator.histories.test_evict_histories import EvictHistory
from tests.remediator.histories.test_found import NO_CALLS
from tests.remediator.histories.test_frozen_histories import FrozenHistory
from tests.remediator.histories.test_histories import History

CALLS = HandoverOptions(
    enabled=True, deadline=timedelta(seconds=30), accelerated_hardware_ready=True
)


def test_a_soak_begins_anew_with_a_contained_error_that_leaves_nothing_to_watch() -> None:
    history = EvictHistory()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.a_policy(plan=Evict(within=timedelta(0), then="NoExecute", extended_resources="wait"))
    history.an_old_driver_whose_agent_forgets(dies=0, index=0)
    for _ in range(12):
        history.a_reboot(dies=0, then=0.1)
    history.an_xid(code=94, dies=0, gi=None, index=0, then=0.1)
    history.teardown()


def test_a_call_waits_for_pods_or_for_the_budget_that_their_eviction_has_used_up() -> None:
    """The leader dies when the eviction has begun, before the call is recorded."""
    history = History()
    history.a_cluster(options=CALLS, dynamic=True, placing=False)
    history.a_pod_goes(dies=0, index=0, part=0, then=0.1)
    history.a_driver_without_recovery_action(dies=0, index=0, then=0.1)
    history.an_old_driver_whose_agent_forgets(dies=0, index=1)
    history.an_agent_that_forgets(dies=0, then=0.1)
    history.others_are_called(board=True, dies=0, early=False, held="", index=0, then=0.5)
    history.maintenance(dies=0, lasts=2.0, then=0.1)
    history.an_agent_that_forgets(dies=0, then=0.1)
    history.a_gpu_goes_or_comes(dies=0, index=1, presence="Unknown", then=0.1)
    history.an_error_is_named_late(dies=1, gi=1, late=0.1, then=4000.0)
    history.teardown()


def test_the_reason_for_other_agents_names_only_what_the_call_names() -> None:
    """Two leaders know another cause for the GPU that is not called for."""
    history = History()
    history.a_cluster(options=CALLS, placing=True, dynamic=False)
    history.another_board(dies=0, index=0, then=0.1)
    history.an_old_driver_whose_agent_forgets(dies=0, index=0)
    history.another_board(dies=0, index=0, then=0.1)
    history.a_driver_that_publishes(dies=0, hidden=False, index=0, then=0.1)
    history.an_agent_that_forgets(dies=0, then=0.1)
    history.an_agent_that_forgets(dies=0, then=0.1)
    history.others_are_called(board=False, dies=0, early=False, held="", index=1, then=0.1)
    history.an_agent_that_forgets(dies=0, then=0.1)
    history.a_reading_tells_the_places(dies=0, index=0, then=0.1)
    history.a_person_says(dies=0, index=0, kind="Hold", lasts=None, then=0.1)
    history.an_agent_that_forgets(dies=0, then=0.5)
    history.an_agent_that_forgets(dies=0, then=0.1)
    history.an_error_is_named_late(dies=0, gi=1, late=0.1, then=0.1)
    history.the_leaders_clock_jumps(ahead=0.0, dies=0, then=0.1)
    history.others_are_called(board=True, dies=0, early=False, held="", index=0, then=0.1)
    history.an_xid(code=119, dies=0, gi=None, index=0, then=0.1)
    history.a_person_deletes_an_incident(dies=0, ruled=False, then=601.0, which=0)
    history.a_recovery_action(dies=4, index=0, then=3.0, value=4)
    history.a_pod_goes(dies=0, index=0, part=0, then=61.0)
    history.teardown()


def test_a_rule_that_is_made_again_gives_pods_time_and_withdraws_no_repair() -> None:
    """A person deletes a rule, and the leader dies when it has made it again."""
    history = FrozenHistory()
    history.a_policy(plan=Evict(within=timedelta(seconds=30), then="NoExecute"))
    history.a_cluster(options=CALLS, placing=False, dynamic=False)
    history.pods_keep_joining(dies=0, index=1)
    history.a_gpu_goes_or_comes(dies=0, index=0, presence="Lost", then=0.1)
    history.a_person_deletes_a_rule(dies=2, then=601.0, which=3)
    history.teardown()


class Noted(EvictHistory):
    """Notes at which moments rules are raised, and a repair of the node is requested."""

    def __init__(self) -> None:
        super().__init__()
        self.raised_at: set[float] = set()
        self.called_at: set[float] = set()

    def judge(self, seen: NodeView, decision: NodeDecision, before: set[str]) -> None:
        super().judge(seen, decision, before)
        for step in decision.steps:
            if isinstance(step, ChangeRule) and raises(step):
                self.raised_at.add(self.machine.now)
            if isinstance(step, WriteNodeConditions) and "True" in {
                condition.status for condition in step.conditions
            }:
                self.called_at.add(self.machine.now)


def test_no_call_begins_in_the_decision_that_lets_pods_of_another_gpu_be_evicted() -> None:
    """An eviction that waits makes room in the caps, and who is evicted next has time to go."""
    history = Noted()
    history.a_policy(plan=Evict(within=timedelta(minutes=10), then="NoExecute"))
    history.a_cluster(
        options=HandoverOptions(enabled=True, deadline=timedelta(seconds=30)),
        dynamic=False,
        placing=False,
    )
    history.an_old_driver_whose_agent_forgets(dies=0, index=0)
    history.a_sick_gpu_is_held_for_long(index=1, then=0.1, why="")
    history.pods_keep_joining(dies=1, index=0)
    assert history.raised_at
    assert not history.raised_at & history.called_at
    history.teardown()


def test_slices_that_are_made_anew_as_the_soak_ends_get_no_rule_for_a_moment() -> None:
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.a_person_says(dies=0, index=0, kind="Hold", lasts=None, then=0.1)
    history.an_error_is_named_late(dies=0, gi=1, late=11.0, then=601.0)
    history.another_layout(dies=0, then=4000.0)
    history.teardown()


def test_a_gpu_that_is_renamed_as_its_soak_ends_gets_no_rule_for_a_moment() -> None:
    history = FrozenHistory()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.a_policy(plan=Evict(within=timedelta(0), then="NoExecute", extended_resources="wait"))
    history.a_gpu_is_lost_unseen_by_others(
        dies=0,
        index=0,
        kinds=frozenset({"slices"}),
        late=0.1,
        moves=False,
        then=0.1,
        who="pod-9",
    )
    history.a_reboot(dies=0, then=0.1)
    history.another_release_of_the_driver(dies=0, then=601.0)
    history.teardown()


def test_slices_made_anew_where_no_source_has_named_one_are_tainted_by_a_silent_node() -> None:
    """The user holds what is new, and confirms the repair of the other GPU."""
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.a_person_says(dies=6, index=1, kind="Hold", lasts=700.0, then=0.1)
    history.an_error_is_named_late(dies=3, gi=5, late=11.0, then=601.0)
    history.a_node_that_goes(dies=1, gone=True, then=1.0)
    history.a_person_says(dies=3, index=0, kind="RepairConfirmed", lasts=700.0, then=1.0)
    history.the_leaders_clock_jumps(ahead=0.0, dies=6, then=61.0)
    history.an_error_is_named_late(dies=5, gi=1, late=0.5, then=11.0)
    history.a_node_that_goes(dies=4, gone=True, then=61.0)
    history.another_layout(dies=0, then=601.0)
    history.teardown()
