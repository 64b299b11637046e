"""One boot after the other: of boards that come back, fail again, or do not come back at all."""

from typing import Any

import msgspec
import pytest

from exporter.model.node_health import (
    ConfigSpace,
    GpuHealth,
    Inventory,
    RecoveryAction,
    SourceHealth,
)
from remediator.model.node import NodeFacts, is_call
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import WriteNodeConditions
from remediator.plan.view import NodeView
from remediator.policy.limits import LIFTED
from tests.remediator.builders import (
    NODE,
    Stored,
    action,
    at,
    dead,
    gpu,
    policy,
    published,
    report_with,
    uuid,
    with_fields,
    xid,
)
from tests.remediator.plan.handover import ON, reconciled
from tests.remediator.plan.test_needs import DAY, HOUR, on, reasons
from tests.remediator.playing import claim, pod


def test_a_board_that_fails_after_each_boot_overrides_no_pod_for_the_third_time() -> None:
    """It works for five minutes after a reboot. Jobs run on its neighbour all the time."""
    stored, second, calls, message = Stored(), 0.0, list[str](), ""
    busy: dict[str, Any] = {"pods": (pod("job"),), "claims": (claim("gpu-1", "job"),)}
    for boot in range(1, 5):
        lost = with_fields(
            dead(0), presence_since=at(second), xids=(xid(79, second, epoch=boot),), epoch=boot
        )
        sick = with_fields(on(lost, gpu(1), boot=f"boot-{boot}"), **busy)
        for later in (1, 60, 3700):
            stands = reconciled(stored, sick, second + later)
        calls.append(stands[0])
        message = stored.incident.status.message
        second += 4000
        well = gpu(
            0,
            epoch=boot + 1,
            epoch_started=at(second),
            presence_since=at(second),
            recovery_action=action(0, second, second + 60),
        )
        healthy = with_fields(on(well, gpu(1), boot=f"boot-{boot + 1}"), **busy)
        for later in (60, 120):
            reconciled(stored, healthy, second + later)
        second += 300

    assert calls == ["True", "True", "False", "False"]
    assert stored.incident.status.repair.answered == 2, "nobody has called for the others"
    assert "1st incident in 30 days, failed again after 2 repairs" in message


def calls_and_dies(stored: Stored, seen: NodeView, seconds: float) -> bool:
    """Decide until a repair is called for, by a leader that the reboot of its node ends then."""
    for _ in range(8):
        conditions = tuple(stored.conditions.values())
        facts = NodeFacts(name=NODE, uid="u", conditions=conditions)
        full = msgspec.structs.replace(stored.over(seen), facts=facts, nodes_known=True)
        steps = decide_node(full, stored.fleet(), policy(LIFTED), at(seconds), ON).steps
        for step in steps:
            stored.take(step, at(seconds))
            if isinstance(step, WriteNodeConditions) and any(
                is_call(condition, seen.boot_id) for condition in step.conditions
            ):
                return True
    return False


def test_a_reboot_counts_also_where_nobody_decides_between_the_call_and_it() -> None:
    """The only replica runs on the node that it calls a reboot for."""
    stored, called = Stored(), list[bool]()
    for boot in range(5):
        second = 4000.0 * boot
        began: dict[str, Any] = {"epoch_started": at(second), "presence_since": at(second + 5)}
        sick = on(dead(0, xids=(xid(79, second + 5),), **began), boot=f"boot-{boot}")
        called.append(any(calls_and_dies(stored, sick, second + later) for later in (10, 20, 40)))

    assert called == [True, True, False, False, False]
    assert stored.incident.status.repair.answered == 2


def test_a_boot_that_nobody_has_called_for_is_no_repair() -> None:
    """The GPU falls away and comes back by itself; and the node boots for another reason."""
    stored = Stored()
    busy: dict[str, Any] = {"pods": (pod("job"),), "claims": (claim("gpu-1", "job"),)}
    for boot, second in ((1, 0.0), (1, 600.0), (2, 1200.0), (3, 1800.0)):
        lost = dead(xids=(xid(79, second),), presence_since=at(second), epoch=boot)
        for later in (1, 60):
            sick = with_fields(on(lost, gpu(1), boot=f"boot-{boot}"), **busy)
            reconciled(stored, sick, second + later)
        read = action(0, second + 300, second + 310)
        well = gpu(0, presence_since=at(second + 300), recovery_action=read, epoch=boot)
        back = with_fields(on(well, gpu(1), boot=f"boot-{boot}"), **busy)
        reconciled(stored, back, second + 310)

    assert stored.incident.status.repair.answered == 0
    assert reasons(stored) == {}


