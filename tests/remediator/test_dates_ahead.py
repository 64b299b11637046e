"""A leader's clock was ahead for a moment: what it has dated decides nothing once it is right."""

from datetime import datetime, timedelta

import msgspec

from exporter.model.node_health import GpuHealth, Inventory, NodeHealth
from remediator.freshness import clock_doubt
from remediator.model.incident_status import STATE_UNKNOWN
from remediator.plan.clocks import unknown_since
from remediator.plan.node_decision import decide_node
from remediator.plan.view import NodeView
from tests.remediator.builders import (
    LASTS,
    Stored,
    action,
    at,
    gpu,
    mig_gpu,
    report,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import ENFORCE, settle

AHEAD = 8 * 86400.0
"""Seconds: each date of it is of the next week."""


def ahead(stored: Stored, seen: NodeView, second: float, by: float = AHEAD) -> None:
    """Decide by a clock that is ahead, until nothing is left to do."""
    doubted = msgspec.structs.replace(seen, clock_doubt=clock_doubt(timedelta(seconds=by)))
    for _ in range(8):
        for step in decide_node(
            stored.over(doubted), stored.fleet(), ENFORCE, at(second + by)
        ).steps:
            stored.take(step, at(second))


def seen_at(second: float, health: GpuHealth) -> NodeView:
    whole = with_fields(health, recovery_action=action(0, -3600, second))
    return view(whole, report=report(whole, observed_at=at(second)), behind=timedelta())


def waiting_for_a_remap(second: float, *failed: int) -> NodeView:
    """A row remap waits for a reset; where a link has `failed`, that waits for better evidence."""
    board = gpu(0)
    memory = with_fields(board.memory, row_remap_pending="True", remap_observed_at=at(second))
    links = with_fields(
        board.nvlink, failed=failed, down=failed, up=tuple({0, 1, 2, 3} - {*failed})
    )
    return seen_at(second, with_fields(board, memory=memory, nvlink=links))


def test_a_sick_gpu_is_tainted_after_the_settle_time() -> None:
    stored = Stored()
    settle(stored, waiting_for_a_remap(1), 1)
    ahead(stored, waiting_for_a_remap(100, 3), 100)

    for second in (103, 110):
        settle(stored, waiting_for_a_remap(second, 3), second)

    assert stored.effects() == {"gpu-0": "NoSchedule"}


def test_a_repair_that_was_confirmed_before_a_reboot_is_no_confirmed_removal() -> None:
    def sick(second: float) -> NodeView:
        both = (
            gpu(0, xid(95, 0), recovery_action=action(1, 1, second)),
            gpu(1, recovery_action=action(0, -3600, second)),
        )
        return view(*both, report=report(*both, observed_at=at(second)), behind=timedelta())

    stored = Stored()
    for second in (1, 5):
        settle(stored, sick(second), second)
    stored.intend("RepairConfirmed", LASTS)
    ahead(stored, sick(100), 100)
    settle(stored, sick(200), 200)

    for second in (300, 400, 7200):
        other = with_fields(gpu(1), recovery_action=action(0, 250, second), epoch_started=at(250))
        missing: NodeHealth = report(
            other,
            observed_at=at(second),
            boot_id="boot-2",
            inventory=Inventory(seen=1, on_bus=1, set_aside=0),
        )
        settle(stored, view(other, report=missing, behind=timedelta(), pods=()), second)

    assert stored.incident.open
    assert stored.effects() == {"gpu-0": "NoExecute"}


def test_a_gpu_that_is_unknown_is_so_since_the_clock_is_right() -> None:
    """From when budgets no longer count its evictions, and a user is needed."""
    stored, sick = Stored(), gpu(0, xid(95, 0), recovery_action=action(1, 1, 1))
    for second in (1, 5):
        settle(stored, view(sick), second)
    silent = view(sick, stale="silent")
    ahead(stored, silent, 100)
    assert unknown_since(stored.incident.status, at(150)) == at(150)

    settle(stored, silent, 200)

    assert dates(stored)[STATE_UNKNOWN] == at(200)


def test_rules_that_are_served_again_settle() -> None:
    stored, sick = Stored(), view(gpu(0, xid(95, 0), recovery_action=action(1, 1, 1)))
    settle(stored, sick, 1)
    settle(stored, with_fields(sick, rules_served=False, unseen=tuple(stored.rules.values())), 2)
    ahead(stored, sick, 100)

    for second in (103, 107):
        settle(stored, sick, second)

    assert stored.effects() == {"gpu-0": "NoExecute"}


def test_a_slice_that_is_tainted_settles() -> None:
    stored = Stored()

    def sick_at(second: float) -> NodeView:
        return seen_at(second, mig_gpu(0, xid(94, 100, gi=5)))

    ahead(stored, sick_at(100), 100)
    settle(stored, sick_at(103), 103)

    (part,) = stored.incident.status.scope.hardware
    assert part.tainted_time == at(103)


def test_a_clock_that_is_behind_moves_no_date() -> None:
    stored = Stored()
    settle(stored, waiting_for_a_remap(1), 1)
    settle(stored, waiting_for_a_remap(5000, 3), 5000)
    stored.intend("Hold", LASTS)
    settle(stored, waiting_for_a_remap(5001, 3), 5001)
    before = dates(stored)

    ahead(stored, waiting_for_a_remap(5002, 3), 5002, -4000.0)

    assert dates(stored) == before


def dates(stored: Stored) -> dict[str, datetime]:
    status = stored.incident.status
    found = {known.type: known.last_transition_time for known in status.conditions}
    found.pop("Deferred", None)  # it begins or ends with the doubt
    return found | {known.kind: known.seen_time for known in status.policy.intents}
