"""Eviction that asks: who is evicted by the Eviction API under `Evict`, and what comes of it."""

from datetime import timedelta

import msgspec
import pytest

from exporter.model.node_health import XidRecord
from remediator.model.claim import Claim, Toleration
from remediator.model.taint_rule import Rule
from remediator.plan.stages import ROUNDS
from remediator.plan.steps import EvictPod
from remediator.plan.view import NodeView
from remediator.policy.table import Evict
from tests.remediator.builders import (
    RESET,
    SLICE_5,
    Stored,
    action,
    at,
    gpu,
    mig_gpu,
    policy,
    view,
    xid,
)
from tests.remediator.plan.evict_first import (
    REFUSED,
    START,
    begun,
    blocked,
    play,
    requested,
    rows,
    seen,
    shared,
    tolerating,
)
from tests.remediator.playing import claim, evicts_later, pod, tick


class TestTheRung:
    def test_the_device_keeps_noschedule_while_pods_are_evicted(self) -> None:
        one, asks = seen(pod()), rows()
        stored = Stored()

        early = [tick(stored, one, second, evicts_later(asks)) for second in (0.0, 0.5, 1.0)]
        decisions = [*early, *(tick(stored, one, second, asks) for second in (5.0, START))]

        assert stored.effects() == {"gpu-0": "Evict"}
        (rule,) = stored.rules.values()
        assert rule.taint_effect == "NoSchedule"
        assert [requested(each) for each in decisions] == [[], [], [], [], ["train-0"]]
        assert stored.incident.status.eviction.started_at == at(START)
        assert stored.incident.status.phase == "Evicting"

    def test_nobody_is_evicted_before_the_settle_time_is_over(self) -> None:
        one, stored = seen(pod()), Stored()

        for second in (0.0, 0.5, 1.0, 2.0, 3.0, 3.4):
            decision = tick(stored, one, second, rows())
            assert (requested(decision), set(stored.effects().values())) == ([], {"NoSchedule"})

    def test_who_is_left_after_the_time_is_deleted_by_noexecute(self) -> None:
        one, asks = seen(pod()), rows()
        stored = begun(one, asks)
        play(stored, one, asks, START, START + 595)
        assert stored.effects() == {"gpu-0": "Evict"}

        play(stored, one, asks, START + 600, START + 605)

        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_the_time_counts_from_what_is_stored_so_a_restart_restarts_nothing(self) -> None:
        one, asks = seen(pod()), rows()
        stored = begun(one, asks)
        play(stored, one, asks, START, START + 580)

        # Nothing else is remembered: whoever leads next decides from the same objects.
        play(stored, one, asks, START + 600, START + 600)

        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_a_slice_that_fails_after_another_was_emptied_gets_all_of_the_time(self) -> None:
        asks, stored = policy(evict=Evict(within=timedelta(minutes=2))), Stored()
        first, second = xid(94, gi=5), xid(94, seen=200, gi=1)
        claims = (claim(SLICE_5, "a"), claim("gpu-0-mig-1g10gb-19-0", "b"))

        def slices(*records: XidRecord, left: slice = slice(None)) -> NodeView:
            sick = mig_gpu(0, *records, recovery_action=action(observed=201))
            return view(sick, claims=claims[left], pods=(pod("a"), pod("b"))[left])

        play(stored, slices(first), asks, 0, 150)
        assert stored.effects() == {SLICE_5: "NoExecute"}
        only_b = slice(1, None)
        play(stored, slices(first, left=only_b), asks, 155, 195)

        decisions = play(stored, slices(first, second, left=only_b), asks, 200, 310)
        assert ["b"] in map(requested, decisions)
        assert stored.effects()["gpu-0-mig-1g10gb-19-0"] == "Evict"

        play(stored, slices(first, second, left=only_b), asks, 315, 340)
        assert stored.effects()["gpu-0-mig-1g10gb-19-0"] == "NoExecute"

    def test_wait_never_ends_in_noexecute(self) -> None:
        one, asks = seen(pod()), rows("wait")
        stored = begun(one, asks)

        play(stored, one, asks, START, START + 86_400, every=300)

        assert stored.effects() == {"gpu-0": "Evict"}

    def test_a_gpu_that_nobody_holds_is_drained_without_any_request(self) -> None:
        one, asks = seen(claims=()), rows()
        stored = begun(one, asks)

        decisions = play(stored, one, asks, START, START + 900, every=15)

        assert not any(requested(each) for each in decisions)
        assert stored.effects() == {"gpu-0": "Evict"}
        status = stored.incident.status
        assert (status.phase, status.eviction.started_at) == ("Drained", None)

    def test_a_lower_ceiling_takes_it_back(self) -> None:
        one = seen(pod())
        stored = begun(one, rows())

        decision = tick(stored, one, START, rows(ceiling="NoSchedule"))

        assert requested(decision) == []
        assert stored.effects() == {"gpu-0": "NoSchedule"}

    def test_a_policy_that_waits_from_now_on_takes_noexecute_back(self) -> None:
        one, stored = seen(pod()), Stored()
        for second in (0.0, 0.5, 1.0, 5.0):
            tick(stored, one, second, policy())
        assert stored.effects() == {"gpu-0": "NoExecute"}

        tick(stored, one, START, rows("wait"))

        assert stored.effects() == {"gpu-0": "Evict"}

    def test_a_gpu_that_is_healthy_again_evicts_nobody(self) -> None:
        sick = view(gpu(0, recovery_action=RESET), claims=(claim("gpu-0"),), pods=(pod(),))
        stored = begun(sick, rows())
        healthy = view(gpu(0), claims=(claim("gpu-0"),), pods=(pod(),))

        decision = tick(stored, healthy, START, rows())

        assert requested(decision) == []
        assert stored.incident.status.eviction.started_at is None

    def test_a_contained_error_empties_its_slice_and_no_other(self) -> None:
        held = (claim("gpu-0-mig-1g10gb-19-4", "a"), claim("gpu-0-mig-1g10gb-19-0", "b"))
        one = view(mig_gpu(0, xid(94, gi=5)), claims=held, pods=(pod("a"), pod("b")))
        stored = begun(one, rows())

        assert requested(tick(stored, one, START, rows())) == ["a"]


