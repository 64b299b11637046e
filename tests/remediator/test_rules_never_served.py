"""Clusters without DeviceTaintRules: the policy's mode counts, and nodes are repaired."""

from typing import Any, get_args

import pytest

from exporter.model.node_health import GpuHealth
from remediator.metrics.transitions import change_events
from remediator.model.incident import Incident
from remediator.model.incident_status import RULES_NOT_SERVED, Condition
from remediator.plan.events import POD_PLANNED
from remediator.plan.node_decision import decide_node
from remediator.plan.spared import EVICTS_MONITOR
from remediator.plan.steps import ChangeRule, CreateRule, DeleteRule, EvictPod, WriteStatus
from remediator.plan.view import NodeView
from remediator.policy.limits import LIFTED, Cap, Caps, Correlation, Limits
from remediator.policy.table import Ceiling, Mode, Policy
from tests.remediator.builders import (
    RESET,
    Stored,
    action,
    at,
    dead,
    gpu,
    mig_gpu,
    policy,
    until,
    view,
    with_fields,
    xid,
)
from tests.remediator.plan.handover import reconciled
from tests.remediator.playing import claim, pod, settle

ENFORCED = policy(LIFTED)
MENDED = gpu(0, xid(95), recovery_action=action(0, 100, 100))
SICK = gpu(0, xid(95), recovery_action=RESET)
HELD: dict[str, Any] = {"pods": (pod(),), "claims": (claim("gpu-0"),)}
"""A pod on the sick GPU."""
BESIDE: dict[str, Any] = {"pods": (pod("big"),), "claims": (claim("gpu-1", "big"),)}
"""A pod on its neighbour."""


def seen(*gpus: GpuHealth, **fields: Any) -> NodeView:
    standard: dict[str, Any] = {"rules_served": False, "pods": (), "claims": ()}
    return view(*gpus, **standard | fields)


def decided(
    stored: Stored, now: NodeView, seconds: float, rows: Policy = ENFORCED, **fleet: Any
) -> tuple[str, str, str]:
    """Decide until nothing is left to do; return what the Node says."""
    found = reconciled(stored, now, seconds, rows, rules_served=False, **fleet)
    rules = CreateRule | ChangeRule | DeleteRule | EvictPod
    assert not [step for step in stored.taken if isinstance(step, rules)]
    return found


def stated(incident: Incident) -> dict[str, Condition]:
    """Return the conditions that are True, by type."""
    return {one.type: one for one in incident.status.conditions if one.status == "True"}


def test_the_incident_is_in_the_mode_of_the_policy_and_says_what_cannot_be_written() -> None:
    stored = Stored()
    decided(stored, seen(dead(0), gpu(1), **HELD), 1)

    status = stored.incident.status
    assert (status.policy.mode, status.phase, status.repair.needs) == (
        "Enforce",
        "Suspected",
        "NodeReboot",
    )
    assert status.message.startswith(
        "NoExecute deferred: DeviceTaintRules are not served by this cluster"
    )
    assert stated(stored.incident)["Deferred"].reason == "RulesNotServed"
    assert RULES_NOT_SERVED not in {one.type for one in status.conditions}
    assert [(plan.device, plan.effect) for plan in status.scope.would_taint] == [
        ("gpu.nvidia.com/node-a/gpu-0", "NoExecute")
    ]
    assert [affected.pod for affected in status.scope.affected] == ["train-0"]


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize(
    "sick", [dead(0), SICK, mig_gpu(0, xid(94, gi=5)), gpu(0, xid(74))], ids=lambda one: one.uuid
)
def test_no_rule_is_written_in_any_mode(sick: GpuHealth, mode: Mode) -> None:
    stored, device = Stored(), "gpu-0" if not sick.instances else "gpu-0-mig-1g10gb-19-4"
    held = {"pods": (pod(),), "claims": (claim(device),)}
    for second in (1, 2, 6, 700, 4000):
        decided(stored, seen(sick, gpu(1), **held), second, policy(LIFTED, mode=mode))

    assert stored.rules == {}


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("incident-only", "incident-only: enforce would go up to NoExecute, but DeviceTaintRules"),
        ("dry-run", "dry-run: enforce would go up to NoExecute, but DeviceTaintRules"),
    ],
)
def test_a_milder_mode_says_so_as_well_and_defers_nothing(mode: Mode, text: str) -> None:
    stored = Stored()
    condition = decided(stored, seen(dead(0)), 1, policy(LIFTED, mode=mode))

    assert condition == ("", "", "")
    assert stored.incident.status.message.startswith(text)
    assert "Deferred" not in stated(stored.incident)
    assert stated(stored.incident)["WouldRequestRepair"].reason == "NodeRebootNeeded"


