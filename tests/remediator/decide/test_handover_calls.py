"""A call for repair of a node is a harm of its own: what holds it, and when its wait begins."""

from datetime import timedelta

import msgspec
import pytest

from exporter.report import GpuHealth, MemoryHealth, ObjectMeta
from remediator.decide.fleet import Fleet
from remediator.decide.handover import OFF, HandoverOptions
from remediator.decide.reconcile import decide_node
from remediator.decide.view import NodeView
from remediator.judge.fault import NODE_LEVEL
from remediator.objects.incident import Incident, IncidentSpec, IncidentStatus
from remediator.objects.nodes import REPAIR_NEEDED, NodeFacts
from remediator.policy.limits import LIFTED, Cap, Caps, Limits, Rate
from remediator.policy.table import Policy
from tests.remediator.builders import (
    RESET,
    Stored,
    action,
    at,
    dead,
    gpu,
    policy,
    uuid,
    view,
    xid,
)
from tests.remediator.decide.fleets import gpu_of, grant, place, story, wish
from tests.remediator.decide.handing import ON, node, pair, repair
from tests.remediator.telling import claim, pod

HOUR = 3600.0
WORN = gpu(0, memory=MemoryHealth(remap_failure=True, remap_observed_at=at(0)))
"""It needs a replacement, and its class never evicts."""


def idle(sick: GpuHealth) -> NodeView:
    """A node of two GPUs, of which nobody holds one."""
    return view(sick, gpu(1), pods=())


def busy(sick: GpuHealth) -> NodeView:
    """The same with somebody on the healthy GPU."""
    return view(sick, gpu(1), claims=(claim("gpu-1", "big"),), pods=(pod("big"),))


def told(
    stored: Stored,
    seen: NodeView,
    seconds: float,
    rows: Policy | None = None,
    options: HandoverOptions = ON,
    **fleet: object,
) -> tuple[str, str, str]:
    """Reconcile until nothing is left to do, and return what the Node says."""
    for _ in range(8):
        conditions = tuple(stored.conditions.values())
        facts = NodeFacts(name=seen.node, uid="u", conditions=conditions)
        full = msgspec.structs.replace(stored.over(seen), facts=facts, nodes_known=True)
        around = msgspec.structs.replace(stored.fleet(), **fleet)
        others = (*stored.incidents.values(), *around.incidents)
        around = msgspec.structs.replace(
            around, incidents=tuple({one.name: one for one in others}.values())
        )
        decision = decide_node(full, around, rows or policy(LIFTED), at(seconds), options)
        for step in decision.steps:
            stored.take(step, at(seconds))
        if not decision.steps:
            one = stored.conditions.get(REPAIR_NEEDED)
            return (one.status, one.reason, one.message) if one else ("", "", "")
    raise AssertionError("never settles")


