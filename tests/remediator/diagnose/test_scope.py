"""Which published devices a fault means, in the forms in which NVIDIA's driver publishes a GPU."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.device import Device, Instance
from exporter.model.node_health import GpuHealth
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.fault import Fault
from remediator.diagnose.scope import in_words, is_displaced, parts_of, scope
from remediator.model.taint_rule import Rule
from tests.remediator.builders import (
    DRIVER,
    NODE,
    SLICE_5,
    fault,
    gpu,
    mig_gpu,
    published,
    rule,
    slice_uuid,
    uuid,
    with_fields,
)

PROFILES = {
    19: ("1g10gb", 7),
    14: ("2g20gb", 3),
    9: ("3g40gb", 2),
    5: ("4g40gb", 1),
    0: ("7g80gb", 1),
}
"""GI profile id to name and number of placements, of a GPU with 80 GB."""


def contained(gi: int, ci: int | None = None) -> Fault:
    return fault("contained", instance=Instance(gi, ci))


@pytest.mark.parametrize("odd", ["MIG-GPU-ab/5/0", "no label", "x" * 64, ""])
def test_a_slice_whose_uuid_no_rule_can_carry_stands_for_its_gpu(odd: str) -> None:
    one = gpu(0)
    part = device("part-0", kind="mig", uuid=odd, parent_uuid=one.uuid)

    (target,) = scope(fault(), one, (part,)).targets

    assert (target.device, target.uuid) == ("part-0", one.uuid)


def device(name: str, **fields: object) -> SliceDevice:
    standard = SliceDevice(device=Device(DRIVER, NODE, name), kind="gpu", node=NODE)
    return with_fields(standard, **fields)


def vfio(health: GpuHealth, pci_index: int) -> SliceDevice:
    """The same board for a virtual machine: its UUID is made of the PCI address."""
    made = f"0e5fffd1-0000-5000-8000-{pci_index:012x}"
    return device(f"gpu-vfio-{pci_index}", kind="vfio", uuid=made, pci_bus_id=health.pci_bus_id)


def dynamic(health: GpuHealth) -> tuple[SliceDevice, ...]:
    """A GPU published whole and as each of its possible partitions, which have no UUID."""
    names = [
        f"gpu-{health.minor}-mig-{name}-{profile}-{start}"
        for profile, (name, count) in PROFILES.items()
        for start in range(count)
    ]
    parts = (device(name, kind="mig", parent_uuid=health.uuid) for name in names)
    return (*published(gpu(health.minor or 0)), *parts)


def names(found: object) -> set[str]:
    return {target.device for target in getattr(found, "targets", ())}


class TestWholeGpu:
    def test_means_the_gpu_and_each_partition_that_could_be_made_of_it(self) -> None:
        sick = mig_gpu(0)
        everything = dynamic(sick)
        neighbours = dynamic(mig_gpu(1))

        found = scope(fault(), sick, (*everything, *neighbours))

        assert names(found) == {part.device.device for part in everything}
        assert len(found.targets) == 15
        assert in_words(found.targets, parts_of(sick, everything)) == "GPU with 14 slices"

    def test_carries_the_gpus_uuid_for_a_partition_that_has_none(self) -> None:
        sick = mig_gpu(0)

        found = scope(fault(), sick, dynamic(sick))

        assert {target.uuid for target in found.targets} == {sick.uuid}

    def test_means_the_vfio_twin_in_its_slot_and_no_other(self) -> None:
        sick, well = gpu(0), gpu(1)
        inventory = (*published(sick), *published(well), vfio(sick, 0), vfio(well, 1))

        assert names(scope(fault(), sick, inventory)) == {"gpu-0", "gpu-vfio-0"}

    def test_does_not_mean_the_vfio_device_of_a_board_that_came_into_its_slot(self) -> None:
        gone = gpu(0)
        fresh = msgspec.structs.replace(gone, uuid=uuid(77))

        assert names(scope(fault(), gone, (*published(fresh), vfio(fresh, 0)))) == set()

    def test_without_a_slot_has_no_twin(self) -> None:
        nowhere = gpu(0, pci_bus_id="")

        assert names(scope(fault(), nowhere, (vfio(nowhere, 0),))) == set()


class TestOneInstance:
    def test_means_the_partitions_in_its_place_and_the_gpu_that_they_are_made_of(self) -> None:
        sick = mig_gpu(0)

        found = scope(contained(5), sick, dynamic(sick))

        assert names(found) == {SLICE_5, "gpu-0"}
        assert found.exact

    def test_is_found_under_the_names_of_older_drivers(self) -> None:
        sick = mig_gpu(0)
        inventory = tuple(
            device(f"gpu-0-mig-19-{start}-1", kind="mig", parent_uuid=sick.uuid)
            for start in range(7)
        )

        assert names(scope(contained(5), sick, inventory)) == {"gpu-0-mig-19-4-1"}

    def test_is_not_mistaken_for_one_whose_number_ends_alike(self) -> None:
        sick = mig_gpu(0)
        inventory = (device("gpu-0-mig-1g10gb-19-14", kind="mig", parent_uuid=sick.uuid),)
        found = scope(contained(5), sick, inventory)

        assert (found.targets, found.exact) == ((), False)

    def test_of_static_mig_is_found_by_its_uuid(self) -> None:
        sick = mig_gpu(0)

        (target,) = scope(contained(5), sick, published(sick)).targets

        assert (target.device, target.uuid) == (SLICE_5, slice_uuid(0, 5))

    def test_that_is_not_published_means_nothing_and_says_so(self) -> None:
        sick = mig_gpu(0)

        found = scope(contained(12), sick, published(sick))

        assert (found.targets, found.exact) == ((), False)

    def test_of_two_compute_instances_means_the_one_that_it_names(self) -> None:
        sick = mig_gpu(0, slices=1)
        second = msgspec.structs.replace(sick.instances[0], uuid=slice_uuid(0, 99), ci=1)
        both = msgspec.structs.replace(sick, instances=(*sick.instances, second))
        inventory = tuple(
            device(f"part-{part.ci}", kind="mig", uuid=part.uuid, parent_uuid=sick.uuid)
            for part in both.instances
        )

        assert names(scope(contained(1, 1), both, inventory)) == {"part-1"}
        assert names(scope(contained(1), both, inventory)) == {"part-0", "part-1"}


def rule_of(name: str, hardware: str, fault: str = "gpu") -> Rule:
    return rule(device=Device(DRIVER, NODE, name), uuid=hardware, fault=fault)


class TestOtherHardwareUnderTheName:
    def test_is_proven_by_another_uuid(self) -> None:
        mine = rule()

        assert not is_displaced(mine, published(gpu(0)))
        assert is_displaced(mine, (device("gpu-0", uuid=uuid(77)),))

    def test_is_proven_for_a_partition_by_its_parent(self) -> None:
        mine = rule_of(SLICE_5, uuid(0))

        assert not is_displaced(mine, dynamic(mig_gpu(0)))
        assert is_displaced(mine, (device(SLICE_5, kind="mig", parent_uuid=uuid(77)),))

    def test_is_proven_for_a_vfio_device_by_what_else_is_in_its_slot(self) -> None:
        old = gpu(0)
        fresh = msgspec.structs.replace(old, uuid=uuid(77))
        mine = rule_of("gpu-vfio-0", vfio(old, 0).uuid or "")

        assert not is_displaced(mine, (vfio(old, 0),))
        assert not is_displaced(mine, (vfio(old, 0), *published(old)))
        assert is_displaced(mine, (vfio(fresh, 0), *published(fresh)))

    def test_is_proven_for_a_vfio_device_by_its_board_in_another_slot(self) -> None:
        mine = rule_of("gpu-vfio-0", vfio(gpu(0), 0).uuid or "")
        moved = msgspec.structs.replace(gpu(5), uuid=uuid(0))

        assert is_displaced(mine, (vfio(gpu(0), 0), *published(moved)))
        assert not is_displaced(mine, (vfio(gpu(0), 0), *published(gpu(5))))
        unplaced = (with_fields(part, pci_bus_id="") for part in published(moved))
        assert not is_displaced(mine, (vfio(gpu(0), 0), *unplaced))

    @pytest.mark.parametrize("empty", [(), (device("gpu-0"),), (device("gpu-1", uuid=uuid(77)),)])
    def test_is_not_proven_by_a_name_that_nobody_fills(
        self, empty: tuple[SliceDevice, ...]
    ) -> None:
        assert not is_displaced(rule(), empty)

    def test_is_a_slice_made_again_for_its_own_error_and_not_for_the_gpus(self) -> None:
        again = (device(SLICE_5, kind="mig", uuid=slice_uuid(9, 5), parent_uuid=uuid(0)),)

        assert is_displaced(rule_of(SLICE_5, slice_uuid(0, 5), "contained"), again)
        assert not is_displaced(rule_of(SLICE_5, slice_uuid(0, 5)), again)


@given(st.permutations(range(22)), st.sampled_from([None, Instance(5), Instance(12)]))
def test_the_order_of_the_inventory_never_matters(order: list[int], where: Instance | None) -> None:
    sick = mig_gpu(0)
    inventory = (*dynamic(sick), *published(mig_gpu(1)))

    shuffled = tuple(inventory[index] for index in order)

    one = fault("contained" if where else "gpu", instance=where)

    assert scope(one, sick, shuffled) == scope(one, sick, inventory)
