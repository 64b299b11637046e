"""What cannot be trusted is unknown: it adds no taint, removes none and evicts nobody."""

from datetime import datetime, timedelta
from itertools import pairwise

import msgspec
import pytest

from exporter.model.node_health import GpuHealth
from remediator.model.claim import DeviceAllocation, Toleration
from remediator.plan.events import Event
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.steps import DeleteRule, Disruption, Step
from remediator.plan.view import NEEDED, Act, Fleet, Knowledge, NodeView, Trust, WatchedKind
from remediator.reconcile import Reconciler
from tests.remediator.builders import (
    NODE,
    Stored,
    action,
    at,
    dead,
    gpu,
    policy,
    uuid,
    view,
    with_fields,
)
from tests.remediator.playing import EVICTS_LATER, claim, pod, settle

KINDS: tuple[WatchedKind, ...] = ("reports", "leases", "slices", "claims", "rules", "incidents")
PLACE: tuple[WatchedKind, ...] = ("reports", "leases", "slices", "rules", "incidents")
REFUSED = "the API server refuses to list or watch it (403)"
REPAIRED = gpu(0, epoch_started=at(200), epoch=2, recovery_action=action(0, 250, 250))


def held(*gpus: GpuHealth, **fields: object) -> NodeView:
    """A node on which a pod has gpu-0."""
    seen = view(*gpus, claims=(claim("gpu-0"),), pods=(pod(),))
    return with_fields(seen, **fields)


def blind(seen: NodeView, *kinds: WatchedKind) -> NodeView:
    return msgspec.structs.replace(seen, blind=dict.fromkeys(kinds, REFUSED))


ROWS: dict[Act, tuple[Knowledge, ...]] = {
    "restrict": (*PLACE, "report"),
    "rebind": ("slices", "rules", "incidents"),
    "release": PLACE,
    "disrupt": (*PLACE, "claims", "clock", "policy"),
    "begin a call": ("clock", "policy"),
    "name pods": ("slices", "claims"),
    "end a clock": ("clock",),
    "end a soak": ("clock", "policy"),
    "prune a report": (*PLACE, "clock"),
}


@pytest.mark.parametrize("kind", [*KINDS, "report", "clock", "policy"])
@pytest.mark.parametrize("act", NEEDED)
def test_an_act_rests_on_its_row_of_the_matrix_and_on_nothing_else(
    kind: Knowledge, act: Act
) -> None:
    assert Trust({kind: REFUSED}).refusal(act) == (REFUSED if kind in ROWS[act] else "")


def test_the_first_group_of_doubts_gives_the_reason() -> None:
    trust = Trust({"policy": "two policies", "claims": "no claims", "slices": "no slices"})

    assert trust.refusal("disrupt") == "no slices; no claims"
    assert trust.refusal("begin a call") == "two policies"


@pytest.mark.parametrize("kind", PLACE)
def test_a_sick_gpu_is_not_tainted_while_one_of_them_is_blind(kind: WatchedKind) -> None:
    stored = Stored()
    settle(stored, blind(held(dead(0)), kind), 100)
    assert stored.effects() == {}

    for seconds in (101, 105):
        settle(stored, held(dead(0)), seconds)
    assert stored.effects() == {"gpu-0": "NoExecute"}, "it goes on by itself"


@pytest.mark.parametrize("kind", PLACE)
def test_a_healthy_gpu_is_not_released_while_one_of_them_is_blind(kind: WatchedKind) -> None:
    stored = Stored()
    for seconds in (100, 110):
        settle(stored, held(dead(0)), seconds)
    healthy = view(REPAIRED)
    settle(stored, healthy, 300)
    settle(stored, blind(healthy, kind), 950)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert stored.incident.status.message == f"unknown, so nothing changes: {REFUSED}"
    settle(stored, healthy, 960)
    assert stored.effects() == {"gpu-0": "NoExecute"}, "the soak had a gap"
    settle(stored, healthy, 1561)
    assert stored.effects() == {}


def test_while_claims_are_blind_new_pods_are_kept_away_and_nobody_is_evicted() -> None:
    stored = Stored()
    for seconds in (100, 110, 120):
        settle(stored, blind(held(dead(0)), "claims"), seconds)
    assert stored.effects() == {"gpu-0": "NoSchedule"}
    (reported,) = [
        condition for condition in stored.incident.status.conditions if condition.type == "Deferred"
    ]
    assert (reported.status, reported.reason) == ("True", "Blindness")
    assert REFUSED in reported.message
    (pods,) = [
        condition
        for condition in stored.incident.status.conditions
        if condition.type == "AffectedPodsIncomplete"
    ]
    assert (pods.status, pods.message) == ("True", REFUSED)

    settle(stored, held(dead(0)), 130)
    assert stored.effects() == {"gpu-0": "NoExecute"}


def test_an_eviction_that_runs_is_not_taken_back_because_claims_are_blind() -> None:
    stored = Stored()
    for seconds in (100, 110):
        settle(stored, held(dead(0)), seconds)
    settle(stored, blind(held(dead(0)), "claims"), 120)
    assert stored.effects() == {"gpu-0": "NoExecute"}


