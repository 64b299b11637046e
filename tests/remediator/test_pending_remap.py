"""A row remap beside a fault that ends without a reset: the taint of that does not wait for one."""

import msgspec
import pytest

from exporter.model.node_health import FabricHealth, GpuHealth, MemoryHealth, MemorySlices
from remediator.policy.table import Ceiling, Mode
from tests.remediator.builders import (
    SLICE_5,
    Stored,
    action,
    at,
    gpu,
    mig_gpu,
    policy,
    soaking,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import settle

DAY = 86400
REMAP = MemoryHealth(row_remap_pending="True", row_remap_failed="False", remap_observed_at=at(1))


def sick() -> GpuHealth:
    error = msgspec.structs.replace(xid(94, gi=5), mig_mode="Enabled", placement=MemorySlices(4, 1))
    return mig_gpu(0, error, recovery_action=action(observed=0.5), memory=REMAP)


def test_the_slice_is_released_after_its_soak_and_the_remap_is_reported_by_itself() -> None:
    stored = Stored()
    for second in (1, 5, 10):
        settle(stored, view(sick()), second)
    assert stored.effects() == {SLICE_5: "NoExecute"}

    for second in (60, 300, 620, 700):
        settle(stored, view(sick()), second)

    assert stored.effects() == {}
    first, then = sorted(stored.incidents.values(), key=lambda incident: incident.name)
    assert (first.status.fault.fault_class, first.open) == ("contained", False)
    assert (then.status.fault.fault_class, then.status.fault.cause, then.open) == (
        "pending",
        "row-remap-pending",
        True,
    )


@pytest.mark.parametrize(
    ("mode", "ceiling"),
    [("incident-only", "NoSchedule"), ("enforce", "None"), ("off", "NoSchedule")],
)
def test_a_remap_that_restricts_nothing_keeps_no_slice_and_defers_no_eviction(
    mode: Mode, ceiling: Ceiling
) -> None:
    rows = tuple(
        with_fields(row, mode=mode, ceiling=ceiling) if row.fault_class == "pending" else row
        for row in policy().rows
    )
    stored, asks = Stored(), msgspec.structs.replace(policy(), rows=rows)
    for second in (1, 5, 10):
        settle(stored, view(sick()), second, asks)
    assert stored.effects()[SLICE_5] == "NoExecute"

    for second in (60, 300, 620, 700):
        settle(stored, view(sick()), second, asks)

    assert stored.effects().get(SLICE_5, "None") == "None"


def test_the_soak_of_a_remap_that_is_only_observed_keeps_no_slice() -> None:
    stored, rows = Stored(), soaking("pending", DAY)
    for second in (1, 5, 10, 60, 300, 620, 700):
        settle(stored, view(sick()), second, rows)

    assert stored.effects() == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"presence": "Unknown"},
        {"recovery_action": action(1, 2, 2)},
        {"memory": msgspec.structs.replace(REMAP, sram_threshold_exceeded="True")},
    ],
)
def test_anything_more_than_the_remap_keeps_it(fields: dict[str, object]) -> None:
    stored = Stored()
    for second in (1, 5, 10):
        settle(stored, view(sick()), second)
    worse = with_fields(sick(), **fields)

    for second in (60, 300, 620, 700):
        settle(stored, view(worse), second)

    assert stored.effects()[SLICE_5] == "NoExecute"


def test_where_the_policy_taints_for_a_remap_the_slice_waits_for_the_reset() -> None:
    stored = Stored()
    rows = policy(ceiling="NoExecute")
    for second in (1, 5, 10, 60, 620, 700):
        settle(stored, view(sick()), second, rows)

    assert stored.effects()[SLICE_5] != "None"
    assert stored.incident.open


def test_a_fabric_that_is_well_again_is_released_while_the_remap_waits_for_weeks() -> None:
    """A remap of weeks has an incident already, which the fabric's fault makes worse."""

    def moment(second: float, status: int) -> GpuHealth:
        read, fabric = action(0, -1, second), FabricHealth(state=3, status=status)
        return gpu(0, recovery_action=read, memory=REMAP, fabric=fabric)

    stored = Stored()
    settle(stored, view(moment(1, 0)), 1)
    for second in (DAY, DAY + 5):
        settle(stored, view(moment(second, 15)), second)
    assert stored.effects() == {"gpu-0": "NoSchedule"}

    for second in (DAY + 60, DAY + 300, DAY + 661, DAY + 662):
        settle(stored, view(moment(second, 0)), second)

    assert stored.effects() == {}
    classes = {it.status.fault.fault_class: it.open for it in stored.incidents.values()}
    assert classes == {"fabric": False, "pending": True}
