"""A source that names the slice of an error late: the other slices are untainted, for good."""

from collections.abc import Callable

import msgspec
import pytest

from exporter.model.device import Device
from exporter.model.node_health import MemorySlices, XidRecord
from remediator.model.taint_rule import rule_name
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import DeleteRule, carries_proof
from remediator.plan.view import NodeView, RefusedRule
from tests.remediator.builders import (
    ALL_SEVEN,
    DRIVER,
    NODE,
    SLICE_5,
    Stored,
    action,
    at,
    mig_gpu,
    published,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import ENFORCE, EVICTS_LATER, settle, tick
from tests.remediator.test_hardware import partitions


def seen(second: float, gi: int | None) -> NodeView:
    """A contained error of T0, with or without its instance, on a GPU that is read just now."""
    read = action(observed=second - 0.1)
    return view(mig_gpu(0, xid(94, gi=gi), recovery_action=read))


def tainted_whole() -> Stored:
    """Nobody has named the instance in time, so that each slice keeps new work away."""
    stored = Stored()
    for second in (0.2, 4):
        settle(stored, seen(second, None), second)
    assert stored.effects() == dict.fromkeys(ALL_SEVEN, "NoSchedule")
    return stored


def test_the_other_slices_are_untainted_once_and_stay_so() -> None:
    stored = tainted_whole()

    settle(stored, seen(5, 5), 5, EVICTS_LATER)
    assert stored.effects() == {SLICE_5: "NoSchedule"}
    (part,) = stored.incident.status.scope.hardware
    assert part.uuid.endswith("5")

    settle(stored, seen(9, 5), 9)
    assert stored.effects() == {SLICE_5: "NoExecute"}


def crash_while_untainting(killed_after: int) -> Stored:
    """The slice is named, and we are killed after so many of the writes that untaint the others."""
    stored, taken = tainted_whole(), 0
    for _ in range(2):  # what is free is stored first
        for step in decide_node(stored.over(seen(5, 5)), stored.fleet(), ENFORCE, at(5)).steps:
            if taken < killed_after:
                stored.take(step, at(5))
                taken += 1
    assert taken == killed_after
    return stored


@pytest.mark.parametrize("killed_after", range(9))
def test_the_slice_that_is_named_settles_whatever_crash_was_in_the_middle(
    killed_after: int,
) -> None:
    stored = crash_while_untainting(killed_after)
    for second, effect in ((5.5, "NoSchedule"), (6.9, "NoSchedule"), (9, "NoExecute")):
        settle(stored, seen(second, 5), second)
        assert stored.effects() == {SLICE_5: effect}, f"{second} s"


def with_other_names(second: float, gi: int | None) -> NodeView:
    """Another release of the driver gives the slices other names."""
    sick = mig_gpu(0, xid(94, gi=gi), recovery_action=action(observed=second - 0.1))
    named = tuple(
        msgspec.structs.replace(device, device=Device(DRIVER, NODE, f"{device.device.device}-r2"))
        for device in published(sick)
    )
    return view(sick, inventory=named)


def crash_after_new_names(killed_after: int) -> Stored:
    """The slices get other names, and we are killed after so many writes; then theirs is named."""
    stored, taken = tainted_whole(), 0
    for second in (4.2, 4.3, 4.4):
        seen_now = stored.over(with_other_names(second, None))
        for step in decide_node(seen_now, stored.fleet(), ENFORCE, at(second)).steps:
            if taken < killed_after:
                stored.take(step, at(second))
                taken += 1
    settle(stored, with_other_names(5, 5), 5, EVICTS_LATER)
    return stored


@pytest.mark.parametrize("killed_after", range(18))
def test_slices_that_get_other_names_before_theirs_is_named_are_untainted_too(
    killed_after: int,
) -> None:
    """A rule of an old name stays until the incident ends."""
    stored = crash_after_new_names(killed_after)
    assert stored.effects() == {SLICE_5: "NoSchedule", f"{SLICE_5}-r2": "NoSchedule"}


def test_a_slice_that_is_being_emptied_keeps_no_other_one_tainted() -> None:
    """Pods are evicted from slice 5, then an error comes of which slice 2 is named late."""
    first, stored = xid(94, gi=5), Stored()

    def reported(second: float, *records: XidRecord) -> None:
        read = action(observed=second - 0.1)
        settle(stored, view(mig_gpu(0, first, *records, recovery_action=read)), second)

    for second in (1, 5):
        reported(second)
    assert stored.effects() == {SLICE_5: "NoExecute"}
    for second in (60.2, 64):
        reported(second, xid(94, seen=60))
    assert set(stored.effects()) == ALL_SEVEN

    reported(66, xid(94, seen=60, gi=2))
    assert set(stored.effects()) == {SLICE_5, "gpu-0-mig-1g10gb-19-1"}


def test_a_slice_of_which_an_earlier_error_is_over_keeps_its_soak_time() -> None:
    """The GPU was reset after the error of slice 5; then one comes of which slice 2 is named."""
    stored = Stored()

    def reported(second: float, *records: XidRecord, epoch: int = 2) -> NodeView:
        read = action(observed=second - 0.1)
        return view(mig_gpu(0, *records, recovery_action=read, epoch=epoch))

    settle(stored, reported(1, xid(94, gi=5), epoch=1), 1, EVICTS_LATER)
    settle(stored, reported(60), 60)
    assert stored.effects() == {SLICE_5: "NoSchedule"}
    (before,) = stored.rules.values()
    for second in (80.2, 84):
        settle(stored, reported(second, xid(94, seen=80)), second)
    assert set(stored.effects()) == ALL_SEVEN

    tick(stored, reported(86, xid(94, seen=80, gi=2)), 86)
    assert len(stored.incident.status.scope.hardware) == 2
    settle(stored, reported(90, xid(94, seen=80, gi=2)), 90)

    assert set(stored.effects()) == {SLICE_5, "gpu-0-mig-1g10gb-19-1"}
    assert before.uid in {rule.uid for rule in stored.rules.values()}, "not for a moment"


@pytest.mark.parametrize("killed_after", range(9))
def test_a_crash_in_the_middle_leaves_no_other_slice_tainted(killed_after: int) -> None:
    stored = crash_while_untainting(killed_after)
    for second in (5.5, 9):
        settle(stored, seen(second, 5), second)
    assert stored.effects() == {SLICE_5: "NoExecute"}


@pytest.mark.parametrize("away", ["slices", "watch"])
def test_what_is_not_published_for_a_moment_makes_no_gpu_of_a_slice(away: str) -> None:
    """Partitions of dynamic MIG have no UUID; beside them the full GPU is published."""
    placed = {"mig_mode": "Enabled", "gi_profile_id": 19, "placement": MemorySlices(4, 1)}
    failed = with_fields(xid(94, gi=5), **placed)
    sick = mig_gpu(0, failed, recovery_action=action(observed=0.1))
    there, stored = view(sick, inventory=partitions(sick)), Stored()
    for second in (1, 5, 20):
        settle(stored, there, second)
    before = stored.effects()
    assert set(before) == {"gpu-0", "gpu-0-mig-1g10gb-19-4", "gpu-0-mig-3g40gb-9-4"}

    blind = {"slices": "the watch of ResourceSlices is refused"}
    gone = {"slices": {"inventory": ()}, "watch": {"blind": blind}}[away]
    settle(stored, with_fields(there, **gone), 60)
    settle(stored, there, 120)

    assert stored.effects() == before


def test_a_slice_that_is_named_and_not_found_frees_no_gpu_with_its_memory() -> None:
    """Its instance was destroyed before anybody read where it lay."""
    stored = Stored()

    def reported(second: float, gi: int | None) -> None:
        sick = mig_gpu(0, xid(94, gi=gi), recovery_action=action(observed=second - 0.1))
        settle(stored, view(sick, inventory=partitions(sick)), second)

    for second in (0.2, 4):
        reported(second, None)
    whole = stored.effects()
    assert "gpu-0" in whole

    reported(5, 9)
    assert stored.effects() == whole


def test_another_release_of_the_driver_narrows_nothing_that_was_not_narrowed_before() -> None:
    """The agent has lost the error without a slice, another one came, then all names are new.

    An older schema keeps no time of the hardware, so new names make the taint look new.
    """
    stored = tainted_whole()
    incident = stored.incident
    older = tuple(
        msgspec.structs.replace(part, tainted_time=None) for part in incident.status.scope.hardware
    )
    status = with_fields(incident.status, hardware=older)
    stored.incidents[incident.name] = msgspec.structs.replace(incident, status=status)
    later = msgspec.structs.replace(xid(94, seen=200, gi=5), placement=MemorySlices(4, 1))

    def reported(second: float, release: str) -> None:
        read = action(observed=second - 0.1)
        sick = mig_gpu(0, later, recovery_action=read)
        named = tuple(
            msgspec.structs.replace(
                device, device=Device(DRIVER, NODE, f"{device.device.device}{release}")
            )
            for device in published(sick)
        )
        settle(stored, view(sick, inventory=named), second)

    reported(201, "")
    reported(205, "")
    assert set(stored.effects()) == ALL_SEVEN
    reported(206, "-r2")
    assert {f"{name}-r2" for name in ALL_SEVEN} <= set(stored.effects())


def test_an_incident_that_somebody_deletes_untaints_no_slice() -> None:
    """The rules stand. Since when, and for which errors, nobody knows any more."""
    stored = tainted_whole()
    stored.incidents.clear()

    for second in (70, 75):
        settle(stored, seen(second, 5), second)

    assert set(stored.effects()) == ALL_SEVEN


def renamed(seen: NodeView) -> NodeView:
    return with_fields(
        seen,
        inventory=tuple(
            msgspec.structs.replace(
                device, device=Device(DRIVER, NODE, f"{device.device.device}-r2")
            )
            for device in seen.slices.inventory
        ),
    )


def one_made_anew(seen: NodeView) -> NodeView:
    assert seen.agent.report is not None
    (health,) = seen.agent.report.gpus
    parts = tuple(
        msgspec.structs.replace(part, uuid=f"MIG-f{part.uuid[5:]}") if part.gi == 7 else part
        for part in health.instances
    )
    return view(msgspec.structs.replace(health, instances=parts))


@pytest.mark.parametrize("changed", [renamed, one_made_anew])
def test_slices_that_change_make_no_old_taint_a_new_one(
    changed: Callable[[NodeView], NodeView],
) -> None:
    """Minutes after the whole GPU was tainted, an error that has a slice says nothing of it."""
    stored = tainted_whole()
    silent = view(mig_gpu(0, recovery_action=action(observed=179.9)))
    settle(stored, changed(silent), 180)
    settle(stored, changed(silent), 190)

    place = MemorySlices(4, 1)
    named = msgspec.structs.replace(xid(94, seen=200, gi=5), mig_mode="Enabled", placement=place)
    for second in (201, 203, 210):
        read = action(observed=second - 0.1)
        settle(stored, changed(view(mig_gpu(0, named, recovery_action=read))), second)

    there = {device.device.device for device in changed(silent).slices.inventory}
    assert there <= stored.effects().keys()


@pytest.mark.parametrize("refused", [False, True])
def test_a_slice_of_which_the_untaint_fails_is_untainted_later(*, refused: bool) -> None:
    """Its incident has recorded by then that another slice was meant."""
    stored, kept = tainted_whole(), Device(DRIVER, NODE, min(ALL_SEVEN - {SLICE_5}))
    names = {rule_name(kept): RefusedRule("403 Forbidden", at(60))} if refused else {}
    named = with_fields(seen(5, 5), irremovable=names)
    tick(stored, named, 5)
    steps = decide_node(stored.over(named), stored.fleet(), ENFORCE, at(5)).steps
    for step in steps:
        if not (isinstance(step, DeleteRule) and step.stored.device == kept):
            stored.take(step, at(5))
    assert stored.effects().keys() == {kept.device, SLICE_5}

    for second in (20, 300):
        settle(stored, seen(second, 5), second)

    assert stored.effects() == {SLICE_5: "NoExecute"}


@pytest.mark.parametrize("back", [5.5, 20, 70, 200])
@pytest.mark.parametrize("killed_after", range(1, 8))
def test_a_slice_that_was_untainted_is_so_for_a_leader_that_comes_late(
    killed_after: int, back: float
) -> None:
    """More than a minute later no source could say any more that another slice was meant."""
    stored = crash_while_untainting(killed_after)
    before = stored.effects()
    tick(stored, seen(back, 5), back)
    assert stored.effects().keys() <= before.keys()
    settle(stored, seen(back + 4, 5), back + 4)
    assert stored.effects() == {SLICE_5: "NoExecute"}


def test_no_slice_is_untainted_before_its_incident_says_that_it_is_free() -> None:
    """A status that gives way to other nodes, or fails, would find it tainted again."""
    stored = tainted_whole()
    first = decide_node(stored.over(seen(5, 5)), stored.fleet(), ENFORCE, at(5)).steps
    assert not any(isinstance(step, DeleteRule) for step in first)
    assert [step for step in first if carries_proof(step)]
