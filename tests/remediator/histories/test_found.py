"""Histories that were found by the search once, each played again at every run."""

from datetime import timedelta

import pytest

from remediator.plan.node_condition import HandoverOptions
from remediator.policy.table import Evict
from tests.remediator.histories.test_evict_histories import EvictHistory
from tests.remediator.histories.test_histories import History

NO_CALLS = HandoverOptions(
    enabled=False, deadline=timedelta(hours=1), accelerated_hardware_ready=False
)


def test_siblings_of_a_slice_that_is_named_late_stay_free_under_an_older_name_too() -> None:
    """Their board was renumbered and cut anew in between, and each has a rule for two names."""
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.other_numbers(dies=0, then=0.1)
    history.another_layout(dies=0, then=0.1)
    history.an_error_is_named_late(dies=0, gi=1, late=61.0, then=61.0)
    history.another_layout(dies=0, then=0.1)
    history.other_numbers(dies=0, then=0.1)
    history.an_error_is_named_late(dies=0, gi=1, late=0.1, then=0.1)
    history.teardown()


def test_a_slice_in_its_soak_time_is_not_untainted_when_another_one_is_named_late() -> None:
    history = EvictHistory()
    history.a_policy(plan=Evict(within=timedelta(0), then="NoExecute"))
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.an_error_is_named_late(dies=0, gi=1, late=0.1, then=0.1)
    history.a_reboot(dies=0, then=0.1)
    history.an_error_is_named_late(dies=0, gi=5, late=0.1, then=0.1)
    history.teardown()


def test_a_soak_begins_anew_with_an_error_that_its_agent_forgets() -> None:
    """The GPU answers at once, so the error is over; then nothing in the report tells of it."""
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.who_sees(confirms=False, kinds=frozenset(), then=0.1)
    history.an_old_driver_whose_agent_forgets(dies=0, index=0)
    history.a_reboot(dies=0, then=0.1)
    history.an_old_driver_whose_agent_forgets(dies=0, index=1)
    history.a_driver_that_publishes(dies=0, hidden=False, index=0, then=0.5)
    history.an_xid(code=79, dies=0, gi=None, index=0, then=0.1)
    history.an_agent_that_forgets(dies=0, then=0.1)
    history.a_driver_without_recovery_action(dies=0, index=0, then=0.1)
    history.who_sees(confirms=True, kinds=frozenset(), then=0.1)
    history.teardown()


def test_two_gpus_whose_evictions_wait_are_not_emptied_at_once() -> None:
    """The cap is one GPU of a node; both wait for pods that never go, and their time is over."""
    history = EvictHistory()
    history.a_policy(plan=Evict(within=timedelta(minutes=10), then="NoExecute"))
    history.a_cluster(options=NO_CALLS, dynamic=True, placing=False)
    history.pods_keep_joining(dies=0, index=0)
    history.maintenance(dies=6, lasts=700.0, then=61.0)
    history.pods_keep_joining(dies=5, index=0)
    history.a_pod_goes(dies=3, index=0, part=2, then=4000.0)
    history.pods_keep_joining(dies=3, index=1)
    history.maintenance(dies=2, lasts=2.0, then=601.0)
    history.a_pod_goes(dies=5, index=1, part=2, then=0.5)
    history.a_pod_goes(dies=2, index=0, part=4, then=0.5)
    history.pods_keep_joining(dies=1, index=0)
    history.maintenance(dies=6, lasts=700.0, then=61.0)
    history.maintenance(dies=4, lasts=2.0, then=11.0)
    history.pods_keep_joining(dies=6, index=1)
    history.pods_keep_joining(dies=3, index=0)
    history.pods_keep_joining(dies=4, index=1)
    history.a_pod_goes(dies=6, index=0, part=3, then=61.0)
    history.a_pod_goes(dies=1, index=0, part=0, then=1.0)
    history.a_pod_goes(dies=6, index=1, part=1, then=1.0)
    history.pods_keep_joining(dies=0, index=1)
    history.pods_keep_joining(dies=5, index=0)
    history.maintenance(dies=0, lasts=700.0, then=4000.0)
    history.maintenance(dies=4, lasts=700.0, then=0.5)
    history.a_pod_goes(dies=2, index=0, part=0, then=3.0)
    history.pods_keep_joining(dies=5, index=0)
    history.teardown()


