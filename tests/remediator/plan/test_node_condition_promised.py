"""Pods that no deadline overrides: a user holds their GPU, or their time to leave is not over."""

from datetime import timedelta
from typing import Any

import msgspec

from exporter.model.node_health import GpuHealth, RecoveryAction
from remediator.diagnose.fault import Unknown
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import rule_name
from remediator.plan.gpu_decision import keep
from remediator.plan.node_condition import WAITING
from remediator.plan.node_decision import decide_node
from remediator.plan.node_pods import neighbours, with_promises
from remediator.plan.stages import Deferral, Granted, Planned
from remediator.plan.view import NodeView, RefusedRule
from remediator.policy.limits import LIFTED
from remediator.policy.place import Area
from remediator.policy.table import Evict, Policy
from remediator.policy.windows import Once, Window
from tests.remediator.builders import (
    RESET,
    Stored,
    action,
    at,
    dead,
    gpu,
    mig_gpu,
    policy,
    published,
    until,
    uuid,
    view,
    with_fields,
)
from tests.remediator.plan.handover import ON, reconciled
from tests.remediator.playing import claim, evicts_later, pod

MINUTE, HOUR = 60.0, 3600.0
REBOOT = dead(0)
UNKNOWN = gpu(1, presence="Unknown", recovery_action=RecoveryAction())
SECOND = f"{uuid(1).lower()}-1"


def sick(index: int = 1) -> GpuHealth:
    """A GPU that needs a reset, which is no repair of the node."""
    return gpu(index, recovery_action=RESET)


def busy(
    second: GpuHealth, *, device: str = "gpu-1", others: tuple[PodFacts, ...] = (), **fields: Any
) -> NodeView:
    """A node whose first GPU needs a reboot, and a pod on another."""
    held, pods = (claim(device, "big"),), (pod("big", claims=("claim-of-big",)),)
    standard: dict[str, Any] = {"claims": held, "pods": (*pods, *others)}
    return view(REBOOT, second, gpu(2), **(standard | fields))


def waits(within: timedelta = timedelta(hours=2)) -> Policy:
    """`gpu` evicts first; `lost`, for which a reboot is requested, does not."""
    rows = policy(LIFTED)
    return msgspec.structs.replace(
        rows,
        rows=tuple(
            msgspec.structs.replace(row, evict=Evict(within=within))
            if row.fault_class == "gpu"
            else row
            for row in rows.rows
        ),
    )


def play(  # noqa: PLR0917 - a world, and when it is looked at
    stored: Stored, seen: NodeView, first: float, last: float, rows: Policy, every: float = 30.0
) -> list[tuple[str, str, str]]:
    moments = [first + every * number for number in range(int((last - first) / every) + 1)]
    return [reconciled(stored, seen, moment, rows) for moment in moments]


def test_a_window_on_one_gpu_ends_no_promise_to_its_pod() -> None:
    """Its evictions go on after the window, and the pod gets the rest of its time."""
    rows, seen = waits(timedelta(minutes=10)), busy(sick())
    area = Area(devices=frozenset({uuid(1)}))
    window = Window(name="w", area=area, when=Once(start=at(30), until=at(4 * HOUR)))
    paused = msgspec.structs.replace(rows, maintenance=(window,))
    stored = Stored()
    play(stored, seen, 1, 25, rows, every=4.0)

    assert {stated[:2] for stated in play(stored, seen, 31, 2 * HOUR, paused, every=600.0)} == {
        ("False", WAITING)
    }


