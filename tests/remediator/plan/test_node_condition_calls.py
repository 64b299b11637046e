"""A call for repair of a node is a harm of its own: what holds it, and when its wait begins."""

from datetime import timedelta

import msgspec
import pytest

from exporter.model.node_health import GpuHealth, MemoryHealth
from kubeapi.types import ObjectMeta
from remediator.model.incident import Incident, IncidentSpec
from remediator.model.incident_status import RepairRequest
from remediator.model.node import REPAIR_NEEDED, NodeCondition, NodeFacts
from remediator.plan.events import CONDITION_REASONS, Event
from remediator.plan.node_condition import OFF, WAITING
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import WriteStatus
from remediator.plan.view import Fleet, NodeView
from remediator.policy.limits import LIFTED, Cap, Caps, Limits, Rate
from remediator.policy.table import Mode, Policy
from tests.remediator.builders import (
    LASTS,
    RESET,
    Stored,
    action,
    at,
    dead,
    gpu,
    make_status,
    policy,
    repair_request,
    report_with,
    until,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.plan.fleets import an_incident, desired, gpu_of, grant, place
from tests.remediator.plan.handover import ON, node, pair, reconciled, repair
from tests.remediator.playing import claim, pod

HOUR = 3600.0
ONE_IN_TEN = msgspec.structs.replace(LIFTED, evict=Caps(rate=Rate(1, timedelta(minutes=10))))
WORN = gpu(0, memory=MemoryHealth(row_remap_failed="True", remap_observed_at=at(0)))
"""It needs a replacement, and its class never evicts."""


def idle(sick: GpuHealth) -> NodeView:
    """A node of two GPUs, of which nobody holds one."""
    return view(sick, gpu(1), pods=())


def busy(sick: GpuHealth) -> NodeView:
    """The same with somebody on the healthy GPU."""
    return view(sick, gpu(1), claims=(claim("gpu-1", "big"),), pods=(pod("big"),))


def wave(fault: str, cause: str) -> tuple[Incident, ...]:
    """The same fault, new on seven other nodes."""
    return tuple(
        Incident(
            ObjectMeta(name=f"other-{n}", uid=f"uid-{n}", creation_timestamp=at(0)),
            IncidentSpec(f"node-{n}", uuid(0, f"node-{n}")),
            make_status(fault_class=fault, cause=cause, mode="Enforce"),
        )
        for n in range(7)
    )


class TestHolds:
    @pytest.mark.parametrize(
        ("sick", "fault", "cause", "rows"),
        [
            (dead(), "lost", "xid-79", policy()),
            (dead(), "lost", "xid-79", policy(ceiling="NoSchedule")),
            (WORN, "memory", "row-remap-failure", policy()),
        ],
        ids=["before it settles", "where nobody is moved", "of a class that moves nobody"],
    )
    def test_one_cause_on_many_nodes_calls_nobody(
        self, sick: GpuHealth, fault: str, cause: str, rows: Policy
    ) -> None:
        stored = Stored()
        seen = idle(sick)

        for second in (1, 2, 5, 100):
            status, reason, message = reconciled(
                stored, seen, second, rows, incidents=wave(fault, cause)
            )
            assert (status, reason) == ("False", "Deferred")
            assert "new on 3 nodes or more within 10m" in message

        status, *_ = reconciled(stored, seen, 700, rows, incidents=wave(fault, cause))
        assert status == "True", "when no further node joins it goes on by itself"

    @pytest.mark.parametrize("sick", [dead(), WORN])
    def test_a_budget_of_nothing_calls_nobody(self, sick: GpuHealth) -> None:
        none = msgspec.structs.replace(LIFTED, evict=Caps(cluster=Cap(0)))
        rows, stored = policy(none, ceiling="NoSchedule"), Stored()
        seen = idle(sick)

        for second in (1, 5, 2 * HOUR):
            status, reason, message = reconciled(stored, seen, second, rows)
            assert (status, reason) == ("False", "Deferred")
            assert "budget evict.cluster=0 is used up" in message
        assert stored.effects() == {"gpu-0": "NoSchedule"}, "the taint is not held for it"

    def test_a_policy_that_was_just_switched_on_calls_nobody_and_then_waits_in_full(self) -> None:
        stored, seen = Stored(), busy(dead())
        for second in (1, 100, 86400):
            assert reconciled(stored, seen, second, policy(mode="incident-only"))[0] == ""
        changed = at(86401)

        for second in (86401.5, 86403, 86410, 86401 + 1799):
            assert (
                reconciled(stored, seen, second, policy(), policy_changed_at=changed)[1]
                == "Deferred"
            )
        begun = 86401 + 1800
        for second in (begun, begun + HOUR - 1):
            assert (
                reconciled(stored, seen, second, policy(), policy_changed_at=changed)[1]
                == "WaitingForNeighbours"
            )
        assert (
            reconciled(stored, seen, begun + HOUR, policy(), policy_changed_at=changed)[0] == "True"
        )

    def test_a_wave_that_comes_up_while_neighbours_are_waited_for_holds_it(self) -> None:
        stored, seen = Stored(), busy(dead())
        assert reconciled(stored, seen, 1, policy())[1] == "WaitingForNeighbours"

        assert (
            reconciled(stored, seen, 60, policy(), incidents=wave("lost", "xid-79"))[1]
            == "Deferred"
        )

    def test_what_only_a_watched_class_asks_for_calls_nobody(self) -> None:
        rows = policy(LIFTED)
        modes = {"memory": "incident-only"}
        watched = tuple(
            msgspec.structs.replace(row, mode=modes.get(row.fault_class, "enforce"))
            for row in rows.rows
        )
        sick = gpu(0, xid(95), recovery_action=RESET, memory=WORN.memory)
        stored = Stored()

        for second in (2, 6, 100):
            stated = reconciled(
                stored,
                idle(sick),
                second,
                msgspec.structs.replace(rows, rows=watched),
            )

        assert stated == ("", "", "")
        assert stored.incident.status.repair.needs == "Replacement", "the incident still says so"

    def test_the_need_of_a_gpu_that_is_held_is_not_reported_for_one_that_is_not(self) -> None:
        found = repair(node(), pair(0, "replacement", call_deferred="no"), pair(1, "node-reboot"))

        assert (found.status, found.reason) == ("True", "NodeRebootNeeded")
        assert uuid(0) not in found.message


class TestADeadBaseboard:
    LIMITS = Limits(evict=Caps(node=Cap(2)))

    def test_is_one_call_that_names_all_of_its_gpus(self) -> None:
        stored = Stored()
        seen = view(*(dead(index) for index in range(4)), gpu(4), pods=())

        for second in (1, 5):
            stated = reconciled(stored, seen, second, policy(self.LIMITS))

        assert sorted(stored.effects().values()) == ["NoExecute"] * 2 + ["NoSchedule"] * 2
        assert stated[:2] == ("True", "NodeRebootNeeded")
        assert all(uuid(index) in stated[2] for index in range(4))

    def test_waits_for_a_pod_on_any_of_its_gpus_until_the_deadline(self) -> None:
        stored = Stored()
        pods = (pod("big", claims=("claim-of-big",)),)
        lost = (dead(index) for index in range(4))
        seen = view(*lost, gpu(4), pods=pods, claims=(claim("gpu-3", "big"),))

        for second in (1, 5, HOUR):
            assert reconciled(stored, seen, second, policy(self.LIMITS))[1] == WAITING
        decision = decide_node(stored.over(seen), stored.fleet(), policy(self.LIMITS), at(HOUR), ON)
        assert decision.wake_at == at(HOUR + 1), "the deadline wakes, not the next resync"
        late = reconciled(stored, seen, HOUR + 5, policy(self.LIMITS))
        assert late[:2] == ("True", "NodeRebootNeeded")
        assert all(uuid(index) in late[2] for index in range(4))


class TestWhatIsReported:
    """On the incident and by Events, also where nobody is called."""

    def condition(self, stored: Stored, kind: str) -> tuple[str, str, str]:
        found = (entry for entry in stored.incident.status.conditions if entry.type == kind)
        one = next(found)
        return one.status, one.reason, one.message

    def test_a_call_that_a_budget_holds(self) -> None:
        none = msgspec.structs.replace(LIFTED, evict=Caps(cluster=Cap(0)))
        stored = Stored()
        reconciled(stored, idle(WORN), 1, policy(none))

        status, reason, message = self.condition(stored, "RepairDeferred")

        assert (status, reason) == ("True", "Budget")
        assert "budget evict.cluster=0 is used up" in message

    def test_a_call_that_a_wave_holds(self) -> None:
        stored = Stored()
        around = wave("memory", "row-remap-failure")
        reconciled(stored, idle(WORN), 1, policy(), incidents=around)

        assert self.condition(stored, "RepairDeferred")[:2] == ("True", "Correlation")

    @pytest.mark.parametrize("mode", ["incident-only", "dry-run"])
    def test_a_call_that_the_mode_spares(self, mode: Mode) -> None:
        stored = Stored()
        assert reconciled(stored, busy(dead()), 1, policy(LIFTED, mode=mode))[0] == ""

        status, reason, message = self.condition(stored, "WouldRequestRepair")

        assert (status, reason) == ("True", "NodeRebootNeeded")
        assert "node-reboot of node-a" in message
        assert "after the deadline" in message
        blind = with_fields(busy(dead()), stale="silent")
        reconciled(stored, blind, 100, policy(LIFTED, mode=mode))
        assert self.condition(stored, "WouldRequestRepair")[0] == "True", "nothing is known"
        reconciled(stored, busy(dead()), 200)
        assert self.condition(stored, "WouldRequestRepair")[0] == "False", "it is called for now"

    def test_a_call_of_a_class_in_enforce_that_the_mode_of_a_worse_one_spares(self) -> None:
        modes = {"memory": "enforce", "lost": "incident-only"}
        rows = policy(LIFTED)
        rows = with_fields(
            rows,
            rows=tuple(
                with_fields(row, mode=modes.get(row.fault_class, row.mode)) for row in rows.rows
            ),
        )
        stored = Stored()

        both = dead(memory=WORN.memory)
        assert reconciled(stored, idle(both), 1, rows)[0] == ""

        status, reason, message = self.condition(stored, "WouldRequestRepair")
        assert (status, reason) == ("True", "ReplacementNeeded")
        assert "replacement of node-a" in message

    def test_a_call_that_overrides_nobody(self) -> None:
        stored = Stored()
        reconciled(stored, idle(WORN), 1, policy(LIFTED, mode="dry-run"))

        status, reason, message = self.condition(stored, "WouldRequestRepair")

        assert (status, reason) == ("True", "ReplacementNeeded")
        assert "deadline" not in message

    def test_each_change_of_the_condition_is_an_event_on_the_node(self) -> None:
        def reported(seen: NodeView, *conditions: NodeCondition, seconds: float) -> list[Event]:
            facts = NodeFacts(name=seen.node, uid="u", conditions=conditions)
            full = msgspec.structs.replace(stored.over(seen), facts=facts, nodes_known=True)
            decision = decide_node(full, stored.fleet(), policy(LIFTED), at(seconds), ON)
            return [event for event in decision.events if event.reason in CONDITION_REASONS]

        stored = Stored()
        reconciled(stored, busy(dead()), 1)
        waiting = stored.conditions[REPAIR_NEEDED]

        (first,) = reported(busy(dead()), seconds=2)
        assert (first.kind, first.name, first.reason) == ("Node", "node-a", WAITING)
        assert first.type == "Warning"
        assert reported(busy(dead()), waiting, seconds=3) == []
        (called,) = reported(idle(dead()), waiting, seconds=5)
        (again,) = reported(idle(dead()), waiting, seconds=600)
        assert called.reason == again.reason == "NodeRebootNeeded"
        assert "is True since 2026-01-05T12:00:05Z" in called.message
        assert called != again, "what is said a second time is another event"


class TestWait:
    def hold(self, stored: Stored, seconds: float) -> None:
        stored.intend("Hold", until(seconds))

    @pytest.mark.parametrize("blind", ["", "the agent of node-a has been silent"])
    def test_a_hold_that_ends_leaves_the_whole_wait_to_the_neighbours(self, blind: str) -> None:
        stored, seen = Stored(), busy(dead())
        assert reconciled(stored, seen, 1)[1] == "WaitingForNeighbours"
        self.hold(stored, 8 * HOUR)

        reconciled(stored, with_fields(seen, stale=blind), 100)
        for second in (8 * HOUR, 9 * HOUR - 1):
            assert reconciled(stored, seen, second)[1] == "WaitingForNeighbours"
        assert reconciled(stored, seen, 9 * HOUR)[0] == "True"

    def test_a_hold_after_the_call_takes_nothing_back_neither_while_it_lasts_nor_after(
        self,
    ) -> None:
        stored, seen = Stored(), busy(dead())
        for second in (1, HOUR + 2):
            reconciled(stored, seen, second)
        assert stored.conditions[REPAIR_NEEDED].status == "True"
        self.hold(stored, 3 * HOUR)

        for second in (HOUR + 10, 2 * HOUR, 3 * HOUR, 3 * HOUR + 1):
            assert reconciled(stored, seen, second)[0] == "True"

    def test_it_does_not_begin_while_nobody_would_be_called(self) -> None:
        stored, seen = Stored(), busy(dead())
        for second in (1, 86400):
            reconciled(stored, seen, second, options=OFF)

        assert reconciled(stored, seen, 86401)[1] == "WaitingForNeighbours"
        assert reconciled(stored, seen, 86401 + HOUR)[0] == "True"

    def test_it_begins_anew_when_the_mode_was_lowered_in_between(self) -> None:
        stored, seen = Stored(), busy(dead())
        reconciled(stored, seen, 1)
        reconciled(stored, seen, 10, policy(LIFTED, mode="incident-only"))

        assert reconciled(stored, seen, HOUR + 10)[1] == "WaitingForNeighbours"

    def test_not_knowing_does_not_begin_it_anew(self) -> None:
        stored, seen = Stored(), busy(dead())
        reconciled(stored, seen, 1)
        reconciled(stored, with_fields(seen, stale="silent"), 100)

        assert reconciled(stored, seen, HOUR + 1)[0] == "True"


def test_nothing_is_called_for_that_no_incident_has_recorded() -> None:
    """The budgets and the limit of repeats count what is recorded: here no status is written."""
    stored = Stored()
    assert reconciled(stored, idle(dead()), 1)[0] == "True"
    again = idle(gpu(0, xid(79, 100), presence="Lost", presence_since=at(100)))
    seen = with_fields(again, report=report_with(again, boot_id="boot-2", observed_at=at(120)))

    for second in (120, 130, 600, HOUR, 3 * HOUR):
        facts = NodeFacts(name="node-a", uid="u", conditions=tuple(stored.conditions.values()))
        whole = with_fields(stored.over(seen), facts=facts, nodes_known=True)
        for step in decide_node(whole, stored.fleet(), policy(LIFTED), at(second), ON).steps:
            if not isinstance(step, WriteStatus):
                stored.take(step, at(second))
        condition = stored.conditions[REPAIR_NEEDED]
        assert (condition.status, condition.reason) == ("False", "RepairBeingVerified")
        assert "the next call is not recorded yet" in condition.message

    assert reconciled(stored, seen, 3 * HOUR + 1)[0] == "True"


def test_a_gpu_that_a_user_ignores_frees_no_call_of_its_neighbour() -> None:
    stored, rows = Stored(), policy(ONE_IN_TEN)
    assert reconciled(stored, idle(dead()), 1, rows)[0] == "True"
    stored.intend("Ignore", LASTS)
    assert reconciled(stored, idle(dead()), 40, rows)[1] == "NoRepairNeeded"
    both = view(dead(), gpu(1, xid(79, 55), presence="Lost", presence_since=at(55)), pods=())

    for second in (60, 64, 300):
        assert reconciled(stored, both, second, rows)[:2] == ("False", "Deferred")


class TestCosts:
    """A call counts as an eviction, for calls; what evicts already costs no second time."""

    ONE = msgspec.structs.replace(LIFTED, evict=Caps(cluster=Cap(1)))
    CALLED = an_incident("b0", mode="Enforce", request=repair_request(at(-60)))

    def held(self, limits: Limits, fleet: Fleet, incident: Incident | None = None) -> str:
        requested = desired("a0", calls="node-reboot", incident=incident)
        answers = grant(limits, fleet, requested, calling=True)
        call = answers["a0"].call
        return call.why if call else ""

    def test_a_call_on_another_node_counts(self) -> None:
        fleet = Fleet(incidents=(self.CALLED,))

        assert "budget evict.cluster=1 is used up (1/1 GPUs" in self.held(self.ONE, fleet)

    @pytest.mark.parametrize("fields", [{"mode": "incident-only"}, {"closed_at": at(-1)}])
    def test_one_that_nobody_makes_any_more_does_not(self, fields: dict[str, object]) -> None:
        status = with_fields(self.CALLED.status, **fields)
        over = msgspec.structs.replace(self.CALLED, status=status)

        assert not self.held(self.ONE, Fleet(incidents=(over,)))

    def test_a_call_that_may_be_made_costs_nothing_more(self) -> None:
        none = msgspec.structs.replace(LIFTED, evict=Caps(cluster=Cap(0)))
        mine = an_incident("a0", mode="Enforce", request=repair_request(at(-60)))

        assert self.held(none, Fleet())
        assert not self.held(none, Fleet(incidents=(mine,)), incident=mine)

    @pytest.mark.parametrize("needed", [repair_request(at(-601)), None])
    def test_calls_count_for_the_rate_also_once_the_gpu_is_well(
        self, needed: RepairRequest | None
    ) -> None:
        def fleet(seconds: float) -> Fleet:
            one = an_incident("b0", mode="Enforce", request=needed, requested_at=at(seconds))
            return Fleet(incidents=(one,))

        assert "evict.rate=1 in 10m" in self.held(ONE_IN_TEN, fleet(-60))
        assert not self.held(ONE_IN_TEN, fleet(-601))

    def test_a_gpu_that_is_well_leaves_the_date_of_its_request(self) -> None:
        stored = Stored()
        assert reconciled(stored, idle(dead()), 1)[0] == "True"

        reconciled(stored, idle(gpu(0, recovery_action=action(0, 30, 60))), 60)

        repair = stored.incident.status.repair
        assert (repair.request, repair.requested_at) == (None, at(1))

    def test_two_calls_of_one_look_are_two(self) -> None:
        both = (desired("a0", calls="node-reboot"), desired("b0", calls="node-reboot"))

        answers = grant(self.ONE, Fleet(), *both, calling=True)

        assert [bool(answer.call) for answer in answers.values()] == [False, True]

    def test_further_gpus_of_a_node_that_is_called_for_cost_nothing_more(self) -> None:
        both = (desired("a0", calls="node-reboot"), desired("a1", calls="node-reboot"))

        answers = grant(self.ONE, Fleet(), *both, calling=True)

        assert not any(answer.call for answer in answers.values())

    def test_calls_hold_no_eviction(self) -> None:
        fleet = Fleet(incidents=(self.CALLED,), places={gpu_of("b0"): place("b0")})

        assert not grant(self.ONE, fleet, desired("a0", "NoExecute"))["a0"].deferred

    def test_where_nobody_is_called_nothing_is_requested(self) -> None:
        fleet = Fleet(incidents=(self.CALLED,))

        assert not grant(self.ONE, fleet, desired("a0", calls="node-reboot"))["a0"].call


def test_a_recovered_gpu_calls_nobody() -> None:
    stored = Stored()
    reconciled(stored, idle(dead()), 1)
    status, reason, _ = reconciled(stored, idle(gpu(0, recovery_action=action())), 20)

    assert (status, reason) == ("False", "RepairBeingVerified")
    assert stored.incident.status.repair.needs not in {"NodeReboot", "Replacement"}
    assert stored.incident.status.repair.request is None