def test_a_gpu_that_is_not_published_waits_for_no_rule() -> None:
    """As where a device plugin gives out the GPUs: no rule could name one."""
    stored = Stored()
    decided(stored, seen(dead(0), inventory=()), 1)

    assert stored.incident.status.message.startswith("no published device to taint; DeviceTaintR")
    assert "Deferred" not in stated(stored.incident)


@pytest.mark.parametrize(
    ("ceiling", "planned"), [("NoSchedule", ["NoSchedule"]), ("None", ["None"]), ("observe", [])]
)
def test_what_would_be_written_ends_at_the_ceiling(ceiling: Ceiling, planned: list[str]) -> None:
    stored = Stored()
    decided(stored, seen(dead(0)), 1, policy(LIFTED, ceiling=ceiling))

    assert [plan.effect for plan in stored.incident.status.scope.would_taint] == planned
    assert ("Deferred" in stated(stored.incident)) == bool(planned)


def test_better_evidence_is_waited_for_first() -> None:
    stored, doubtful = Stored(), mig_gpu(0, xid(94))
    decided(stored, seen(doubtful), 1)
    assert stored.incident.status.message.startswith("waiting for better evidence")
    assert stored.incident.status.scope.would_taint == ()

    decided(stored, seen(doubtful), 6)
    assert stored.incident.status.message.startswith("NoSchedule deferred: DeviceTaintRules are")
    assert len(stored.incident.status.scope.would_taint) == 7


class TestNodeCondition:
    def test_is_true_once_no_pod_holds_a_gpu_of_the_node(self) -> None:
        stored = Stored()
        assert decided(stored, seen(dead(0), gpu(1), **BESIDE), 1)[:2] == (
            "False",
            "WaitingForNeighbours",
        )
        assert decided(stored, seen(dead(0), gpu(1)), 60)[:2] == ("True", "NodeRebootNeeded")
        assert "RepairDeferred" not in stated(stored.incident)

    def test_is_false_again_when_a_pod_comes_before_the_deadline(self) -> None:
        """Nothing keeps pods away from the GPU, so one may come at any time."""
        stored = Stored()
        assert decided(stored, seen(dead(0), gpu(1)), 1)[0] == "True"
        status, reason, message = decided(stored, seen(dead(0), gpu(1), **HELD), 60)

        assert (status, reason) == ("False", "WaitingForNeighbours")
        assert "team/train-0" in message

    @pytest.mark.parametrize(("after", "status"), [(3599, "False"), (3600, "True")])
    def test_waits_for_pods_until_the_deadline(self, after: float, status: str) -> None:
        stored, held = Stored(), seen(dead(0), gpu(1), **HELD)
        decided(stored, held, 1)

        assert decided(stored, held, 1 + after)[0] == status

    def test_is_unknown_while_the_pods_are_not_listed(self) -> None:
        stored, unlisted = Stored(), seen(dead(0), gpu(1), pods=None)

        assert decided(stored, unlisted, 1)[:2] == ("False", "WaitingForNeighbours")

    def test_waits_for_the_pods_of_a_gpu_that_a_user_holds(self) -> None:
        stored, held = Stored(), seen(dead(0), gpu(1), **HELD)
        decided(stored, held, 1)
        stored.intend("Hold", until(9000))

        assert decided(stored, held, 5000)[0] == "False"
        found = stated(stored.incident)["Deferred"]
        assert found.reason == "Human"
        assert "new actions deferred: hold" in found.message
        assert "DeviceTaintRules are not served" in found.message

    def test_needs_no_repair_for_a_reset(self) -> None:
        stored = Stored()

        assert decided(stored, seen(SICK), 1)[0] in ("", "False")
        assert stored.incident.status.repair.needs == "GPUReset"

    def test_is_taken_back_when_the_gpu_is_healthy_again(self) -> None:
        stored, node_level = Stored(), gpu(0, recovery_action=action(2, 1, 1))
        assert decided(stored, seen(node_level), 2)[0] == "True"
        assert decided(stored, seen(MENDED), 101)[:2] == ("False", "RepairBeingVerified")
        for second in (702, 712):
            found = decided(stored, seen(MENDED), second)

        assert found[:2] == ("False", "NoRepairNeeded")
        assert stored.incident.status.phase == "Recovered"

    def test_counts_in_the_budget_like_any_call(self) -> None:
        one = Limits(evict=Caps(cluster=Cap(1)), correlation=Correlation(nodes=0))
        first, second, rows = Stored(), Stored(), policy(one)
        assert decided(first, seen(dead(0)), 1, rows)[0] == "True"
        other = seen(gpu(0, xid(79), node="node-b", presence="Lost"), node="node-b")

        called = decided(second, other, 20, rows, incidents=tuple(first.incidents.values()))

        assert called[:2] == ("False", "Deferred")
        assert stated(second.incident)["RepairDeferred"].reason == "Budget"
        assert stated(second.incident)["Deferred"].reason == "RulesNotServed"


