"""How the end of a fault is seen that NVML reads as a state."""

from typing import Any

import pytest

from exporter.model.node_health import FabricHealth, GpuHealth, MemoryHealth, NvlinkHealth
from remediator.diagnose.ends import awaited_ends, ends_at_worst, fault_of, why_not_ended
from tests.remediator.builders import at, fault, gpu

LINKS = gpu(0, nvlink=NvlinkHealth(up=(0, 3), down=(1, 2), failed=(1, 2)))


def test_each_link_that_went_down_is_awaited() -> None:
    assert list(awaited_ends(LINKS, [fault("fabric", "nvlink-failed")])) == ["nvlink-1", "nvlink-2"]


def test_states_and_switches_are_awaited_and_what_a_recovery_action_covers_is_not() -> None:
    causes = ("fabric-status", "fabric-unhealthy", "sxid-12020", "xid-74", "recovery-action-1")
    faults = [fault("fabric", cause) for cause in causes]

    assert list(awaited_ends(LINKS, faults)) == ["fabric-status", "fabric-unhealthy", "sxid-12020"]


def test_what_a_program_may_have_made_up_is_not_awaited() -> None:
    assert not list(awaited_ends(LINKS, [fault("fabric", "sxid-12020", sources=("Syslog",))]))


@pytest.mark.parametrize(
    ("cause", "awaited"),
    [
        ("row-remap-failure", ["row-remaps"]),
        ("xid-64", ["row-remaps"]),
        ("sram-threshold", ["sram-threshold", "row-remaps"]),
    ],
)
def test_a_fault_of_the_memory_awaits_its_readings(cause: str, awaited: list[str]) -> None:
    assert list(awaited_ends(gpu(0), [fault("memory", cause)])) == awaited


@pytest.mark.parametrize("cause", ["row-remap-pending", "page-retirement-pending", "xid-63"])
def test_what_waits_for_a_reset_is_not_awaited(cause: str) -> None:
    assert not list(awaited_ends(gpu(0), [fault("contained", "xid-94"), fault("pending", cause)]))


def memory(*, read: float | None = 1, **fields: Any) -> GpuHealth:
    seen = MemoryHealth(remap_observed_at=None if read is None else at(read), **fields)
    return gpu(0, memory=seen, epoch_started=at(0))


@pytest.mark.parametrize(
    ("awaited", "board", "ended"),
    [
        ("nvlink-2", gpu(0, nvlink=NvlinkHealth(up=(2,))), True),
        ("nvlink-2", gpu(0, nvlink=NvlinkHealth(up=(0,), down=(2,))), False),  # since the boot
        ("nvlink-2", gpu(0), False),
        ("nvlink-2", gpu(0, nvlink=NvlinkHealth(up=(12, 20))), False),
        ("fabric-status", gpu(0, fabric=FabricHealth(state=3, status=0)), True),
        ("fabric-status", gpu(0, fabric=FabricHealth(state=2)), False),
        ("fabric-status", gpu(0), False),
        ("fabric-unhealthy", gpu(0, fabric=FabricHealth(health_summary=1)), True),
        ("fabric-unhealthy", gpu(0, fabric=FabricHealth(health_summary=3)), True),
        ("fabric-unhealthy", gpu(0, fabric=FabricHealth(health_summary=0)), False),
        ("row-remaps", memory(row_remap_failed="False"), True),
        ("row-remaps", memory(row_remap_failed="False", read=-1), False),  # before the reset
        ("row-remaps", memory(read=None), False),
        ("sram-threshold", memory(sram_threshold_exceeded="False"), True),
        ("sram-threshold", memory(sram_threshold_exceeded="Unknown"), False),
        ("sxid-12020", gpu(0), False),
        ("of a later version", gpu(0), False),
    ],
)
def test_a_reading_of_its_own_ends_each(awaited: str, board: GpuHealth, *, ended: bool) -> None:
    assert (why_not_ended(board, awaited, reset=False) == "") == ended


def test_a_switch_is_well_after_a_reset() -> None:
    assert why_not_ended(gpu(0), "sxid-12020", reset=True) == ""


@pytest.mark.parametrize(
    "end",
    [
        *("nvlink-2", "nvlink-all", "fabric-status", "fabric-unhealthy", "sxid-12020"),
        *("row-remaps", "sram-threshold", "xid-74", "recovery-action-1"),
    ],
)
def test_a_rule_that_is_made_for_want_of_an_end_awaits_it_again(end: str) -> None:
    fault_class, cause = fault_of(end)

    awaited = set(ends_at_worst(fault_class or "gpu", cause))

    assert awaited & {end, "nvlink-all" if end.startswith("nvlink-") else end}