def test_a_contained_errors_rule_goes_with_its_slice_while_reports_are_not_seen() -> None:
    """That another slice has the name is published, and is no news of the GPU's health."""
    history = EvictHistory()
    history.a_policy(plan=Evict(within=timedelta(0), then="NoExecute"))
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.an_error_is_named_late(dies=0, gi=1, late=0.1, then=0.1)
    history.who_sees(confirms=True, kinds=frozenset({"reports"}), then=0.1)
    history.another_layout(dies=0, then=0.1)
    history.teardown()
    assert not history.calm.rules


def test_two_gpus_of_a_node_that_is_back_are_not_emptied_at_once() -> None:
    """The cap holds in the decision that sees it again, although incidents say that it is gone."""
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.a_recovery_action(dies=0, index=0, then=0.1, value=7)
    history.a_recovery_action(dies=0, index=1, then=3.0, value=2)
    history.another_release_of_the_driver(dies=0, then=0.1)
    history.a_node_that_goes(dies=0, gone=True, then=1.0)
    history.a_node_that_goes(dies=0, gone=False, then=691200.0)
    history.teardown()


def test_whoever_confirms_a_repair_vouches_for_what_came_before_it() -> None:
    """A slice that fails after that soak has its own; no reset is owed for the error of before."""
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=True, placing=True)
    history.an_old_driver_whose_agent_forgets(dies=4, index=1)
    history.a_person_says(dies=2, index=1, kind="RepairConfirmed", lasts=None, then=0.1)
    history.then(700.0, 0)
    history.an_error_is_named_late(dies=0, gi=1, late=0.1, then=0.1)
    history.teardown()
    assert not history.calm.rules


def test_a_call_stands_while_the_incident_behind_it_has_lost_its_status() -> None:
    """Killed or not: in the decision that fills it again nobody knows yet what it needs."""
    history = History()
    calls = HandoverOptions(enabled=True, deadline=timedelta(seconds=30))
    history.a_cluster(options=calls, placing=False, dynamic=False)
    history.a_gpu_goes_or_comes(dies=0, index=0, presence="Lost", then=0.1)
    history.maintenance(dies=0, lasts=2.0, then=0.1)
    history.a_status_is_lost(dies=1, ruled=False, then=0.1, which=0)
    history.teardown()


def test_nor_does_an_incident_that_was_deleted_change_what_is_reported_of_the_repair() -> None:
    """Its rules stand: in the decision that opens it again nobody knows yet what it needs."""
    history = History()
    calls = HandoverOptions(enabled=True, deadline=timedelta(seconds=30))
    history.a_cluster(options=calls, placing=False, dynamic=False)
    history.a_recovery_action(dies=0, index=0, then=0.1, value=2)
    history.a_reboot(dies=0, then=0.1)
    history.a_person_deletes_an_incident(dies=1, ruled=True, then=0.1, which=0)
    history.teardown()


def test_an_old_error_of_an_unknown_slice_taints_no_other_slice_as_its_report_ages() -> None:
    """Its incident recovered and lost its status; a later error of one slice is in an incident."""
    history = History()
    history.a_cluster(options=NO_CALLS, placing=False, dynamic=False)
    history.an_error_is_named_late(dies=0, gi=1, late=601.0, then=0.1)
    history.another_release_of_the_driver(dies=0, then=0.1)
    history.an_error_is_named_late(dies=0, gi=1, late=0.1, then=0.1)
    history.a_status_is_lost(dies=0, ruled=False, then=0.1, which=0)
    history.an_xid(code=13, dies=0, gi=None, index=0, then=0.1)
    history.teardown()


def test_a_pod_that_slurm_drains_keeps_no_lost_gpu_from_repair_after_its_deadline() -> None:
    """What it waits for are pods, and those a deadline overrides."""
    history = EvictHistory()
    history.a_cluster(
        options=HandoverOptions(enabled=True, deadline=timedelta(seconds=30)),
        dynamic=False,
        placing=False,
    )
    history.a_policy(plan=Evict(within=timedelta(0), then="NoExecute"))
    history.slurm_holds_a_sick_gpu(dies=0, index=0, then=0.1)
    history.teardown()