class TestRulesThatWereServed:
    """They may stand: unknown neither calls for a repair nor makes room in a budget."""

    def evicting(self) -> Stored:
        stored, held = Stored(), view(dead(0), gpu(1), **HELD)
        for second in (1, 2, 6, 20):
            reconciled(stored, held, second, ENFORCED)
        assert stored.effects() == {"gpu-0": "NoExecute"}
        return stored

    @pytest.mark.parametrize("gone", [False, True], ids=["pod there", "pod gone"])
    def test_the_condition_does_not_become_true(self, gone: bool) -> None:
        stored = self.evicting()
        rules, stored.rules = stored.rules, {}
        pods = {} if gone else HELD
        now = seen(dead(0), gpu(1), unseen=tuple(rules.values()), **pods)

        assert reconciled(stored, now, 9000, ENFORCED, rules_served=False)[0] == "False"

    def test_a_pod_that_comes_sets_it_back(self) -> None:
        stored = Stored()
        for second in (1, 2, 6, 20):
            found = reconciled(stored, view(dead(0), gpu(1), pods=()), second, ENFORCED)
        assert found[0] == "True"
        rules, stored.rules = stored.rules, {}
        now = seen(dead(0), gpu(1), unseen=tuple(rules.values()), **BESIDE)

        assert reconciled(stored, now, 30, ENFORCED, rules_served=False)[0] == "False"

    def test_what_they_evict_keeps_its_room_in_the_budget(self) -> None:
        """Of another node, for which nothing was ever written."""
        evicting, called = self.evicting(), Stored()
        one = policy(Limits(evict=Caps(cluster=Cap(1)), correlation=Correlation(nodes=0)))
        other = seen(gpu(0, xid(79), node="node-b", presence="Lost"), node="node-b")

        found = decided(called, other, 30, one, incidents=tuple(evicting.incidents.values()))

        assert found[:2] == ("False", "Deferred")

    def test_no_pod_gets_a_notice_of_an_eviction(self) -> None:
        stored = self.evicting()
        rules, stored.rules = stored.rules, {}
        later = {"pods": (pod(), pod("late")), "claims": (claim("gpu-0"), claim("gpu-0", "late"))}
        now = seen(dead(0), unseen=tuple(rules.values()), **later)
        fleet = with_fields(stored.fleet(), rules_served=False)

        decision = decide_node(stored.over(now), fleet, ENFORCED, at(30))

        assert POD_PLANNED not in {event.reason for event in decision.events}

    def test_a_mode_that_is_lowered_meanwhile_counts(self) -> None:
        stored = self.evicting()
        rules, stored.rules = stored.rules, {}
        now = seen(dead(0), gpu(1), unseen=tuple(rules.values()), **HELD)
        reconciled(stored, now, 30, policy(LIFTED, mode="incident-only"), rules_served=False)

        assert stored.incident.status.policy.mode == "IncidentOnly"
        assert [record.effect for record in stored.incident.status.scope.rules] == ["NoExecute"]


