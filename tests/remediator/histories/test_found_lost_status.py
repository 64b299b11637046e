"""Found histories in which an incident loses its status, and the leader dies after that."""

from datetime import timedelta

from remediator.policy.table import Evict
from tests.remediator.histories.test_evict_histories import EvictHistory
from tests.remediator.histories.test_found import NO_CALLS
from tests.remediator.histories.test_histories import History


def test_an_incident_that_lost_its_status_is_filled_before_its_rules_go() -> None:
    """Another leader's policy has no rules; it dies when the first rule is deleted."""
    history = EvictHistory()
    history.a_policy(plan=Evict(within=timedelta(0), then="NoExecute", extended_resources="wait"))
    history.a_cluster(options=NO_CALLS, dynamic=True, placing=False)
    history.an_old_driver_whose_agent_forgets(dies=0, index=0)
    history.another_leader(ceiling=None, dies=2, mode="incident-only", then=3.0)
    history.a_status_is_lost(dies=1, ruled=True, then=4000.0, which=4)
    history.teardown()


def test_an_incident_that_lost_its_status_is_filled_before_its_rules_are_made_again() -> None:
    """Its rules were deleted, too, and the leader dies when two of four are there again."""
    history = History()
    history.a_cluster(options=NO_CALLS, dynamic=True, placing=False)
    history.an_error_is_named_late(dies=0, gi=5, late=0.1, then=61.0)
    history.another_layout(dies=0, then=61.0)
    history.another_layout(dies=0, then=61.0)
    history.a_recovery_action(dies=0, index=0, then=61.0, value=0)
    history.a_driver_without_recovery_action(dies=0, index=0, then=61.0)
    history.a_status_is_lost(dies=2, ruled=False, then=0.1, which=0)
    history.teardown()


def test_a_rule_that_evicts_by_a_status_that_is_lost_uses_up_no_rate_for_ever() -> None:
    """The kernel log alone reports its GPU then, while a pod waits on the other one."""
    history = EvictHistory()
    history.a_cluster(options=NO_CALLS, dynamic=False, placing=False)
    history.a_policy(plan=Evict(within=timedelta(seconds=30), then="wait"))
    history.a_reset_that_only_a_user_can_report(code=48, dies=0, index=1, new=79, sources=("nvml",))
    history.a_status_is_lost(dies=6, ruled=True, then=11.0, which=1)
    history.a_reboot(dies=0, then=0.5)
    history.a_reset_that_only_a_user_can_report(
        code=119, dies=6, index=1, new=120, sources=("syslog", "kmsg")
    )
    history.a_sick_gpu_is_held_for_long(index=0, then=0.1, why="500 InternalError: two budgets")
    history.teardown()
