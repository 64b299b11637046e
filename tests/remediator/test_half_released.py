"""A leader that dies between the release of a GPU and the last rule that it removes.

What is gone is not made again. What still stands goes by what is seen of the GPU, and by nothing
else.
"""

from collections.abc import Callable

import msgspec
import pytest

from exporter.model.node_health import XidRecord
from remediator.plan.node_decision import decide_node
from remediator.plan.view import NodeView
from remediator.policy.limits import LIFTED
from tests.remediator.builders import (
    LASTS,
    Stored,
    action,
    at,
    mig_gpu,
    policy,
    published,
    report,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import settle, tick

FIRST, SECOND, THIRD = (part.device.device for part in published(mig_gpu(0, slices=3)))
ROWS = policy(LIFTED, ceiling="NoSchedule")
RELEASED_AT = 1000.0
REST = {SECOND: "NoSchedule", THIRD: "NoSchedule"}
"""What stands once the first rule is gone."""


def node_at(second: float, *xids: XidRecord, well_since: float = 20, **fields: object) -> NodeView:
    """A fresh report of a GPU that was reset at second 20."""
    asks = action(0, well_since, second)
    health = mig_gpu(
        0, *xids, slices=3, epoch=2, epoch_started=at(20), recovery_action=asks, **fields
    )
    return view(health, report=report(health, observed_at=at(second)))


def silent(second: float) -> NodeView:
    return with_fields(node_at(second), stale=f"silent since {RELEASED_AT}")


def by_a_clock_that_is_off(second: float) -> NodeView:
    return with_fields(node_at(second), clock_doubt="our clock is off")


def half_released() -> Stored:
    """All slices were tainted for a fault of the GPU; the rule of the first one is gone."""
    stored = Stored()
    sick = mig_gpu(0, xid(95), slices=3, recovery_action=action(1, 1, 1))
    settle(stored, view(sick), 1, ROWS)
    settle(stored, node_at(30), 30, ROWS)
    tick(stored, node_at(RELEASED_AT), RELEASED_AT, ROWS)
    assert stored.effects().keys() == {FIRST, SECOND, THIRD}
    seen, now = stored.over(node_at(RELEASED_AT)), at(RELEASED_AT)
    untaint, *_ = decide_node(seen, stored.fleet(), ROWS, now).steps
    stored.take(untaint, now)
    assert stored.effects() == REST
    return stored


@pytest.mark.parametrize("doubt", [silent, by_a_clock_that_is_off])
def test_what_stands_stays_while_too_little_is_known_and_goes_without_another_soak(
    doubt: Callable[[float], NodeView],
) -> None:
    stored = half_released()
    for second in (1001, 1100, 90000):
        settle(stored, doubt(second), second, ROWS)
        assert stored.effects() == REST
    settle(stored, node_at(90100), 90100, ROWS)
    assert stored.effects() == {}
    assert stored.incident.status.phase == "Recovered"


def test_what_stands_soaks_again_once_health_had_a_gap() -> None:
    stored = half_released()
    for second in (1100, 1101, 1690):
        settle(stored, node_at(second, well_since=1095), second, ROWS)
        assert stored.effects() == REST
    settle(stored, node_at(1701, well_since=1095), 1701, ROWS)
    assert stored.effects() == {}


def test_an_error_of_one_slice_taints_that_slice_alone() -> None:
    stored = half_released()
    settle(stored, node_at(1010, xid(94, seen=1009, gi=3)), 1010, ROWS)
    assert stored.effects() == REST
    assert stored.incident.status.recovery.released_at is None


@pytest.mark.parametrize("held", [True, False])
def test_a_new_fault_taints_what_is_gone_under_each_brake(*, held: bool) -> None:
    stored, stopped = half_released(), msgspec.structs.replace(ROWS, stopped="ana: bad driver")
    if held:
        stored.intend("Hold", LASTS)
    sick = mig_gpu(
        0,
        xid(95, seen=1009),
        slices=3,
        epoch=2,
        epoch_started=at(20),
        recovery_action=action(1, 1009, 1010),
    )
    seen = view(sick, report=report(sick, observed_at=at(1010)))
    settle(stored, seen, 1010, ROWS if held else stopped)
    assert stored.effects() == REST
    stored.intend("Hold", None)
    settle(stored, seen, 1020, ROWS)
    assert stored.effects().keys() == {FIRST, SECOND, THIRD}