def wave(fault: str, cause: str) -> tuple[Incident, ...]:
    """The same fault, new on seven other nodes."""
    return tuple(
        Incident(
            ObjectMeta(name=f"other-{n}", uid=f"uid-{n}", creation_timestamp=at(0)),
            IncidentSpec(f"node-{n}", uuid(0, f"node-{n}"), fault, cause),
            IncidentStatus(mode="enforce"),
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
            status, reason, message = told(stored, seen, second, rows, incidents=wave(fault, cause))
            assert (status, reason) == ("False", "Held")
            assert "new on 3 nodes or more within 10m" in message

        status, *_ = told(stored, seen, 700, rows, incidents=wave(fault, cause))
        assert status == "True", "when no further node joins it goes on by itself"

    @pytest.mark.parametrize("sick", [dead(), WORN])
    def test_a_budget_of_nothing_calls_nobody(self, sick: GpuHealth) -> None:
        none = msgspec.structs.replace(LIFTED, evict=Caps(cluster=Cap(0)))
        rows, stored = policy(none, ceiling="NoSchedule"), Stored()
        seen = idle(sick)

        for second in (1, 5, 2 * HOUR):
            status, reason, message = told(stored, seen, second, rows)
            assert (status, reason) == ("False", "Held")
            assert "budget evict.cluster=0 is used up" in message
        assert stored.effects() == {"gpu-0": "NoSchedule"}, "the fence is not held for it"

    def test_a_policy_that_was_just_switched_on_calls_nobody_and_then_waits_in_full(self) -> None:
        stored, seen = Stored(), busy(dead())
        for second in (1, 100, 86400):
            assert told(stored, seen, second, policy(mode="incident-only"))[0] == ""
        changed = at(86401)

        for second in (86401.5, 86403, 86410, 86401 + 1799):
            assert told(stored, seen, second, policy(), policy_changed_at=changed)[1] == "Held"
        begun = 86401 + 1800
        for second in (begun, begun + HOUR - 1):
            assert (
                told(stored, seen, second, policy(), policy_changed_at=changed)[1]
                == "WaitingForNeighbours"
            )
        assert told(stored, seen, begun + HOUR, policy(), policy_changed_at=changed)[0] == "True"

    def test_a_wave_that_comes_up_while_neighbours_are_waited_for_holds_it(self) -> None:
        stored, seen = Stored(), busy(dead())
        assert told(stored, seen, 1, policy())[1] == "WaitingForNeighbours"

        assert told(stored, seen, 60, policy(), incidents=wave("lost", "xid-79"))[1] == "Held"

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
            said = told(
                stored,
                idle(sick),
                second,
                msgspec.structs.replace(rows, rows=watched),
            )

        assert said == ("", "", "")
        assert stored.incident.status.needs == "replacement", "the incident still says so"

    def test_the_need_of_a_gpu_that_is_held_is_not_said_for_one_that_is_not(self) -> None:
        found = repair(node(), pair(0, "replacement", call_held="no"), pair(1, "node-reboot"))

        assert (found.status, found.reason) == ("True", "NodeRebootNeeded")
        assert uuid(0) not in found.message


class TestWait:
    def hold(self, stored: Stored, seconds: float) -> None:
        until = f"{at(seconds):%Y-%m-%dT%H:%M:%SZ}"
        stored.annotate("draguard.dev/hold", f"{until}; by=ana; why=big must end")

    @pytest.mark.parametrize("blind", ["", "the agent of node-a has been silent"])
    def test_a_hold_that_ends_leaves_the_whole_wait_to_the_neighbours(self, blind: str) -> None:
        stored, seen = Stored(), busy(dead())
        assert told(stored, seen, 1)[1] == "WaitingForNeighbours"
        self.hold(stored, 8 * HOUR)

        told(stored, msgspec.structs.replace(seen, stale=blind), 100)
        for second in (8 * HOUR, 9 * HOUR - 1):
            assert told(stored, seen, second)[1] == "WaitingForNeighbours"
        assert told(stored, seen, 9 * HOUR)[0] == "True"

    def test_a_hold_after_the_call_takes_nothing_back_neither_while_it_lasts_nor_after(
        self,
    ) -> None:
        stored, seen = Stored(), busy(dead())
        for second in (1, HOUR + 2):
            told(stored, seen, second)
        assert stored.conditions[REPAIR_NEEDED].status == "True"
        self.hold(stored, 3 * HOUR)

        for second in (HOUR + 10, 2 * HOUR, 3 * HOUR, 3 * HOUR + 1):
            assert told(stored, seen, second)[0] == "True"

    def test_it_does_not_begin_while_nobody_would_be_called(self) -> None:
        stored, seen = Stored(), busy(dead())
        for second in (1, 86400):
            told(stored, seen, second, options=OFF)

        assert told(stored, seen, 86401)[1] == "WaitingForNeighbours"
        assert told(stored, seen, 86401 + HOUR)[0] == "True"

    def test_it_begins_anew_when_the_mode_was_lowered_in_between(self) -> None:
        stored, seen = Stored(), busy(dead())
        told(stored, seen, 1)
        told(stored, seen, 10, policy(LIFTED, mode="incident-only"))

        assert told(stored, seen, HOUR + 10)[1] == "WaitingForNeighbours"

    def test_not_knowing_does_not_begin_it_anew(self) -> None:
        stored, seen = Stored(), busy(dead())
        told(stored, seen, 1)
        told(stored, msgspec.structs.replace(seen, stale="silent"), 100)

        assert told(stored, seen, HOUR + 1)[0] == "True"


class TestCosts:
    """A call counts as an eviction, for calls; what evicts already costs no second time."""

    ONE = msgspec.structs.replace(LIFTED, evict=Caps(cluster=Cap(1)))
    CALLED = story("b0", mode="enforce", needs_since=at(-60))

    def held(self, limits: Limits, fleet: Fleet, incident: Incident | None = None) -> str:
        asked = wish("a0", calls="node-reboot", incident=incident)
        answers = grant(limits, fleet, asked, calling=True)
        return answers["a0"].call_held

    def test_a_call_on_another_node_counts(self) -> None:
        fleet = Fleet(incidents=(self.CALLED,))

        assert "budget evict.cluster=1 is used up (1/1 GPUs" in self.held(self.ONE, fleet)

    @pytest.mark.parametrize("fields", [{"mode": "incident-only"}, {"closed_at": at(-1)}])
    def test_one_that_nobody_makes_any_more_does_not(self, fields: dict[str, object]) -> None:
        status = msgspec.structs.replace(self.CALLED.status, **fields)
        over = msgspec.structs.replace(self.CALLED, status=status)

        assert not self.held(self.ONE, Fleet(incidents=(over,)))

    def test_a_call_that_may_be_made_costs_nothing_more(self) -> None:
        none = msgspec.structs.replace(LIFTED, evict=Caps(cluster=Cap(0)))
        mine = story("a0", mode="enforce", needs_since=at(-60))

        assert self.held(none, Fleet())
        assert not self.held(none, Fleet(incidents=(mine,)), incident=mine)

    def test_calls_count_for_the_rate(self) -> None:
        rate = Caps(rate=Rate(1, timedelta(minutes=10)))
        limits = msgspec.structs.replace(LIFTED, evict=rate)

        assert "evict.rate=1 in 10m" in self.held(limits, Fleet(incidents=(self.CALLED,)))
        old = msgspec.structs.replace(
            self.CALLED,
            status=msgspec.structs.replace(self.CALLED.status, needs_since=at(-601)),
        )
        assert not self.held(limits, Fleet(incidents=(old,)))

    def test_two_calls_of_one_look_are_two(self) -> None:
        both = (wish("a0", calls="node-reboot"), wish("a1", calls="node-reboot"))

        answers = grant(self.ONE, Fleet(), *both, calling=True)

        assert [bool(one.call_held) for one in answers.values()] == [False, True]

    def test_calls_hold_no_eviction(self) -> None:
        fleet = Fleet(incidents=(self.CALLED,), places={gpu_of("b0"): place("b0")})

        assert not grant(self.ONE, fleet, wish("a0", "NoExecute"))["a0"].held

    def test_where_nobody_is_called_nothing_is_asked(self) -> None:
        fleet = Fleet(incidents=(self.CALLED,))

        assert not grant(self.ONE, fleet, wish("a0", calls="node-reboot"))["a0"].call_held


def test_a_recovered_gpu_calls_nobody() -> None:
    stored = Stored()
    told(stored, idle(dead()), 1)
    status, reason, _ = told(stored, idle(gpu(0, recovery_action=action())), 20)

    assert (status, reason) == ("False", "RepairBeingVerified")
    assert stored.incident.status.needs not in NODE_LEVEL
    assert stored.incident.status.needs_since is None