def test_nor_does_one_that_was_deleted_with_its_rules() -> None:
    """The GPU is still lost: killed or not, the call for its repair stands."""
    history = History()
    calls = HandoverOptions(enabled=True, deadline=timedelta(seconds=30))
    history.a_cluster(options=calls, placing=False, dynamic=False)
    history.a_gpu_goes_or_comes(dies=0, index=1, presence="Lost", then=0.1)
    history.a_gpu_goes_or_comes(dies=0, index=0, presence="Lost", then=0.1)
    history.an_old_driver_whose_agent_forgets(dies=0, index=0)
    history.a_reset(dies=0, index=1, then=0.1)
    history.a_person_deletes_an_incident(dies=1, ruled=False, then=0.1, which=0)
    history.teardown()


def test_nor_does_one_that_is_filled_again_in_two_steps() -> None:
    """Its rules get its name first; until then it is in no mode."""
    history = EvictHistory()
    history.a_policy(plan=Evict(within=timedelta(0), then="NoExecute"))
    calls = HandoverOptions(enabled=True, deadline=timedelta(seconds=30))
    history.a_cluster(options=calls, placing=False, dynamic=False)
    history.an_error_is_named_late(dies=0, gi=1, late=0.1, then=0.1)
    history.a_reboot(dies=0, then=601.0)
    history.a_sick_gpu_is_held_for_long(index=1, then=0.1, why="")
    history.a_person_deletes_an_incident(dies=0, ruled=False, then=0.1, which=0)
    history.a_reboot(dies=0, then=0.1)
    history.a_person_deletes_an_incident(dies=1, ruled=True, then=0.1, which=0)
    history.teardown()


def test_a_call_that_is_taken_back_is_taken_back_in_both_conditions() -> None:
    """Killed in between, the next leader knows less: the agent is silent by then."""
    history = EvictHistory()
    calls = HandoverOptions(
        enabled=True, deadline=timedelta(seconds=30), accelerated_hardware_ready=True
    )
    history.a_policy(plan=Evict(within=timedelta(0), then="wait"))
    history.a_cluster(options=calls, placing=False, dynamic=False)
    history.a_person_says(dies=0, index=0, kind="Hold", lasts=None, then=0.1)
    history.others_are_called(board=False, dies=0, early=False, held="", index=0, then=0.1)
    history.others_are_called(board=False, dies=0, early=False, held="", index=1, then=601.0)
    history.the_agent(dies=0, silent=True, then=0.1)
    history.others_are_called(board=False, dies=3, early=False, held="", index=0, then=0.1)
    history.teardown()


def test_an_incident_whose_status_is_lost_counts_in_the_decision_that_closes_it() -> None:
    """Otherwise the third one is untainted, and tainted again a moment later."""
    history = EvictHistory()
    history.a_policy(plan=Evict(within=timedelta(minutes=10), then="NoExecute"))
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=True)
    history.an_error_is_named_late(dies=2, gi=5, late=4000.0, then=11.0)
    history.an_error_is_named_late(dies=5, gi=1, late=601.0, then=601.0)
    history.a_status_is_lost(dies=3, ruled=True, then=601.0, which=7)
    history.an_error_is_named_late(dies=5, gi=1, late=11.0, then=0.5)
    history.a_status_is_lost(dies=1, ruled=True, then=4000.0, which=3)
    history.teardown()
    assert history.calm.rules


def test_what_only_a_lost_status_knew_is_owed_by_nobody() -> None:
    """Its rules name the worst cause; the agent has forgotten the other error."""
    history = EvictHistory()
    history.a_policy(plan=Evict(within=timedelta(0), then="NoExecute"))
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.pods_keep_joining(dies=0, index=1)
    history.a_reboot(dies=0, then=3.0)
    history.an_old_driver_whose_agent_forgets(dies=0, index=1)
    history.a_status_is_lost(dies=0, ruled=True, then=4000.0, which=0)
    history.a_person_takes_it_back(dies=0, index=1, then=4000.0)
    history.teardown()