class TestHold:
    def held(self, seen: NodeView, *, lasts: float = 3 * HOUR) -> Stored:
        """Both incidents are open, and a user holds that of the second GPU."""
        stored = Stored()
        reconciled(stored, seen, 1)
        stored.intend("Hold", until(lasts), SECOND)
        return stored

    def test_a_pod_of_a_gpu_that_a_user_holds_is_waited_for_until_the_hold_ends(self) -> None:
        seen = busy(sick())
        stored = self.held(seen)

        for second in (HOUR - 10, HOUR + 10, 3 * HOUR - 10):
            status, reason, message = reconciled(stored, seen, second)
            assert (status, reason) == ("False", WAITING)
            assert "not overridden: team/big (hold until 2026-01-05T15:00:00Z by " in message
            assert f"incident {SECOND})" in message
            assert "waiting until 2026-01-05T15:00:00Z at most" in message

        assert reconciled(stored, seen, 3 * HOUR)[:2] == ("True", "NodeRebootNeeded")

    def test_without_the_hold_the_deadline_overrides_it(self) -> None:
        stored, seen = Stored(), busy(sick())
        reconciled(stored, seen, 1)

        assert reconciled(stored, seen, HOUR + 10)[0] == "True"

    def test_a_hold_of_a_gpu_that_needs_a_reboot_itself_counts_for_the_others_deadline(
        self,
    ) -> None:
        seen = busy(dead(1))
        stored = self.held(seen)

        assert reconciled(stored, seen, HOUR + 10)[:2] == ("False", WAITING)

    def test_a_hold_of_a_gpu_that_nobody_holds_protects_nobody(self) -> None:
        seen = busy(sick(), device="gpu-2")
        stored = self.held(seen)

        assert reconciled(stored, seen, HOUR + 10)[0] == "True"

    def test_a_pod_whose_gpu_nobody_knows_may_hold_it(self) -> None:
        plugin = pod("train", plugin_resources=("nvidia.com/gpu",))
        seen = busy(sick(), device="gpu-2", others=(plugin,))
        stored = self.held(seen)

        status, _, message = reconciled(stored, seen, HOUR + 10)

        assert (status, "not overridden: team/train (" in message) == ("False", True)

    def test_while_the_pods_cannot_be_listed_somebody_may_hold_it(self) -> None:
        seen = busy(sick(), device="gpu-2")
        stored = self.held(seen)

        blind = with_fields(seen, pods=None)

        assert reconciled(stored, blind, HOUR + 10)[:2] == ("False", WAITING)
        assert reconciled(stored, blind, 3 * HOUR)[0] == "True"

    def test_it_counts_while_its_gpu_is_unknown_or_healthy_or_below_enforce(self) -> None:
        for second in (gpu(1), UNKNOWN):
            stored = self.held(busy(sick()))
            assert reconciled(stored, busy(second), HOUR + 10)[:2] == ("False", WAITING)
        milder = waits()
        rows = tuple(
            msgspec.structs.replace(row, mode="incident-only") if row.fault_class == "gpu" else row
            for row in milder.rows
        )
        stored = self.held(busy(sick()))
        stated = reconciled(stored, busy(sick()), HOUR, msgspec.structs.replace(milder, rows=rows))
        assert stated[0] == "False"

    def test_it_counts_after_its_incident_has_recovered(self) -> None:
        stored = self.held(busy(sick()))
        for second in (20, 700, 1400):
            reconciled(stored, busy(gpu(1, recovery_action=action(0, 10, second))), second)
        assert not stored.incidents[SECOND].open

        seen = busy(gpu(1, recovery_action=action(0, 10, HOUR)))
        status, reason, message = reconciled(stored, seen, HOUR + 10)

        assert (status, reason) == ("False", WAITING)
        assert "not overridden: team/big (hold until 2026-01-05T15:00:00Z by " in message
        assert f"incident {SECOND})" in message
        assert reconciled(stored, seen, 3 * HOUR)[0] == "True"

    def test_it_counts_for_a_gpu_of_which_nothing_can_be_decided(self) -> None:
        seen = busy(sick())
        stored = self.held(seen)
        found = decide_node(stored.over(seen), stored.fleet(), policy(LIFTED), at(HOUR), ON)
        (case,) = (case for case, _ in found.pairs if case.uuid == uuid(1))
        same, kept = keep(case, Unknown("a bug", bug="trace"))
        odd = same, Planned(granted=Granted(demanded=kept, rules=kept.rules))

        promised = with_promises(neighbours(seen, ()), [odd], at(HOUR)).promised

        assert [promise.pods for promise in promised] == [("team/big",)]
        assert with_promises(neighbours(seen, ()), [odd], at(3 * HOUR)).promised == ()

    def test_an_empty_node_is_handed_over_whatever_is_held(self) -> None:
        stored = self.held(busy(sick()))

        assert reconciled(stored, busy(sick(), claims=(), pods=()), 60)[0] == "True"

    def test_what_was_reported_before_the_hold_stays(self) -> None:
        stored, seen = Stored(), busy(sick())
        for second in (1, HOUR + 10):
            reconciled(stored, seen, second)
        stored.intend("Hold", until(3 * HOUR), SECOND)

        assert reconciled(stored, seen, HOUR + 20)[0] == "True"


