"""A device of a driver that is none of GPUs: one door keeps nothing that would make it a GPU."""

import msgspec
import pytest

from exporter.model.device import GPU_DRIVER, NVIDIAS, gpu_drivers
from exporter.model.resource_slices import ResourceSlice, SliceDevice, inventory
from tests.lab.foreign import DRIVERS, INVENTED, Board, decoded, foreign_slices

BOARD = Board("GPU-1", "0000:18:00.0")
SLICES = decoded(foreign_slices("node-a", [BOARD]))


def test_a_foreign_device_has_its_name_its_taints_and_its_product_and_no_more() -> None:
    found = inventory(SLICES, NVIDIAS)

    assert {part.device.driver for part in found} == set(DRIVERS)
    for part in found:
        assert part == SliceDevice(
            device=part.device,
            node=part.node,
            taints=part.taints,
            product="H100",
            foreign=True,
        )
        assert [taint.key for taint in part.taints] == ["example.com/broken"]


def test_a_foreign_slice_names_no_gpu() -> None:
    assert {uuid for each in SLICES for uuid in each.gpus(NVIDIAS)} == set()
    assert {uuid for each in SLICES for uuid in each.gpus(frozenset(DRIVERS))} > {
        BOARD.uuid,
        INVENTED,
    }


def test_a_driver_of_the_list_publishes_gpus_whatever_its_name_is() -> None:
    (driver, *rest) = DRIVERS
    found = inventory(SLICES, frozenset({driver}))

    assert {part.device.driver for part in found if part.foreign} == set(rest)
    own = [part for part in found if not part.foreign]
    assert {part.kind for part in own} == {"gpu", "mig", "vfio"}
    assert BOARD.uuid in {part.uuid for part in own}
    assert BOARD.bus_id in {part.pci_bus_id for part in own}


@pytest.mark.parametrize("amount", ["memory", "addressableMemory"])
@pytest.mark.parametrize("qualified", [False, True])
def test_a_driver_of_the_list_writes_slices_as_nvidias_does(qualified: bool, amount: str) -> None:
    def published(driver: str) -> SliceDevice:
        prefix = f"{driver}/" if qualified else ""
        texts = {"type": "mig", "parentUUID": BOARD.uuid, "profile": "1g.10gb"}
        device = {
            "name": "gpu-0-mig-1g10gb-19-4",
            "attributes": {f"{prefix}{name}": {"string": text} for name, text in texts.items()},
            "capacity": {f"{prefix}{amount}": {"value": "10Gi"}, f"{prefix}other": {"value": "1"}},
        }
        spec = {"driver": driver, "pool": {"name": "node-a"}, "devices": [device]}
        body = {"metadata": {"name": "x"}, "spec": spec}
        (found,) = inventory([msgspec.convert(body, ResourceSlice)], NVIDIAS | {driver})
        return found

    (driver, *_) = DRIVERS
    found = published(driver)

    assert (found.gi_profile_id, found.placement_start, found.memory) == (19, 4, 10 << 30)
    assert found == msgspec.structs.replace(published(GPU_DRIVER), device=found.device)


@pytest.mark.parametrize(
    ("names", "drivers"),
    [
        ((GPU_DRIVER,), NVIDIAS),
        ((GPU_DRIVER, " gpu.example.com "), NVIDIAS | {"gpu.example.com"}),
        (("gpu", GPU_DRIVER, "gpu"), NVIDIAS | {"gpu"}),
        ((GPU_DRIVER, "Gpu.Example.com"), NVIDIAS | {"Gpu.Example.com"}),
    ],
)
def test_a_list_of_drivers_is_read(names: tuple[str, ...], drivers: frozenset[str]) -> None:
    assert gpu_drivers(names) == drivers


@pytest.mark.parametrize(
    "name",
    [
        "",
        "gpu_nvidia.com",
        "gpu.nvidia.com/",
        "\u212aey.io",
        "a b",
        "-a",
        "a..b",
        "a.",
        "a" * 64,
        "a\nb",
    ],
)
def test_what_is_no_name_of_a_driver_is_refused_in_words(name: str) -> None:
    with pytest.raises(ValueError, match="takes names of DRA drivers") as refused:
        gpu_drivers((GPU_DRIVER, name))
    assert str(refused.value).endswith(f"not {name!r}")


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(ValueError, match="not nothing"):
        gpu_drivers(())
