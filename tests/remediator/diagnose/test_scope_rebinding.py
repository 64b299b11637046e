"""A rule follows the hardware and not the name, through every way in which names move."""

import msgspec
import pytest

from exporter.model.node_health import GpuHealth, Inventory, SourceHealth
from exporter.model.resource_slices import SliceDevice
from remediator.plan.view import NodeView
from tests.remediator.builders import (
    ALL_SEVEN,
    NODE,
    RESET,
    Stored,
    dead,
    gpu,
    mig_gpu,
    published,
    report,
    report_with,
    slice_uuid,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.diagnose.test_scope import vfio
from tests.remediator.playing import settle


def tainted() -> Stored:
    """A store in which gpu-0 of the node is tainted and emptied."""
    stored = Stored()
    for second in (1, 5):
        settle(stored, view(dead(), gpu(1)), second)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    return stored


def renumbered(health: GpuHealth, minor: int) -> GpuHealth:
    return msgspec.structs.replace(health, minor=minor)


def bound(stored: Stored) -> dict[str, str]:
    """Return the GPU that each rule is for, by device name."""
    return {rule.device.device: rule.gpu for rule in stored.rules.values()}


def test_a_swapped_board_is_not_held_for_the_one_before_it() -> None:
    stored = tainted()
    fresh = gpu(0, uuid=uuid(77))

    settle(stored, view(fresh, gpu(1)), 60)

    assert stored.effects() == {}


def test_a_board_under_a_new_number_takes_its_rule_along() -> None:
    stored = tainted()

    settle(stored, view(renumbered(dead(), 1), renumbered(gpu(1), 0)), 60)

    assert bound(stored) == {"gpu-1": uuid(0)}


def test_the_old_name_keeps_its_rule_until_another_board_is_proven_there() -> None:
    stored = tainted()
    moved = renumbered(dead(), 5)

    settle(stored, view(moved), 60)
    assert bound(stored) == {"gpu-0": uuid(0), "gpu-5": uuid(0)}
    settle(stored, view(moved, renumbered(gpu(1), 0)), 61)

    assert bound(stored) == {"gpu-5": uuid(0)}


def test_two_sick_boards_that_change_numbers_change_rules() -> None:
    stored = Stored()
    settle(stored, view(dead(0), dead(1)), 1)

    settle(stored, view(renumbered(dead(0), 1), renumbered(dead(1), 0)), 60)

    assert bound(stored) == {"gpu-0": uuid(1), "gpu-1": uuid(0)}


def test_a_new_layout_of_slices_on_a_sick_gpu_is_tainted_whole() -> None:
    stored = Stored()
    sick = mig_gpu(0, xid(95), recovery_action=RESET)
    settle(stored, view(sick), 1)
    anew = tuple(
        msgspec.structs.replace(instance, uuid=slice_uuid(9, instance.gi), gi_profile_id=15)
        for instance in sick.instances[:4]
    )
    again = msgspec.structs.replace(sick, instances=anew)
    new_names = {f"gpu-0-mig-1g10gb-15-{start}" for start in range(4)}

    settle(stored, view(again), 60)

    assert set(stored.effects()) == ALL_SEVEN | new_names
    assert {rule.gpu for rule in stored.rules.values()} == {sick.uuid}


def test_a_node_registered_again_finds_the_rule_of_its_board() -> None:
    stored = tainted()

    settle(stored, view(dead(), gpu(1), inventory=()), 60)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    settle(stored, view(dead(), gpu(1)), 61)

    assert bound(stored) == {"gpu-0": uuid(0)}


def test_a_device_that_is_not_published_for_a_while_keeps_its_rule() -> None:
    stored = tainted()
    here = view(gpu(1))
    without: tuple[SliceDevice, ...] = published(gpu(1))

    for second in (60, 3600, 86400):
        settle(stored, view(dead(), gpu(1), inventory=without), second)
        settle(stored, with_fields(here, report=report(gpu(1))), second + 1)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert {rule.node for rule in stored.rules.values()} == {NODE}


FRESH = gpu(0, uuid=uuid(77))
"""Another board in the slot of `gpu(0)`."""


def passed_through(*gpus: GpuHealth) -> NodeView:
    """A node of whose first GPU only the VFIO device is published."""
    return view(*gpus, inventory=(vfio(gpu(0), 0), *published(gpu(1))))


def tainted_for_machines() -> Stored:
    stored = Stored()
    for second in (1, 5):
        settle(stored, passed_through(dead(), gpu(1)), second)
    assert stored.effects() == {"gpu-vfio-0": "NoExecute"}
    return stored


class TestVfio:
    """A VFIO device is named by its slot; which board is in it only the report can say."""

    def test_another_board_that_nvml_lists_in_the_slot_is_not_held_for_the_one_before_it(
        self,
    ) -> None:
        stored = tainted_for_machines()
        # GPUs of virtual machines are set aside, so the incident itself may stay open.
        aside = Inventory(seen=2, on_bus=3, set_aside=1)

        after = passed_through(FRESH, gpu(1))
        settle(stored, with_fields(after, report=report_with(after, inventory=aside)), 60)

        assert stored.effects() == {}

    def test_another_board_that_is_sick_in_the_slot_has_a_rule_of_its_own(self) -> None:
        stored = tainted_for_machines()
        sick = gpu(0, xid(95, seen=50), uuid=uuid(77), recovery_action=RESET)

        settle(stored, passed_through(sick, gpu(1)), 60)

        assert bound(stored) == {"gpu-vfio-0": uuid(77)}

    def test_a_board_that_is_published_in_another_slot_leaves_the_name_of_this_one(self) -> None:
        stored = tainted_for_machines()
        moved = dead(5)
        moved = msgspec.structs.replace(moved, uuid=uuid(0))
        inventory = (vfio(gpu(0), 0), *published(moved), *published(gpu(1)))

        for second in (60, 61):
            settle(stored, view(moved, gpu(1), inventory=inventory), second)

        assert bound(stored) == {"gpu-5": uuid(0)}

    @pytest.mark.parametrize(
        "seen",
        [
            passed_through(gpu(1)),
            passed_through(dead(), gpu(1)),
            passed_through(gpu(0), gpu(1)),
            passed_through(dead(0, uuid=uuid(77)), gpu(1)),
            passed_through(FRESH, gpu(0), gpu(1)),
            passed_through(gpu(5, uuid=uuid(77)), gpu(1)),
            with_fields(passed_through(FRESH, gpu(1)), stale="silent"),
            with_fields(
                passed_through(FRESH, gpu(1)),
                report=report(FRESH, gpu(1), sources=(SourceHealth(name="nvml", state="Down"),)),
            ),
            with_fields(
                passed_through(FRESH, gpu(1)),
                report=report(FRESH, gpu(1), inventory=Inventory(seen=2, unidentified=1)),
            ),
            with_fields(passed_through(FRESH, gpu(1)), blind={"slices": "gone"}),
        ],
        ids=[
            "no board",
            "the same one, lost",
            "the same one",
            "one that NVML does not list",
            "two boards in one slot",
            "another slot",
            "a stale report",
            "NVML is down",
            "a board without a name",
            "old slices",
        ],
    )
    def test_it_is_not_proven_by(self, seen: NodeView) -> None:
        stored = tainted_for_machines()

        for second in (60, 61):
            settle(stored, seen, second)

        assert set(stored.effects()) == {"gpu-vfio-0"}
        assert set(bound(stored).values()) == {uuid(0)}
