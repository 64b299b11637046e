"""What the budget counts, and what is said and written."""

from remediator.plan.boards import bind_boards
from tests.remediator.builders import (
    RESET,
    T0,
    Stored,
    action,
    dead,
    gpu,
    mig_gpu,
    policy,
    report_with,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import claim, settle, tick
from tests.remediator.policy.budgets import limits_of


class TestBudget:
    def test_one_tick_does_not_spend_the_clusters_last_eviction_twice(self) -> None:
        stored = Stored()
        tight = policy(limits_of({"evict_gpus_per_cluster": 1}))
        seen = view(dead(0), dead(1))
        settle(stored, seen, 1, tight)

        settle(stored, seen, 5, tight)

        assert sorted(stored.effects().values()) == ["NoExecute", "NoSchedule"]

    def test_the_cap_on_taints_counts_gpus_and_not_slices(self) -> None:
        stored = Stored()
        tight = policy(limits_of({"taint_gpus_per_cluster": 1}))
        seen = view(mig_gpu(0, recovery_action=RESET), mig_gpu(1, recovery_action=RESET))

        settle(stored, seen, 2, tight)

        assert len({rule.gpu for rule in stored.rules.values()}) == 1
        assert len(stored.rules) == 7

    def test_a_dry_run_rule_costs_nothing(self) -> None:
        stored = Stored()
        none = policy(limits_of({"taint_gpus_per_cluster": 0}), mode="dry-run")
        seen = view(dead(), claims=(claim("gpu-0"),))

        settle(stored, seen, 2, none)

        assert stored.effects() == {"gpu-0": "None"}


class TestWords:
    def test_a_report_of_a_much_newer_schema_is_not_read(self) -> None:
        seen = view(dead())
        newer = report_with(seen, schema_version=3)

        (board,) = bind_boards(with_fields(seen, report=newer), T0)

        assert "newer than this version knows" in getattr(board.verdict, "why", "")

    def test_what_is_not_known_keeps_the_phase(self) -> None:
        stored = Stored()
        seen = view(dead())
        for second in (1, 5):
            settle(stored, seen, second)

        settle(stored, with_fields(seen, stale="silent"), 50)

        status = stored.incident.status
        assert status.phase == "Evicting"
        assert status.message == "unknown, so nothing changes: silent"
        assert [
            condition.status
            for condition in status.conditions
            if condition.type == "DeviceStateUnknown"
        ] == ["True"]

    def test_a_flapping_gpu_fills_the_timeline_but_keeps_its_opening(self) -> None:
        stored = Stored()
        for second in range(1, 200, 2):
            settle(stored, view(gpu(0, recovery_action=action(1, second, second))), second)
            settle(stored, view(gpu(0, recovery_action=action(0, second, second))), second + 1)

        reported = stored.incident.status.timeline
        assert len(reported) == 64
        assert "recovery action 1" in reported[0].text

    def test_a_quiet_tick_writes_nothing(self) -> None:
        stored = Stored()
        seen = view(dead(0), mig_gpu(1, xid(94, gi=5)), gpu(2))
        for second in (1, 5, 9, 20):
            settle(stored, seen, second)
        before = len(stored.taken)

        for second in range(30, 200, 10):
            tick(stored, seen, second)

        assert len(stored.taken) == before

    def test_held_work_is_logged_once(self) -> None:
        stored = Stored()
        none = policy(limits_of({"taint_gpus_per_cluster": 0}))
        for second in range(1, 20):
            settle(stored, view(dead()), second, none)

        texts = [entry.text for entry in stored.incident.status.timeline]
        assert sum("NoSchedule deferred: budget taint.cluster=0" in text for text in texts) == 1

    def test_an_unknown_moment_in_dry_run_lowers_to_none(self) -> None:
        stored = Stored()
        seen = view(dead())
        settle(stored, seen, 1)

        unanswered = with_fields(seen, stale="silent")
        settle(stored, unanswered, 2, policy(mode="dry-run"))

        assert stored.effects() == {"gpu-0": "None"}

    def test_mode_off_is_silent_about_its_class(self) -> None:
        stored = Stored()

        settle(stored, view(dead()), 1, policy(mode="off"))

        assert not stored.taken