@pytest.mark.parametrize("later", [0.1, 4000.0])
def test_an_xid_that_the_driver_answered_with_none_calls_for_no_reboot_later(later: float) -> None:
    """The driver then asks for a reset, and a healthy GPU of the node has a pod."""
    history = History()
    calls = HandoverOptions(enabled=True, deadline=timedelta(seconds=30))
    history.a_cluster(options=calls, placing=False, dynamic=False)
    history.a_pod_comes(dies=0, index=0, part=0, pod=0, then=0.1)
    history.an_xid(dies=0, code=79, index=1, gi=None, then=later)
    history.a_recovery_action(dies=0, index=1, value=1, then=0.1)
    history.teardown()


def test_a_pod_that_has_a_name_again_is_another_pod() -> None:
    """The first left while NoExecute was written; the leader was killed before it noted that."""
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    for _ in range(2):
        history.a_reboot(dies=0, then=0.1)
    history.an_old_driver_whose_agent_forgets(dies=0, index=0)
    history.a_gpu_goes_or_comes(dies=0, index=0, presence="Lost", then=0.1)
    history.others_are_called(board=True, dies=0, early=False, held="", index=1, then=0.1)
    history.a_reboot(dies=0, then=601.0)
    history.others_are_called(board=False, dies=0, early=False, held="", index=0, then=0.1)
    history.others_are_called(board=False, dies=1, early=False, held="", index=1, then=0.1)
    history.teardown()


def test_a_pod_under_the_new_name_of_a_drained_gpu_counts_in_the_decision_that_sees_it() -> None:
    """The eviction stands under the old name alone; the other GPU waits to call for a reboot."""
    history = History()
    calls = HandoverOptions(enabled=True, deadline=timedelta(seconds=30))
    history.a_cluster(options=calls, placing=True, dynamic=True)
    history.others_are_called(board=False, dies=0, early=False, held="", index=0, then=0.1)
    history.another_layout(dies=0, then=4000.0)
    history.a_gpu_goes_or_comes(dies=0, index=0, presence="Unknown", then=0.1)
    history.another_release_of_the_driver(dies=0, then=0.1)
    history.others_are_called(board=False, dies=0, early=False, held="", index=1, then=0.1)
    history.a_recovery_action(dies=1, index=0, then=4000.0, value=4)
    history.teardown()


def test_a_row_that_was_remapped_is_no_signal_where_the_driver_requests_nothing() -> None:
    """After the reboot the GPU is healthy, and its soak goes on."""
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.others_are_called(board=False, dies=0, early=False, held="", index=0, then=0.1)
    history.a_reboot(dies=0, then=0.1)
    history.nothing_happens(dies=0, then=61.0)
    history.an_xid(code=63, dies=0, gi=None, index=0, then=0.1)
    history.teardown()


def test_a_clock_that_was_behind_and_is_set_right_ends_no_deadline() -> None:
    """The deadline of an hour began by the wrong clock; a pod runs on the other GPU."""
    history = History()
    calls = HandoverOptions(enabled=True, deadline=timedelta(hours=1))
    history.a_cluster(options=calls, placing=False, dynamic=False)
    history.a_pod_comes(dies=0, index=1, part=0, pod=0, then=0.1)
    history.the_leaders_clock_jumps(ahead=-4000.0, dies=0, then=0.1)
    history.a_recovery_action(dies=0, index=0, value=7, then=1.0)
    history.the_leaders_clock_jumps(ahead=0.0, dies=0, then=1.0)
    history.teardown()


def test_nor_does_one_that_jumps_ahead() -> None:
    history = History()
    calls = HandoverOptions(enabled=True, deadline=timedelta(hours=1))
    history.a_cluster(options=calls, placing=False, dynamic=False)
    history.a_pod_comes(dies=0, index=1, part=0, pod=0, then=0.1)
    history.a_recovery_action(dies=0, index=0, value=7, then=1.0)
    history.the_leaders_clock_jumps(ahead=8 * 86400.0, dies=0, then=0.1)
    history.teardown()


