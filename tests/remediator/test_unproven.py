"""A GPU that reports no fault, and whose incident waits for a proof, is tainted for as long."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from exporter.model.node_health import GpuHealth, MemoryHealth, NvlinkHealth
from remediator.diagnose.fault import FaultClass
from remediator.plan.view import NodeView
from remediator.policy.limits import LIFTED
from remediator.policy.place import Area
from remediator.policy.table import SHIPPED, Policy
from remediator.policy.windows import Once, Window
from tests.remediator.builders import (
    NODE,
    SLICE_5,
    Stored,
    action,
    at,
    gpu,
    mig_gpu,
    policy,
    report,
    until,
    view,
    xid,
)
from tests.remediator.playing import claim, pod, settle

DAY = 86400.0
ENFORCED = policy(LIFTED)
OBSERVED = msgspec.structs.replace(ENFORCED, rows=tuple(SHIPPED))
UP = (0, 1, 2, 3, 4, 5)
View = Callable[[float], NodeView]


def with_lowered(*classes: FaultClass, mode: str = "incident-only") -> Policy:
    rows = (
        msgspec.structs.replace(row, mode=mode) if row.fault_class in classes else row
        for row in ENFORCED.rows
    )
    return msgspec.structs.replace(ENFORCED, rows=tuple(rows))


def node_at(second: float, sick: GpuHealth, boot: str = "boot-1") -> NodeView:
    return view(sick, report=report(sick, observed_at=at(second), boot_id=boot))


def worn(second: float) -> NodeView:
    """Over the SRAM threshold, which a reset at second 100 hides: a user must confirm."""
    over = "True" if second < 100 else "False"
    memory = MemoryHealth(
        sram_threshold_exceeded=over, row_remap_failed="False", remap_observed_at=at(second)
    )
    began: dict[str, Any] = {} if second < 100 else {"epoch": 2, "epoch_started": at(100)}
    return node_at(second, gpu(0, recovery_action=action(0, -1, second), memory=memory, **began))


def without_link(second: float) -> NodeView:
    """NVLink 5 failed, and does not come up after the reboot at second 100."""
    failed, up = ((5,), "boot-1") if second < 100 else ((), "boot-2")
    links = NvlinkHealth(up=(0, 1, 2, 3, 4), down=(5,), failed=failed)
    begun = -60 if second < 100 else 100
    began: dict[str, Any] = {"epoch_started": at(begun), "presence_since": at(begun)}
    read = action(0, begun, second)
    return node_at(second, gpu(0, recovery_action=read, nvlink=links, **began), up)


def play(stored: Stored, looks: View, rows: Policy, *seconds: float) -> dict[str, str]:
    for second in seconds:
        settle(stored, looks(second), second, rows)
    return dict(stored.effects())


@pytest.mark.parametrize("looks", [worn, without_link])
def test_it_is_tainted_again_once_what_spared_it_has_ended(looks: View) -> None:
    stored = Stored()
    assert play(stored, looks, ENFORCED, 2, 60, 101, 1000) == {"gpu-0": "NoSchedule"}

    stored.intend("Ignore", until(DAY))
    assert play(stored, looks, ENFORCED, 5000) == {}
    assert play(stored, looks, ENFORCED, DAY + 1) == {"gpu-0": "NoSchedule"}

    assert play(stored, looks, with_lowered("memory", "fabric"), 2 * DAY) == {}
    assert play(stored, looks, ENFORCED, 3 * DAY) == {"gpu-0": "NoSchedule"}


@pytest.mark.parametrize("looks", [worn, without_link])
def test_it_is_tainted_when_its_class_is_enforced_for_the_first_time(looks: View) -> None:
    stored = Stored()
    assert play(stored, looks, OBSERVED, 2, 60, 101, 5000) == {}

    assert play(stored, looks, ENFORCED, DAY) == {"gpu-0": "NoSchedule"}


@pytest.mark.parametrize("looks", [worn, without_link])
def test_it_is_tainted_once_the_window_is_over_that_its_fault_came_in(looks: View) -> None:
    window = Window(name="firmware", area=Area(nodes=(NODE,)), when=Once(at(-60), at(7200)))
    rows, stored = msgspec.structs.replace(ENFORCED, maintenance=(window,)), Stored()

    assert play(stored, looks, rows, 2, 60, 101, 5000) == {}
    assert "maintenance window 'firmware'" in stored.incident.status.message

    assert play(stored, looks, rows, 7201) == {"gpu-0": "NoSchedule"}


@pytest.mark.parametrize("how", ["its status is lost", "it is deleted"])
def test_an_incident_that_is_lost_waits_for_the_same(how: str) -> None:
    """The rule was made after the reboot: its class was only observed before."""
    stored = Stored()
    play(stored, without_link, OBSERVED, 2, 60, 101)
    assert play(stored, without_link, ENFORCED, 5000, 5060) == {"gpu-0": "NoSchedule"}

    if how == "it is deleted":
        stored.incidents.clear()
    else:
        stored.loses_status(stored.incident.name)

    assert play(stored, without_link, ENFORCED, 6000, 6060, DAY, 2 * DAY) == {"gpu-0": "NoSchedule"}


def test_its_soak_begins_when_the_end_is_seen() -> None:
    def comes_up(second: float) -> NodeView:
        here = without_link(second)
        if second < DAY:
            return here
        (sick,) = here.agent.report.gpus  # pyright: ignore[reportOptionalMemberAccess]
        return node_at(second, msgspec.structs.replace(sick, nvlink=NvlinkHealth(up=UP)), "boot-2")

    stored = Stored()
    play(stored, comes_up, ENFORCED, 2, 60, 101, 1000)

    for second in (DAY, DAY + 60, DAY + 590):
        assert play(stored, comes_up, ENFORCED, second) == {"gpu-0": "NoSchedule"}
    assert play(stored, comes_up, ENFORCED, DAY + 601) == {}


def test_it_evicts_no_pod_that_came_since() -> None:
    def with_pod(second: float) -> NodeView:
        held: dict[str, Any] = {"claims": (claim("gpu-0"),), "pods": (pod(started=at(200)),)}
        here = worn(second)
        usage = msgspec.structs.replace(here.usage, **held)
        return msgspec.structs.replace(here, usage=usage)

    stored = Stored()
    assert play(stored, with_pod, OBSERVED, 2, 60, 101, 5000) == {}

    assert play(stored, with_pod, ENFORCED, DAY, DAY + 60, 2 * DAY) == {"gpu-0": "NoSchedule"}


@pytest.mark.parametrize("mode", ["incident-only", "dry-run"])
def test_a_class_that_is_lowered_frees_no_gpu_that_another_one_holds(mode: str) -> None:
    """It had XID 95 as well, of class gpu, which is over since the reset."""

    def both(second: float) -> NodeView:
        (sick,) = worn(second).agent.report.gpus  # pyright: ignore[reportOptionalMemberAccess]
        read = action(1, 1, second) if second < 100 else action(0, 100, second)
        return node_at(second, msgspec.structs.replace(sick, xids=(xid(95),), recovery_action=read))

    stored = Stored()
    assert play(stored, both, ENFORCED, 2, 12, 101, 1000) == {"gpu-0": "NoExecute"}

    assert play(stored, both, with_lowered("gpu", mode=mode), 2000) == {"gpu-0": "NoSchedule"}
    assert play(stored, both, with_lowered("gpu", "memory"), 3000) == {}


def test_siblings_of_a_slice_that_failed_too_often_are_not_tainted() -> None:
    """Its third incident waits for a user; it was set free for an hour."""
    stored, rows = Stored(), policy(LIFTED, soak=timedelta(seconds=60))

    def slices(second: float) -> NodeView:
        errors = tuple(
            xid(94, seen=begun, count=number + 1, gi=5)
            for number, begun in enumerate((0, 1000, 2000))
            if begun <= second
        )[-1:]
        return node_at(second, mig_gpu(0, *errors, recovery_action=action(0, -1, second)))

    for begun in (0, 1000, 2000):
        play(stored, slices, rows, *(begun + later for later in (1, 5, 100, 200)))
    last = list(stored.incidents)[-1]
    assert stored.incidents[last].status.recovery.untaint == "OnConfirmation"
    assert list(stored.effects()) == [SLICE_5]

    stored.intend("Ignore", until(5000), last)
    assert play(stored, slices, rows, 3000) == {}
    assert set(play(stored, slices, rows, 5001)) <= {SLICE_5}
