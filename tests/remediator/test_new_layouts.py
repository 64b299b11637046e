"""Failed memory stays tainted when static MIG slices are made anew over it."""

from collections.abc import Callable

import msgspec
import pytest

from exporter.model.device import Device
from exporter.model.node_health import GpuHealth, MemorySlices
from exporter.model.resource_slices import SliceDevice
from remediator.plan.view import NodeView
from remediator.policy.table import Policy
from tests.remediator.builders import (
    ALL_SEVEN,
    DRIVER,
    NODE,
    SLICE_5,
    Stored,
    action,
    at,
    gpu,
    mig_gpu,
    published,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import ENFORCE, settle, tick
from tests.remediator.test_hardware import (
    MAINTENANCE,
    STOP,
    a_hold,
    reported_nothing,
    stale,
    tainted,
)


def failed_at_4(ci: int | None = None) -> GpuHealth:
    """Static slices, of which the one at memory slice 4 has had an error of recorded place."""
    failed = msgspec.structs.replace(
        xid(94, gi=5), ci=ci, mig_mode="Enabled", gi_profile_id=19, placement=MemorySlices(4, 1)
    )
    return mig_gpu(0, failed, recovery_action=action(observed=0.1))


def cut_in_two(sick: GpuHealth, size: int | None = 4) -> NodeView:
    """The same GPU in two static slices, with or without their size in what is published."""
    halves = tuple(
        msgspec.structs.replace(
            part,
            uuid=f"MIG-a{part.uuid[5:]}",
            profile="3g.40gb",
            gi_profile_id=9,
            placement_start=start,
            placement_size=4,
        )
        for part, start in zip(sick.instances[:2], (0, 4), strict=True)
    )
    seen = view(msgspec.structs.replace(sick, instances=halves))
    parts = tuple(
        msgspec.structs.replace(
            device, device=Device(DRIVER, NODE, f"gpu-0-mig-3g40gb-9-{start}"), placement_size=size
        )
        for device, start in zip(seen.slices.inventory, (0, 4), strict=True)
    )
    return with_fields(seen, inventory=parts)


DEFERRALS = pytest.mark.parametrize(
    ("rows", "prepare", "blind"),
    [
        (ENFORCE, reported_nothing, False),
        (ENFORCE, reported_nothing, True),
        (ENFORCE, a_hold, False),
        (STOP, reported_nothing, False),
        (MAINTENANCE, reported_nothing, False),
    ],
    ids=["at any time", "silent", "hold", "emergency stop", "maintenance window"],
)


@DEFERRALS
def test_failed_memory_stays_tainted_in_the_static_slices_of_a_new_layout(
    rows: Policy, prepare: Callable[[Stored], None], blind: bool
) -> None:
    stored = tainted(failed_at_4())
    prepare(stored)
    seen = cut_in_two(failed_at_4())

    settle(stored, stale(seen) if blind else seen, 300, rows)

    assert stored.effects() == {SLICE_5: "NoExecute", "gpu-0-mig-3g40gb-9-4": "NoSchedule"}


@DEFERRALS
def test_failed_memory_stays_tainted_in_a_slice_that_is_made_again(
    rows: Policy, prepare: Callable[[Stored], None], blind: bool
) -> None:
    stored = tainted(failed_at_4())
    prepare(stored)
    again = failed_at_4()
    anew = tuple(
        msgspec.structs.replace(part, uuid=f"MIG-f{part.uuid[5:]}") for part in again.instances
    )
    seen = view(msgspec.structs.replace(again, instances=anew))

    settle(stored, stale(seen) if blind else seen, 300, rows)

    assert stored.effects().keys() == {SLICE_5}


def test_each_slice_that_is_made_anew_records_the_failed_memory_that_it_has() -> None:
    first = failed_at_4()
    (at_4,) = first.xids
    at_5 = msgspec.structs.replace(at_4, gi=6, placement=MemorySlices(5, 1))
    both = msgspec.structs.replace(first, xids=(at_4, at_5))
    stored = tainted(both)
    anew = tuple(
        msgspec.structs.replace(part, uuid=f"MIG-f{part.uuid[5:]}") for part in both.instances
    )

    settle(stored, view(msgspec.structs.replace(both, instances=anew)), 300)

    found = {part.uuid: part.placement for part in stored.incident.status.scope.hardware}
    assert [found[anew[place].uuid] for place in (4, 5)] == [MemorySlices(4, 1), MemorySlices(5, 1)]


def test_a_slice_of_unknown_size_is_tainted_only_if_its_first_memory_failed() -> None:
    for place, tainted_names in ((4, {"gpu-0-mig-3g40gb-9-4"}), (5, set[str]())):
        sick = failed_at_4()
        (record,) = sick.xids
        record = msgspec.structs.replace(record, gi=place + 1, placement=MemorySlices(place, 1))
        sick = msgspec.structs.replace(sick, xids=(record,))
        stored = tainted(sick)
        before = stored.effects().keys()

        settle(stored, stale(cut_in_two(sick, size=None)), 300)

        assert stored.effects().keys() - before == tainted_names


def test_a_live_instance_says_how_much_memory_a_slice_of_unknown_size_has() -> None:
    sick = failed_at_4()
    (record,) = sick.xids
    record = msgspec.structs.replace(record, gi=6, placement=MemorySlices(5, 1))
    sick = msgspec.structs.replace(sick, xids=(record,))
    stored = tainted(sick)
    a_hold(stored)

    settle(stored, cut_in_two(sick, size=None), 300)

    assert stored.effects().keys() == {"gpu-0-mig-1g10gb-19-5", "gpu-0-mig-3g40gb-9-4"}


def test_another_compute_instance_in_the_memory_of_a_failed_slice_stays_free() -> None:
    sick = failed_at_4(ci=0)
    failed = sick.instances[4]
    beside = msgspec.structs.replace(failed, uuid=f"MIG-f{failed.uuid[5:]}", ci=1)
    both = msgspec.structs.replace(sick, instances=(failed, beside))
    one, other = published(both)
    named = msgspec.structs.replace(other.device, device="gpu-0-mig-1c-of-1g")
    other = msgspec.structs.replace(other, device=named, placement_start=4, placement_size=1)
    seen = view(both, inventory=(one, other))
    stored = Stored()
    for second in (1, 5, 20):
        settle(stored, seen, second)

    settle(stored, stale(seen), 300)

    assert stored.effects() == {SLICE_5: "NoExecute"}


def made_anew(sick: GpuHealth, *letters: str) -> NodeView:
    """Its failed slice made anew as one compute instance, or as several in the same memory."""
    failed = sick.instances[4]
    anew = tuple(
        msgspec.structs.replace(failed, uuid=f"MIG-{letter}{failed.uuid[5:]}", ci=number)
        for number, letter in enumerate(letters)
    )
    parts = published(msgspec.structs.replace(sick, instances=anew))
    named = tuple(
        msgspec.structs.replace(
            part,
            device=part.device if number == 0 else Device(DRIVER, NODE, f"compute-{number}"),
            placement_start=4,
            placement_size=1,
        )
        for number, part in enumerate(parts)
    )
    return view(msgspec.structs.replace(sick, instances=anew), inventory=named)


@DEFERRALS
@pytest.mark.parametrize("ci", [0, None], ids=["one compute instance failed", "the slice failed"])
def test_failed_memory_stays_tainted_in_each_compute_instance_that_is_made_of_it_later(
    rows: Policy, prepare: Callable[[Stored], None], blind: bool, ci: int | None
) -> None:
    sick = failed_at_4(ci=ci)
    stored = tainted(sick)
    prepare(stored)

    for second, letters in ((300, "a"), (310, "a"), (320, "ab"), (330, "abc")):
        seen = made_anew(sick, *letters)
        settle(stored, stale(seen) if blind else seen, second, rows)
        names = {SLICE_5, *(f"compute-{number}" for number in range(1, len(letters)))}
        assert stored.effects().keys() == names


@pytest.mark.parametrize("inventory", [None, ()], ids=["the watch is refused", "wiped"])
def test_a_slice_that_cannot_be_seen_is_not_taken_for_one_that_failed_itself(
    inventory: tuple[SliceDevice, ...] | None,
) -> None:
    sick = failed_at_4(ci=0)
    stored = tainted(sick)
    tick(stored, made_anew(sick, "a"), 300)

    seen = made_anew(sick, "a")
    unseen = {"slices": "the watch of ResourceSlices is refused"} if inventory is None else {}
    hidden = seen.slices.inventory if inventory is None else inventory
    settle(stored, with_fields(seen, blind=unseen, inventory=hidden), 301)
    settle(stored, made_anew(sick, "a"), 310)
    settle(stored, stale(made_anew(sick, *"ab")), 320)

    assert stored.effects().keys() == {SLICE_5, "compute-1"}


def test_a_compute_instance_beside_two_that_failed_themselves_stays_free() -> None:
    sick = failed_at_4(ci=0)
    three = made_anew(sick, *"abc")
    (first,) = sick.xids
    second = msgspec.structs.replace(first, ci=1, first_seen=at(60), last_seen=at(60))
    stored = Stored()
    for moment in (1, 5, 20):
        settle(stored, three, moment)
    assert three.agent.report is not None
    (health,) = three.agent.report.gpus
    both = msgspec.structs.replace(health, xids=(first, second))
    for moment in (61, 65, 80):
        settle(stored, view(both, inventory=three.slices.inventory), moment)
    assert stored.effects() == {SLICE_5: "NoExecute", "compute-1": "NoExecute"}

    fewer = msgspec.structs.replace(both, instances=both.instances[1:])
    settle(stored, view(fewer, inventory=three.slices.inventory[1:]), 120)

    assert "compute-2" not in stored.effects()


def test_no_pod_is_evicted_from_a_slice_that_is_made_anew_before_it_has_settled() -> None:
    sick = failed_at_4()
    stored = tainted(sick)
    assert stored.effects() == {SLICE_5: "NoExecute"}

    (record,) = sick.xids
    again = msgspec.structs.replace(record, count=2, last_seen=at(299))
    anew = msgspec.structs.replace(sick, xids=(again,))
    for second, effect in ((300, "NoSchedule"), (302.9, "NoSchedule"), (303.1, "NoExecute")):
        settle(stored, made_anew(anew, "a"), second)
        assert stored.effects() == {SLICE_5: effect}, f"after {second} s"


def test_a_slice_that_is_made_anew_settles_also_where_its_whole_gpu_is_tainted() -> None:
    stored, sick = Stored(), failed_at_4()
    strange = msgspec.structs.replace(sick, xids=(), recovery_action=action(42, 0.1, 0.1))
    for second in (1, 5, 20):
        settle(stored, view(strange), second)
    assert stored.effects() == dict.fromkeys(ALL_SEVEN, "NoSchedule")

    (record,) = sick.xids
    record = msgspec.structs.replace(record, first_seen=at(299), last_seen=at(299))
    failed = msgspec.structs.replace(strange, xids=(record,))
    for second, effect in ((300, "NoSchedule"), (302.9, "NoSchedule"), (303.2, "NoExecute")):
        settle(stored, made_anew(failed, "a"), second)
        assert stored.effects()[SLICE_5] == effect, f"after {second} s"


def test_hardware_of_which_an_older_version_kept_no_time_settles_by_the_time_of_the_taint() -> None:
    sick, stored = failed_at_4(), Stored()
    settle(stored, view(sick), 1)
    incident = stored.incident
    older = tuple(
        msgspec.structs.replace(part, tainted_time=None) for part in incident.status.scope.hardware
    )
    status = with_fields(incident.status, hardware=older)
    stored.incidents[incident.name] = msgspec.structs.replace(incident, status=status)

    settle(stored, view(sick), 4.1)

    assert stored.effects() == {SLICE_5: "NoExecute"}


def test_a_slice_that_is_made_anew_never_settles_for_an_error_that_is_over() -> None:
    sick = failed_at_4()
    stored = tainted(sick)

    for second in (300, 303.1, 310):
        settle(stored, made_anew(sick, "a"), second)
        assert stored.effects() == {SLICE_5: "NoSchedule"}, f"after {second} s"


def under_other_names(sick: GpuHealth, letter: str) -> NodeView:
    """Its slices made anew, of which neither name nor attributes say where they are."""
    anew = tuple(
        msgspec.structs.replace(part, uuid=f"MIG-{letter}{part.uuid[5:]}")
        for part in sick.instances
    )
    seen = view(msgspec.structs.replace(sick, instances=anew))
    parts = tuple(
        msgspec.structs.replace(
            device,
            device=msgspec.structs.replace(device.device, device=f"slice-{number}"),
            placement_start=None,
            placement_size=None,
        )
        for number, device in enumerate(seen.slices.inventory)
    )
    return with_fields(seen, inventory=parts)


def test_a_name_keeps_its_taint_while_nothing_says_of_which_memory_its_new_slice_is() -> None:
    sick, stored = failed_at_4(), Stored()
    for second in (1, 5, 20):
        settle(stored, under_other_names(sick, "0"), second)
    assert stored.effects() == {"slice-4": "NoExecute"}

    settle(stored, stale(under_other_names(sick, "a")), 300)
    assert stored.effects() == {"slice-4": "NoSchedule"}, "no pod on another slice is evicted"

    moved = under_other_names(sick, "a")
    order = (1, 2, 3, 4, 0, 5, 6)
    known = tuple(
        msgspec.structs.replace(
            moved.slices.inventory[number], device=moved.slices.inventory[place].device
        )
        for number, place in enumerate(order)
    )
    settle(stored, with_fields(moved, inventory=known), 310)
    assert stored.effects() == {"slice-0": "NoSchedule"}, "the report says where it is"


def test_mig_that_is_off_for_a_while_leaves_the_other_slices_free() -> None:
    """While it is off the whole GPU has a rule, for the failed memory in it."""
    sliced, stored = failed_at_4(), Stored()
    whole = gpu(0, *sliced.xids, mig=False, recovery_action=sliced.recovery_action)
    for seconds in (1, 3, 6):
        settle(stored, view(sliced), seconds)
    for seconds in (60, 70):
        settle(stored, view(whole), seconds)
    assert stored.effects().keys() == {SLICE_5, "gpu-0"}

    for seconds in (120, 130, 140):
        settle(stored, view(sliced), seconds)

    assert stored.effects().keys() == {SLICE_5, "gpu-0"}