@pytest.mark.parametrize("late", [0.1, 601.0])
@pytest.mark.parametrize("ahead", [-61.0, 700.0])
def test_a_contained_error_opens_at_most_one_incident_whatever_the_leaders_clock(
    ahead: float, late: float
) -> None:
    """An incident's own date is by the API server's clock: each decision opened and closed one."""
    history = History()
    history.a_cluster(options=NO_CALLS, placing=False, dynamic=False)
    history.the_leaders_clock_jumps(ahead=ahead, dies=0, then=0.1)
    history.an_xid(code=94, dies=0, gi=5, index=1, then=late)
    history.nothing_happens(dies=0, then=11.0)
    assert bool(history.calm.rules) == (late < 600)
    history.teardown()


def test_an_incident_keeps_what_it_counts_while_the_leaders_clock_is_wrong() -> None:
    """Its rules for an error without a slice were removed, and came back with the right time."""
    history = EvictHistory()
    history.a_policy(plan=Evict(within=timedelta(0), then="NoExecute"))
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.an_error_is_named_late(dies=0, gi=1, late=0.1, then=0.1)
    history.the_leaders_clock_jumps(ahead=8 * 86400.0, dies=0, then=0.1)
    hold = {"index": 0, "kind": "Hold", "lasts": None}
    history.a_person_says(dies=0, then=0.3, **hold)
    history.an_error_is_named_late(dies=0, gi=1, late=1.0, then=1.0)
    history.an_error_is_named_late(dies=0, gi=1, late=601.0, then=0.1)
    history.the_leaders_clock_jumps(ahead=-61.0, dies=1, then=61.0)
    history.nothing_happens(dies=0, then=72.0)
    history.an_error_is_named_late(dies=6, gi=1, late=0.5, then=0.1)
    assert len(history.calm.rules) == 7
    history.teardown()


def test_a_repair_that_was_just_requested_stays_so_under_another_leaders_policy() -> None:
    history = EvictHistory()
    history.a_policy(plan=Evict(within=timedelta(0), then="NoExecute"))
    calls = HandoverOptions(enabled=True, deadline=timedelta(seconds=30))
    history.a_cluster(options=calls, dynamic=False, placing=False)
    history.slurm_holds_a_sick_gpu(dies=0, index=0, then=0.1)
    history.another_leader(ceiling=None, dies=0, mode="incident-only", then=0.1)
    assert history.calm.conditions["DraguardDeviceRepairNeeded"].status == "True"
    history.teardown()


def test_a_request_over_pods_is_not_taken_back_while_the_overdue_gpu_waits_for_the_budget() -> None:
    """Its neighbour, whose deadline is not over, has used it up."""
    history = EvictHistory()
    calls = HandoverOptions(
        enabled=True, deadline=timedelta(hours=1), accelerated_hardware_ready=True
    )
    history.a_cluster(options=calls, dynamic=True, placing=True)
    history.a_policy(
        plan=Evict(within=timedelta(minutes=10), then="NoExecute", extended_resources="delete")
    )
    history.slurm_holds_a_sick_gpu(dies=0, index=0, then=0.1)
    history.slurm_holds_a_sick_gpu(dies=0, index=1, then=601.0)
    history.pods_keep_joining(dies=0, index=0)
    history.other_numbers(dies=0, then=4000.0)
    history.teardown()


def test_a_pod_on_a_slice_that_nothing_publishes_fills_no_budget_for_ever() -> None:
    """NoExecute begins once the clock is right; the driver is away by then, with most names."""
    history = EvictHistory()
    history.a_policy(plan=Evict(within=timedelta(0), then="NoExecute"))
    history.a_cluster(options=NO_CALLS, dynamic=True, placing=True)
    history.the_leaders_clock_jumps(ahead=-4000.0, dies=0, then=3.0)
    history.a_sick_gpu_is_held_for_long(index=1, then=0.5, why="")
    history.a_driver_that_cannot_start(away=True, dies=0, index=0, lost=True, then=11.0)
    history.teardown()


def test_a_device_of_a_second_driver_waits_for_two_policies_to_agree() -> None:
    """The new leader's file is milder, and no leader knows the other one for that pool."""
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.a_reboot_in_vain(dies=0, index=0, late=0.1, then=0.1)
    history.a_reboot(dies=0, then=0.1)
    history.another_leader(mode="dry-run", ceiling=None, dies=0, then=0.1)
    history.a_gpu_that_is_published_twice(twin="second driver", there=True, dies=0, then=0.1)
    history.teardown()
