"""What the policy or a user has set free is tainted again as if it never was: under every brake."""

from datetime import timedelta
from typing import Any

import msgspec

from exporter.model.node_health import FabricHealth, GpuHealth
from remediator.plan.view import NodeView
from remediator.policy.limits import LIFTED, Cap, Caps
from remediator.policy.place import Area
from remediator.policy.table import Policy
from remediator.policy.windows import Exemption, Once, Window
from tests.remediator.builders import (
    ALL_SEVEN,
    LASTS,
    NODE,
    SLICE_5,
    Stored,
    action,
    at,
    dead,
    gpu,
    mig_gpu,
    policy,
    report,
    until,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import settle

DAY = 86400.0
TAINTS = policy(LIFTED, ceiling="NoSchedule")
STOPPED = msgspec.structs.replace(TAINTS, stopped="ana: bad driver")
HERE = Area(nodes=(NODE,))


def without(fault_class: str, rows: Policy = TAINTS) -> Policy:
    """Return a policy in which one class is only observed."""
    lowered = (
        msgspec.structs.replace(row, mode="incident-only")
        if row.fault_class == fault_class
        else row
        for row in rows.rows
    )
    return msgspec.structs.replace(rows, rows=tuple(lowered))


def sick(index: int, second: float, **fields: Any) -> GpuHealth:
    """A GPU whose driver requests a reset since second 1."""
    return gpu(index, xid(95), recovery_action=action(1, 1, second), **fields)


def node_at(second: float, *gpus: GpuHealth) -> NodeView:
    """A fresh report of the node; of one sick GPU unless others are given."""
    gpus = gpus or (sick(0, second),)
    return view(*gpus, report=report(*gpus, observed_at=at(second)))


def silent(second: float, *gpus: GpuHealth) -> NodeView:
    """The agent of the node is being upgraded."""
    return with_fields(node_at(second, *gpus), stale="silent for 151 s")


def stored_after(rows: Policy, second: float = 100) -> Stored:
    """A GPU was tainted, and another policy takes the taint away."""
    stored = Stored()
    settle(stored, node_at(2), 2, TAINTS)
    assert stored.effects() == {"gpu-0": "NoSchedule"}
    settle(stored, node_at(second), second, rows)
    assert stored.effects() == {}
    return stored


def reason(stored: Stored) -> str:
    return next(it.reason for it in stored.incident.status.conditions if it.type == "Deferred")


def test_a_mode_that_is_raised_under_the_emergency_stop_taints_nothing() -> None:
    stored = stored_after(without("gpu", STOPPED))

    settle(stored, node_at(5000), 5000, STOPPED)
    assert (stored.effects(), reason(stored)) == ({}, "EmergencyStop")

    settle(stored, node_at(6000), 6000, TAINTS)
    assert stored.effects() == {"gpu-0": "NoSchedule"}, "once the stop is over"


def test_an_ignore_that_is_withdrawn_under_a_hold_taints_nothing() -> None:
    stored = Stored()
    settle(stored, node_at(2), 2, TAINTS)
    stored.intend("Ignore", LASTS)
    settle(stored, node_at(100), 100, TAINTS)
    stored.intend("Hold", until(DAY))
    settle(stored, node_at(200), 200, TAINTS)
    stored.intend("Ignore", None)

    settle(stored, node_at(300), 300, TAINTS)
    assert (stored.effects(), reason(stored)) == ({}, "Human")

    settle(stored, node_at(DAY + 1), DAY + 1, TAINTS)
    assert stored.effects() == {"gpu-0": "NoSchedule"}


def test_an_exemption_that_ends_in_a_maintenance_window_taints_nothing() -> None:
    spares = Exemption(name="exempt[0]", area=HERE, why="burn-in", until=at(3600))
    window = Window(name="firmware", area=HERE, when=Once(at(50), at(DAY)))
    rows = msgspec.structs.replace(TAINTS, exempt=(spares,), maintenance=(window,))
    stored = stored_after(rows)

    settle(stored, node_at(3601), 3601, rows.at(at(3601)))
    assert (stored.effects(), reason(stored)) == ({}, "Maintenance")


def test_a_class_that_is_enforced_again_takes_no_more_than_the_budget_has_left() -> None:
    limits = msgspec.structs.replace(LIFTED, taint=Caps(cluster=Cap(2)))
    rows, stored = policy(limits, ceiling="NoSchedule"), Stored()

    def moment(second: float, *others: GpuHealth) -> NodeView:
        return node_at(second, sick(0, second), sick(1, second), *others)

    settle(stored, moment(2, gpu(2), gpu(3)), 2, rows)
    settle(stored, moment(100, dead(2), dead(3)), 100, without("gpu", rows))
    assert stored.effects() == {"gpu-2": "NoSchedule", "gpu-3": "NoSchedule"}

    settle(stored, moment(4000, dead(2), dead(3)), 4000, rows)
    assert stored.effects() == {"gpu-2": "NoSchedule", "gpu-3": "NoSchedule"}


def test_an_exemption_that_ends_while_nothing_is_known_taints_nothing() -> None:
    """The GPU was reset while it was exempt, and its agent fell silent."""
    spares = Exemption(name="exempt[0]", area=HERE, why="burn-in")
    stored = stored_after(msgspec.structs.replace(TAINTS, exempt=(spares,)))
    well = gpu(0, epoch=2, epoch_started=at(3000), recovery_action=action(0, 3000, 3000))

    settle(stored, silent(3000, well), 9000, TAINTS)

    assert stored.effects() == {}


def test_an_agent_that_is_silent_brings_back_no_taint_of_a_class_that_is_observed() -> None:
    """The incident has another class, which is over and would still be enforced."""

    def moment(second: float, status: int = 0) -> GpuHealth:
        fabric = FabricHealth(state=3, status=status)
        return gpu(0, recovery_action=action(0, -1, second), fabric=fabric)

    def both(second: float) -> GpuHealth:
        return sick(0, second, fabric=FabricHealth(state=3, status=0))

    stored, rows = Stored(), without("gpu", STOPPED)
    settle(stored, node_at(0.5, moment(0.5, status=15)), 0.5, TAINTS)
    settle(stored, node_at(5, both(5)), 5, TAINTS)
    assert stored.incident.status.fault.classes == ("fabric", "gpu")
    settle(stored, node_at(100, both(100)), 100, rows)
    assert stored.effects() == {}

    settle(stored, silent(100, both(100)), 2000, rows)

    assert stored.effects() == {}


def test_siblings_of_a_failed_slice_stay_free_while_the_agent_is_silent() -> None:
    def whole(second: float) -> GpuHealth:
        return mig_gpu(0, xid(95), recovery_action=action(1, 1, second))

    def part(second: float) -> GpuHealth:
        errors = xid(95), xid(94, seen=5000, gi=5)
        return mig_gpu(0, *errors, recovery_action=action(0, 4900, second))

    stored, low = Stored(), without("gpu")
    settle(stored, node_at(2, whole(2)), 2, TAINTS)
    assert set(stored.effects()) == set(ALL_SEVEN)
    settle(stored, node_at(100, whole(100)), 100, low)
    settle(stored, node_at(5002, part(5002)), 5002, low)
    assert stored.effects() == {SLICE_5: "NoSchedule"}

    settle(stored, silent(5002, part(5002)), 5200, low)

    assert stored.effects() == {SLICE_5: "NoSchedule"}


def test_a_slice_that_is_named_while_nothing_is_tainted_is_tainted_alone_later() -> None:
    def moment(second: float, gi: int | None) -> NodeView:
        return node_at(second, mig_gpu(0, xid(94, gi=gi), recovery_action=action(0, -1, second)))

    stored = Stored()
    for second in (0.5, 4):
        settle(stored, moment(second, None), second, TAINTS)
    assert set(stored.effects()) == set(ALL_SEVEN)
    for second, gi in ((10, None), (21, 5)):
        settle(stored, moment(second, gi), second, without("contained"))

    settle(stored, moment(40, 5), 40, TAINTS)

    assert stored.effects() == {SLICE_5: "NoSchedule"}


def test_an_incident_whose_taint_was_taken_away_still_counts_as_a_repeat() -> None:
    stored = stored_after(without("gpu"))
    well = gpu(0, epoch=2, epoch_started=at(200), recovery_action=action(0, 200, 200))
    rows = msgspec.structs.replace(TAINTS, rows=policy(LIFTED, soak=timedelta(seconds=60)).rows)
    for second in (201.0, 300.0, 301.0):
        later = msgspec.structs.replace(well, recovery_action=action(0, 200, second))
        settle(stored, node_at(second, later), second, rows)
    assert stored.incident.status.phase == "Recovered"

    again = gpu(0, xid(95, seen=400), recovery_action=action(1, 401, 402), epoch=2)
    settle(stored, node_at(402, again), 402, rows)

    assert [it.status.history.recurrence for it in stored.incidents.values()] == [1, 2]