def test_nobody_is_found_gone_while_claims_are_blind() -> None:
    stored = Stored()
    for seconds in (100, 110):
        settle(stored, held(dead(0)), seconds)
    empty = view(dead(0), pods=())
    for seconds in (120, 140, 160):
        settle(stored, blind(empty, "claims"), seconds)
        assert stored.incident.status.phase == "Evicting"
    for seconds in (170, 190):
        settle(stored, empty, seconds)
    assert stored.incident.status.phase == "Drained"
    settle(stored, blind(empty, "claims"), 200)
    assert stored.incident.status.phase == "Drained", "what was found twice stays so"


def test_a_watch_of_slices_that_is_blind_proves_no_other_board_under_a_name() -> None:
    """By its report gpu-0 is a healthy board now, and the slices are of before."""
    stored = Stored()
    for seconds in (100, 110):
        settle(stored, held(dead(0)), seconds)
    swapped = held(gpu(1, minor=0))
    settle(stored, blind(swapped, "slices"), 200)
    assert stored.effects() == {"gpu-0": "NoExecute"}


def test_a_renumbered_node_with_blind_slices_evicts_nobody_from_the_healthy_board() -> None:
    """Board 1 got the name gpu-0 by a reboot; what is known of slices says gpu-0 is board 0."""
    stored = Stored()
    seen = held(dead(0), gpu(1))
    for seconds in (100, 110, 120):
        settle(stored, blind(seen, "slices"), seconds)
    assert stored.effects() == {}


def test_a_node_that_is_gone_for_a_week_keeps_its_rules_while_incidents_are_blind() -> None:
    stored = Stored()
    for seconds in (100, 110):
        settle(stored, held(dead(0)), seconds)
    gone = NodeView(
        node=NODE,
        nodes_known=True,
    )
    settle(stored, gone, 200)
    week = timedelta(days=8).total_seconds()
    settle(stored, blind(gone, "incidents"), week)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    settle(stored, gone, week + 1)
    assert stored.effects() == {}


def test_a_node_that_is_gone_for_weeks_is_not_looked_at_all_the_time_while_blind() -> None:
    """What was to be looked at by now is still blind: a moment gone by wakes nobody."""
    gone, stored = (
        NodeView(
            node=NODE,
            nodes_known=True,
        ),
        Stored(),
    )
    settle(stored, held(dead()), 1, EVICTS_LATER)
    settle(stored, gone, 100)

    decision = settle(stored, blind(gone, "slices"), 100 + 21 * 86400)

    assert stored.effects() != {}
    assert decision.wake_at is None


def test_a_policy_that_is_lowered_still_takes_rules_down() -> None:
    """A user outranks every ratchet, and no blindness."""
    stored = Stored()
    for seconds in (100, 110):
        settle(stored, held(dead(0)), seconds)
    seen = blind(held(dead(0)), "slices")
    settle(stored, seen, 120, policy(mode="incident-only"))
    assert stored.effects() == {}


class Looking:
    """A cluster whose last look before a disruption gives these answers, one after the other."""

    def __init__(self, seen: NodeView, *answers: str) -> None:
        self.seen, self.stored = seen, Stored()
        self.now = at(0)
        self._answers = list(answers)
        self.looks: list[Disruption] = []

    def confirm(self, _: NodeView, begins: Disruption, /) -> str:
        self.looks.append(begins)
        return self._answers.pop(0) if self._answers else ""

    def observe(self, node: str) -> NodeView:
        assert node == NODE
        return self.stored.over(self.seen)

    def fleet(self) -> Fleet:
        return self.stored.fleet()

    def apply(self, step: Step) -> None:
        self.stored.take(step, self.now)

    def post(self, event: Event, now: datetime) -> None:
        """Tell nobody."""

    def rounds(self, reconciler: Reconciler, seconds: float, times: int = 6) -> NodeDecision:
        self.now = at(seconds)
        decisions = [reconciler.reconcile(NODE, self.now) for _ in range(times)]
        return decisions[-1]


CHANGED = "node-a publishes other devices than the watch reported"


def test_a_last_look_that_sees_something_else_evicts_nobody_and_looks_again() -> None:
    cluster = Looking(held(dead(0)), *[CHANGED] * 7)
    reconciler = Reconciler(cluster, policy)
    cluster.rounds(Reconciler(cluster, lambda: EVICTS_LATER), 100)
    assert cluster.looks == [], "a taint that keeps new pods away costs no look"

    decision = cluster.rounds(reconciler, 110)
    assert cluster.stored.effects() == {"gpu-0": "NoSchedule"}
    assert decision.unconfirmed == CHANGED
    assert CHANGED in cluster.stored.incident.status.message
    assert decision.wake_at is not None
    assert at(110) < decision.wake_at <= at(110) + timedelta(seconds=30)

    cluster.rounds(reconciler, 120)
    cluster.rounds(reconciler, 121)
    assert cluster.stored.effects() == {"gpu-0": "NoExecute"}