class TestPassedBy:
    def test_a_daemonset_and_a_mirror_pod(self) -> None:
        one = seen(pod("a", owner="DaemonSet/watch"), pod("b", mirror=True), pod("c"))

        assert requested(tick(begun(one, rows()), one, START, rows())) == ["c"]

    def test_admin_access(self) -> None:
        own = claim("gpu-0", "watcher")
        assert own.status is not None
        assert own.status.allocation is not None
        (result,) = own.results
        looks = msgspec.structs.replace(result, admin_access=True)
        devices = msgspec.structs.replace(own.status.allocation.devices, results=(looks,))
        allocation = msgspec.structs.replace(own.status.allocation, devices=devices)
        watcher = Claim(own.metadata, msgspec.structs.replace(own.status, allocation=allocation))
        one = seen(pod("watcher"), pod(), claims=(watcher, claim("gpu-0")))

        assert requested(tick(begun(one, rows()), one, START, rows())) == ["train-0"]

    @pytest.mark.parametrize(
        ("toleration", "passed"),
        [
            (Toleration(key="draguard.dev/lost", operator="Exists", effect="NoExecute"), True),
            (Toleration(operator="Exists", effect="NoExecute"), True),
            (Toleration(key="draguard.dev/lost", value="xid-79", effect="NoExecute"), True),
            (Toleration(key="draguard.dev/lost", value="xid-63", effect="NoExecute"), False),
            (Toleration(key="draguard.dev/gpu", operator="Exists", effect="NoExecute"), False),
            (Toleration(key="draguard.dev/lost", operator="Exists"), False),
            (Toleration(operator="Exists", effect="NoSchedule"), False),
        ],
    )
    def test_who_tolerates_noexecute_as_the_eviction_controller_reads_it(
        self, toleration: Toleration, passed: bool
    ) -> None:
        one = seen(pod(), claims=(tolerating("train-0", toleration),))

        decision = tick(begun(one, rows()), one, START, rows())

        assert requested(decision) == ([] if passed else ["train-0"])

    def test_who_tolerates_it_for_a_time_is_evicted_after_it(self) -> None:
        lasting = Toleration(operator="Exists", effect="NoExecute", toleration_seconds=60)
        one = seen(pod(), claims=(tolerating("train-0", lasting),))
        stored = begun(one, rows())
        dated = {device: _since(rule, 5.0) for device, rule in stored.rules.items()}
        stored.rules = dated

        assert requested(tick(stored, one, 64, rows())) == []
        assert requested(tick(stored, one, 65, rows())) == ["train-0"]

    def test_nothing_is_requested_of_a_pod_that_goes_already(self) -> None:
        one = seen(pod(terminating=True))

        assert requested(tick(begun(one, rows()), one, START, rows())) == []