def test_once_rules_are_served_taints_follow_and_settle_in_the_same_mode() -> None:
    stored = Stored()
    decided(stored, seen(dead(0), **HELD), 1)
    settle(stored, view(dead(0), **HELD), 10_000)
    assert stored.effects() == {"gpu-0": "NoSchedule"}
    assert "Deferred" not in stated(stored.incident)

    settle(stored, view(dead(0), **HELD), 10_004)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert stored.incident.status.policy.mode == "Enforce"
    taken = [step for step in stored.taken if isinstance(step, WriteStatus)]
    times = [
        happened.family
        for step in taken
        for happened in change_events(step.incident, with_fields(step.incident, status=step.status))
    ]
    assert "time_to_taint_seconds" not in times, "the cluster took that time, not Draguard"


def recovered(stored: Stored, start: float) -> None:
    """A fault that comes, is repaired and stays away for the soak time."""
    decided(stored, seen(gpu(0, xid(95, start), recovery_action=action(1, start, start))), start)
    well = gpu(0, xid(95, start), recovery_action=action(0, start + 100, start + 100))
    for second in (101, 702, 712):
        decided(stored, seen(well), start + second)


def test_repeats_count_and_the_third_waits_for_a_user() -> None:
    stored = Stored()
    for number in range(3):
        recovered(stored, 1 + 200_000.0 * number)

    last = max(stored.incidents.values(), key=lambda one: one.name)
    assert (last.status.history.recurrence, last.status.phase) == (3, "NeedsHuman")


def test_an_error_that_passes_while_its_evidence_is_waited_for_is_no_repeat() -> None:
    """As one of a peer: with rules served it is over before a taint."""
    stored = Stored()
    for number in range(2):
        begun = 1 + 200_000.0 * number
        for after, read in ((0, -10), (1, 1), (702, 1), (713, 1)):
            answer = action(0, begun - 100, begun + read)
            decided(stored, seen(gpu(0, xid(74, begun), recovery_action=answer)), begun + after)
    assert len(stored.incidents) == 2
    recovered(stored, 500_000)

    last = max(stored.incidents.values(), key=lambda one: one.name)
    assert last.status.history.recurrence == 1


def test_while_recovery_is_verified_nothing_is_deferred() -> None:
    stored = Stored()
    decided(stored, seen(SICK), 2)
    decided(stored, seen(MENDED), 101)

    assert stored.incident.status.phase == "Verifying"
    assert stored.incident.status.message.startswith("verifying: ")
    assert "Deferred" not in stated(stored.incident)


def test_the_message_says_what_else_is_true_beside_what_is_deferred() -> None:
    stored = Stored()
    decided(stored, seen(gpu(0, xid(64), recovery_action=action(0, 1, 1))), 2)

    message = stored.incident.status.message
    assert message.startswith("NoSchedule deferred: DeviceTaintRules are not served")
    assert "; a user must confirm the repair: class memory" in message


def test_no_pod_that_watches_the_gpu_is_reported_as_evicted() -> None:
    stored, watches = Stored(), pod("dcgm", owner="DaemonSet/dcgm")
    decided(
        stored,
        seen(dead(0), pods=(watches,), claims=(claim("gpu-0", "dcgm", admin_access=True),)),
        1,
    )

    assert EVICTS_MONITOR not in stated(stored.incident)