def test_looks_again_grow_apart_and_have_an_end() -> None:
    cluster = Looking(held(dead(0)), *[CHANGED] * 100)
    reconciler = Reconciler(cluster, policy)
    cluster.rounds(Reconciler(cluster, lambda: EVICTS_LATER), 100)
    waits = [
        (decision.wake_at or cluster.now) - cluster.now
        for decision in (cluster.rounds(reconciler, 110, times=1) for _ in range(40))
    ]
    assert waits[0] < timedelta(seconds=1)
    assert max(waits) <= timedelta(seconds=30)
    assert all(wait <= other for wait, other in pairwise(waits))


def test_a_disruption_that_was_confirmed_once_needs_no_other_confirmation() -> None:
    cluster = Looking(held(dead(0)))
    reconciler = Reconciler(cluster, policy)
    for seconds in (100, 110, 120, 130):
        cluster.rounds(reconciler, seconds)
    assert cluster.stored.effects() == {"gpu-0": "NoExecute"}
    assert len(cluster.looks) == 1
    assert {device.device for device in cluster.looks[0].devices} == {"gpu-0"}


def test_an_incident_where_no_rules_are_served_is_reported_and_nothing_is_frozen() -> None:
    """DeviceTaintRules stop being served while a GPU is tainted: incident-only, not Unknown."""
    stored = Stored()
    for seconds in (100, 110):
        settle(stored, held(dead(0)), seconds)
    before = dict(stored.rules)
    unserved = held(dead(0), rules_served=False)
    incident_only = policy(mode="incident-only")
    for seconds in (120, 130):
        incident = tuple(stored.incidents.values())
        seen = with_fields(unserved, incidents=incident)
        decision = decide_node(seen, Fleet(incidents=incident), incident_only, at(seconds))
        assert not [step for step in decision.steps if isinstance(step, DeleteRule)]
        for step in decision.steps:
            stored.take(step, at(seconds))
    status = stored.incident.status
    assert status.phase == "Suspected"
    assert [record.effect for record in status.scope.rules] == ["NoExecute"], (
        "as they were last seen"
    )
    assert [
        condition.status
        for condition in status.conditions
        if condition.type == "DeviceStateUnknown"
    ] == ["False"]

    stored.rules = before
    settle(stored, held(dead(0)), 140)
    settle(stored, held(dead(0)), 150)
    assert stored.effects() == {"gpu-0": "NoExecute"}, "served again, it is as it was"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"unbound": {uuid(0): "pool d/p says by nodeSelector where it is"}}, "by nodeSelector"),
        ({"contested": frozenset({("gpu.nvidia.com", "pool-x")})}, "is not named after node-a"),
    ],
)
def test_why_no_device_can_be_tainted_is_reported(fields: dict[str, object], why: str) -> None:
    seen = view(dead(0))
    if "unbound" in fields:
        seen = with_fields(seen, inventory=())
    else:
        (one,) = seen.slices.inventory
        name = msgspec.structs.replace(one.device, pool="pool-x")
        moved = msgspec.structs.replace(one, device=name)
        seen = with_fields(seen, inventory=(moved,))
    stored = Stored()
    settle(stored, with_fields(seen, **fields), 100)
    assert stored.effects() == {}
    assert why in stored.incident.status.message
    decision = decide_node(with_fields(seen, **fields), Fleet(), policy(), at(100))
    assert [bool(board.presence.unbound) for board, _ in decision.pairs] == [True]


def allocated(seconds: float, tolerant: bool = False) -> NodeView:  # noqa: FBT002 - a table
    held = claim("gpu-0")
    assert held.status is not None
    assert held.status.allocation is not None
    allocation = msgspec.structs.replace(held.status.allocation, allocation_timestamp=at(seconds))
    if tolerant:
        (result,) = allocation.devices.results
        anything = msgspec.structs.replace(result, tolerations=(Toleration(operator="Exists"),))
        allocation = msgspec.structs.replace(allocation, devices=DeviceAllocation((anything,)))
    status = msgspec.structs.replace(held.status, allocation=allocation)
    return view(dead(0), claims=(msgspec.structs.replace(held, status=status),), pods=(pod(),))


@pytest.mark.parametrize(
    ("seconds", "tolerant", "ignored"),
    [(90, False, False), (131, False, True), (131, True, False), (129, False, False)],
)
def test_a_scheduler_that_ignores_taints_is_noticed(
    seconds: float,
    tolerant: bool,
    ignored: bool,
) -> None:
    stored, mild = Stored(), policy(ceiling="NoSchedule")
    settle(stored, view(dead(0)), 100, mild)
    stored.rules = {
        name: msgspec.structs.replace(rule, time_added=at(100))
        for name, rule in stored.rules.items()
    }
    settle(stored, allocated(seconds, tolerant), 140, mild)
    (reported,) = [
        condition
        for condition in stored.incident.status.conditions
        if condition.type == "TaintIgnored"
    ]
    assert reported.status == ("True" if ignored else "False")
    assert ("team/claim-of-train-0" in reported.message) == ignored