@pytest.mark.parametrize("missing", [False, True], ids=["lost", "missing"])
def test_a_board_that_no_boot_heals_overrides_pods_only_so_often(*, missing: bool) -> None:
    """It is never healthy in between, and the repair system only reboots."""
    stored, calls = Stored(), list[str]()
    busy: dict[str, Any] = {"pods": (pod("job"),), "claims": (claim("gpu-1", "job"),)}
    for boot in range(6):
        second = 4000.0 * boot
        began: dict[str, Any] = {"epoch_started": at(second), "presence_since": at(second + 60)}
        lost = with_fields(dead(0), xids=(xid(79, second + 60),), **began)
        gone = missing and boot > 0
        for later in (10, 70, 140, 3790, 3900):
            unread = gpu(0, presence="Unknown", presence_reason="NotListed", **began)
            board = () if gone else (unread,) if later == 10 else (lost,)
            well = gpu(1, recovery_action=action(0, second, second + later), **began)
            seen = with_fields(on(*board, well, boot=f"boot-{boot}"), **busy)
            stands = reconciled(stored, seen, second + later)
        calls.append(stands[0])

    overriding = calls.count("True")
    assert calls == ["True"] * overriding + ["False"] * (6 - overriding)
    assert overriding == (1 if missing else 2), "for a replacement it overrides none"
    assert reasons(stored)["NeedsHuman"] == ("NoAnswer" if missing else "Sticky")


def test_a_reboot_that_repairs_the_second_incident_leaves_it_to_recover_by_itself() -> None:
    """The third incident is the first that waits for a user, also where each had a repair."""
    stored, second = Stored(), 0.0
    for boot in (1, 2):
        lost = with_fields(
            dead(0), presence_since=at(second), xids=(xid(79, second, epoch=boot),), epoch=boot
        )
        for later in (1, 30, 60):
            reconciled(stored, on(lost, gpu(1), boot=f"boot-{boot}"), second + later)
        second += 100
        for later in range(10, 1200, 60):
            well = gpu(
                0,
                epoch=boot + 1,
                epoch_started=at(second),
                presence_since=at(second),
                recovery_action=action(0, second, second + later),
            )
            reconciled(stored, on(well, gpu(1), boot=f"boot-{boot + 1}"), second + later)
        second += 2 * DAY

    phases = [incident.status.phase for incident in stored.incidents.values()]
    assert phases == ["Recovered", "Recovered"]


STARTING = (
    SourceHealth(name="nvml", state="Down", reason="Starting"),
    SourceHealth(name="kmsg", state="Up"),
)


def while_the_driver_loads(
    boot: int, begun: float, second: float, code: int, *, off_bus: bool
) -> NodeView:
    """Only the kernel log names the dead board in this boot; NVML answers later, without it."""
    state = ConfigSpace(state="AllOnes", since=at(begun + 5)) if off_bus else ConfigSpace()
    named = gpu(
        0,
        msgspec.structs.replace(xid(code, seen=begun + 5), sources=("kmsg",)),
        presence="Unknown",
        presence_reason="NeverListed",
        presence_since=at(begun + 5),
        epoch_started=at(begun),
        recovery_action=RecoveryAction(),
        mig=None,
        config_space=state,
    )
    loads = second < begun + 20
    began: dict[str, Any] = {"presence_since": at(begun + 20), "epoch_started": at(begun)}
    others: tuple[GpuHealth, ...] = (
        () if loads else (gpu(1, recovery_action=action(0, begun + 20, second), **began),)
    )
    seen = on(named, *others, boot=f"boot-{boot}")
    sources = STARTING if loads else None
    fields: dict[str, Any] = {"sources": sources} if sources else {}
    inventory = Inventory(
        seen=None if loads else 1, on_bus=2, set_aside=0, missing=() if loads else (uuid(0),)
    )
    report = report_with(seen, observed_at=at(second), inventory=inventory, **fields)
    here = tuple(device for each in others for device in published(each))
    return with_fields(seen, report=report, inventory=here if second >= begun + 60 else ())


@pytest.mark.parametrize("off_bus", [False, True], ids=["on the bus", "off it"])
@pytest.mark.parametrize("looks", [10, 25], ids=["before NVML answers", "after"])
@pytest.mark.parametrize("code", [79, 143])
def test_a_line_that_comes_before_nvml_answers_is_no_sign_that_the_board_came_back(
    code: int, looks: float, *, off_bus: bool
) -> None:
    stored = Stored()
    assert reconciled(stored, on(dead(), gpu(1)), 1)[:2] == ("True", "NodeRebootNeeded")

    calls = [
        reconciled(
            stored, while_the_driver_loads(2, 600, 600 + later, code, off_bus=off_bus), 600 + later
        )[:2]
        for later in (looks, 40, 61, 65, 100, 130, HOUR)
    ]

    assert ("True", "NodeRebootNeeded") not in calls, "no second reboot"
    assert calls[-1] == ("True", "ReplacementNeeded")


def test_no_further_reboot_is_called_for_once_as_many_have_not_helped() -> None:
    """Each boot begins with an empty node, so there is no pod to wait for."""
    stored, calls = Stored(), list[str]()
    for boot in range(4):
        second = 1000.0 * boot
        began: dict[str, Any] = {"epoch_started": at(second), "presence_since": at(second)}
        for later in (10, 70, 900):
            sick = gpu(0, recovery_action=action(2, second, second + later), **began)
            well = gpu(1, recovery_action=action(0, second, second + later), **began)
            stands = reconciled(stored, on(sick, well, boot=f"boot-{boot}"), second + later)
        calls.append(f"{stands[0]} {stands[1]}")

    assert calls == ["True NodeRebootNeeded"] * 2 + ["False OtherRepairNeeded"] * 2
    assert reasons(stored)["NeedsHuman"] == "Sticky"