def _since(rule: Rule, seconds: float) -> Rule:
    return msgspec.structs.replace(rule, time_added=at(seconds))


def rounds(stored: Stored) -> list[int]:
    return [entry.rounds for entry in stored.incident.status.eviction.by_device]


class TestRounds:
    def test_three_rounds_are_evicted_and_the_fourth_waits_for_a_user(self) -> None:
        asks = rows()
        first, _ = shared("p-0")
        stored = begun(first, asks)
        request: list[list[str]] = []

        for number in range(5):
            one, _ = shared(f"p-{number}")
            request.append(requested(tick(stored, one, START + number * 5, asks)))

        assert request == [["p-0"], ["p-1"], ["p-2"], [], []]
        assert (rounds(stored), stored.incident.status.phase) == ([ROUNDS + 1], "NeedsHuman")
        assert "more than 3 rounds" in blocked(stored)

    def test_pods_that_were_there_from_the_start_are_one_round(self) -> None:
        one, _ = shared("a", "b", "c", "d")
        stored = begun(one, rows())

        for number in range(5):
            tick(stored, one, START + number * 5, rows())

        assert rounds(stored) == [1]

    def test_who_joins_after_all_had_gone_gets_the_whole_time(self) -> None:
        asks, empty = rows(), seen(claims=())
        one, _ = shared("a")
        stored = begun(one, asks)
        tick(stored, one, START, asks)
        play(stored, empty, asks, START + 5, START + 60)
        assert stored.incident.status.eviction.started_at is None

        late, _ = shared("b")
        tick(stored, late, START + 700, asks)

        assert stored.incident.status.eviction.started_at == at(START + 700)
        assert stored.effects() == {"gpu-0": "Evict"}


class TestBlocked:
    def test_it_says_which_budget_refuses_and_whether_the_pod_is_ready(self) -> None:
        one = seen(pod(ready=True), refusals={"u-train-0": REFUSED})
        asks = rows("wait")
        stored = begun(one, asks)
        play(stored, one, asks, START, START + 595)
        assert blocked(stored) == ""

        play(stored, one, asks, START + 600, START + 600)

        assert blocked(stored) == f"team/train-0 (Ready): {REFUSED}"

    def test_evictions_go_on_and_succeed_when_the_budget_allows(self) -> None:
        one, asks = seen(pod(), refusals={"u-train-0": REFUSED}), rows("wait")
        stored = begun(one, asks)

        (*_, last) = play(stored, one, asks, START, START + 1200)
        (step,) = [each for each in last.steps if isinstance(each, EvictPod)]
        assert step.unhurried

        play(stored, seen(claims=()), asks, START + 1205, START + 1300)
        assert blocked(stored) == ""
        assert stored.incident.status.phase == "Drained"

    def test_it_leaves_the_budget_so_that_others_can_be_evicted(self) -> None:
        one, asks = seen(pod(), refusals={"u-train-0": REFUSED}), rows("wait")
        stored = begun(one, asks)
        tick(stored, one, START, asks)
        assert stored.fleet_evicts() == 1

        play(stored, one, asks, START + 5, START + 605)

        assert stored.fleet_evicts() == 0

    def test_a_pod_that_tolerates_for_ever_does_not_keep_it_either(self) -> None:
        ever = Toleration(operator="Exists", effect="NoExecute")
        one = seen(pod(), claims=(tolerating("train-0", ever),))
        asks = rows("wait")
        stored = begun(one, asks)

        play(stored, one, asks, START, START + 610)

        assert "tolerates NoExecute" in blocked(stored)
        assert stored.fleet_evicts() == 0