class TestWithin:
    def test_pods_inside_their_time_are_waited_for_until_it_is_over(self) -> None:
        stored, seen = Stored(), busy(sick())

        before = play(stored, seen, 1, 2 * HOUR, waits())
        assert {state[:2] for state in before} == {("False", WAITING)}
        assert stored.incidents[SECOND].status.eviction.started_at is not None
        assert "not overridden: team/big (until its time to leave is over, " in before[-1][2]
        begun = stored.incidents[SECOND].status.eviction.started_at
        assert begun is not None
        ends = (begun - at(0)).total_seconds() + 2 * HOUR

        after = play(stored, seen, 2 * HOUR + 5, ends + 5, waits(), every=5)

        assert stored.effects()["gpu-1"] == "NoExecute"
        assert after[-1][:2] == ("True", "NodeRebootNeeded")
        assert all(state[0] == "False" for state in after[:-2])

    def test_a_time_that_is_over_before_the_deadline_postpones_nothing(self) -> None:
        stored, seen = Stored(), busy(sick())
        rows = waits(timedelta(minutes=10))

        stated = play(stored, seen, 1, HOUR + 31, rows)

        assert [state[0] for state in stated[-3:]] == ["False", "True", "True"]

    def test_while_the_taint_settles_before_the_evictions_it_is_not_over_either(self) -> None:
        stored = Stored()
        reconciled(stored, busy(gpu(1)), 1, waits())
        for second in (HOUR - 1, HOUR + 1):
            stated = reconciled(stored, busy(sick()), second, waits())

            assert stated[:2] == ("False", WAITING)
            assert stored.effects()["gpu-1"] == "NoSchedule"

    def test_a_leader_that_was_away_gives_them_their_time_before_it_calls(self) -> None:
        stored, seen = Stored(), busy(sick())
        rows = waits(timedelta(minutes=10))
        reconciled(stored, seen, 1, rows)

        stated = play(stored, seen, 2 * HOUR, 2 * HOUR + 605, rows, every=5)

        assert {state[0] for state in stated[:120]} == {"False"}
        assert stated[-1][0] == "True"

    def test_a_time_that_a_budget_never_lets_begin_is_over_as_well(self) -> None:
        stored, seen = Stored(), busy(sick())
        reconciled(stored, seen, 1, evicts_later(waits()))
        found = decide_node(stored.over(seen), stored.fleet(), waits(), at(5), ON)
        ((case, planned),) = (pair for pair in found.pairs if pair[0].uuid == uuid(1))
        assert planned.granted.evicts
        deferred = (Deferral("Budget", "a budget"),)
        quiet = msgspec.structs.replace(planned.granted, evicts=(), deferrals=deferred)
        held = msgspec.structs.replace(planned, granted=quiet)
        both = neighbours(seen, ())

        early, late = (
            with_promises(both, [(case, held)], at(when)).promised
            for when in (2 * HOUR, 2 * HOUR + 10)
        )

        assert ([promise.pods for promise in early], late) == ([("team/big",)], ())
        assert with_promises(both, [(case, planned)], at(9 * HOUR)).promised != ()

    def test_a_time_that_stands_still_is_over_as_if_its_gpu_were_known(self) -> None:
        """The second GPU is unknown for hours, and its evictions were requested for a minute."""
        stored, seen = Stored(), busy(sick())
        rows = waits(timedelta(minutes=90))
        play(stored, seen, 1, 61, rows, every=5)

        inside = play(stored, busy(UNKNOWN), 70, 90 * MINUTE, rows, every=600)
        after = reconciled(stored, busy(UNKNOWN), 91 * MINUTE, rows)

        assert {state[:2] for state in inside} == {("False", WAITING)}
        assert len({state[2] for state in inside}) == 1, "the Node is not written at each look"
        assert after[:2] == ("True", "NodeRebootNeeded")

    def test_pods_on_other_gpus_are_overridden_with_none_left_inside_its_time(self) -> None:
        stored = Stored()
        seen = busy(sick(), device="gpu-2")

        stated = play(stored, seen, 1, HOUR + 31, waits())

        assert stated[-1][0] == "True"


def test_the_end_of_a_hold_wakes_the_node() -> None:
    stored, seen = Stored(), busy(sick())
    reconciled(stored, seen, 1)
    stored.intend("Hold", until(2 * HOUR), SECOND)

    decision = decide_node(stored.over(seen), stored.fleet(), policy(LIFTED), at(HOUR + 10), ON)

    assert decision.wake_at is not None
    assert decision.wake_at <= at(2 * HOUR)


def test_what_waits_on_another_slice_takes_no_time_from_a_pod_whose_hold_ends() -> None:
    sliced = mig_gpu(1, slices=2, recovery_action=RESET)
    first, other = (part.device for part in published(sliced))
    why = {rule_name(other): RefusedRule("403 Forbidden", at(1e6))}
    seen, rows = busy(sliced, device=first.device, refused=why), waits()
    stored = Stored()
    reconciled(stored, seen, 1, evicts_later(rows))
    stored.intend("Hold", until(3 * HOUR), SECOND)
    for second in (5, 60, HOUR, 3 * HOUR - 5):
        reconciled(stored, seen, second, rows)

    status, reason, message = reconciled(stored, seen, 3 * HOUR + 1, rows)

    assert (status, reason) == ("False", WAITING)
    assert "not overridden: team/big" in message
