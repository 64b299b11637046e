"""ResourceSlices into devices."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model import resource_slices
from exporter.model.device import NVIDIAS, Device
from exporter.model.resource_slices import ResourceSlice, SliceDevice, Taint, incomplete

DRIVERS = NVIDIAS | {"gpu.example.com", "nic.example.com", "other.example"}


def inventory(
    slices: Iterable[ResourceSlice], previous: Iterable[SliceDevice] = ()
) -> tuple[SliceDevice, ...]:
    return resource_slices.inventory(slices, DRIVERS, previous)


def resource_slice(
    *devices: dict[str, Any],
    generation: int = 1,
    count: int = 1,
    pool: str = "node-a",
    driver: str = "gpu.nvidia.com",
) -> ResourceSlice:
    raw = {
        "metadata": {"name": f"{pool}-{generation}"},
        "spec": {
            "driver": driver,
            "nodeName": "node-a",
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
        },
    }
    return msgspec.json.decode(msgspec.json.encode(raw), type=ResourceSlice)


def device(name: str, **attributes: str) -> dict[str, Any]:
    return {
        "name": name,
        "attributes": {key: {"string": value} for key, value in attributes.items()},
    }


def names(*slices: ResourceSlice) -> list[str]:
    return [part.device.device for part in inventory(slices)]


def test_a_full_gpu_a_static_and_a_dynamic_slice_are_distinguished() -> None:
    found = inventory(
        [
            resource_slice(
                device("gpu-0", type="gpu", uuid="GPU-1", **{PCI: "0000:18:00.0"}),
                device("gpu-1-mig-1g10gb-19-0", type="mig", uuid="MIG-1", parentUUID="GPU-2"),
                device("gpu-2-mig-1g10gb-19-0", type="mig", parentUUID="GPU-3", profile="1g.10gb"),
            )
        ]
    )
    assert [(part.kind, part.uuid, part.parent_uuid) for part in found] == [
        ("gpu", "GPU-1", None),
        ("mig", "MIG-1", "GPU-2"),
        ("mig", None, "GPU-3"),
    ]
    assert found[0].device == Device("gpu.nvidia.com", "node-a", "gpu-0")
    assert found[0].pci_bus_id == "0000:18:00.0"
    assert found[0].node == "node-a"


PCI = "resource.kubernetes.io/pciBusID"


@pytest.mark.parametrize("driver", ["gpu.nvidia.com", "gpu.example.com"])
def test_attribute_names_may_carry_the_drivers_domain(driver: str) -> None:
    qualified = device("gpu-0", **{f"{driver}/type": "gpu", f"{driver}/uuid": "GPU-1"})
    (found,) = inventory([resource_slice(qualified, driver=driver)])
    assert (found.kind, found.uuid) == ("gpu", "GPU-1")


@pytest.mark.parametrize("name", ["type", "uuid", "parentUUID", "profile", "productName"])
def test_a_name_without_a_text_leaves_the_one_with_the_domain(name: str) -> None:
    plain = device("gpu-0", **{name: "mig"})
    both = device("gpu-0", **{f"gpu.nvidia.com/{name}": "mig"})
    both["attributes"][name] = {"bool": True}

    assert inventory([resource_slice(both)]) == inventory([resource_slice(plain)])


def test_the_gpu_that_another_drivers_device_is_near_is_not_that_device() -> None:
    card = device("nic-0", **{"gpu.nvidia.com/uuid": "GPU-1", "gpu.nvidia.com/type": "gpu"})
    (found,) = inventory([resource_slice(card, driver="nic.example.com")])

    assert (found.uuid, found.kind) == (None, "")


def test_attributes_that_are_not_read_are_not_kept() -> None:
    many = device("gpu-0", type="gpu", brand="Nvidia", **{PCI: "0000:18:00.0"})
    kept = [sorted(raw.attributes or ()) for raw in resource_slice(many).spec.devices or ()]

    assert kept == [[PCI, "type"]]


def test_the_newest_complete_generation_counts() -> None:
    old = resource_slice(device("gpu-0"), generation=1)
    half = resource_slice(device("gpu-1"), generation=2, count=2)
    rest = resource_slice(device("gpu-2"), generation=2, count=2)
    assert names(old, half) == ["gpu-0"]
    assert names(old, half, rest) == ["gpu-1", "gpu-2"]


def test_a_pool_updated_slice_by_slice_keeps_the_devices_it_had() -> None:
    first = [resource_slice(device(f"gpu-{n}"), generation=1, count=2) for n in (0, 1)]
    before = inventory(first)
    between = [resource_slice(device("gpu-0"), generation=2, count=2), first[1]]
    assert inventory(between, before) == before
    assert incomplete(between).keys() == {("gpu.nvidia.com", "node-a")}


def test_a_pool_that_is_gone_has_no_devices() -> None:
    before = inventory([resource_slice(device("gpu-0"))])
    assert inventory([], before) == ()


def test_a_slice_without_devices_attributes_or_known_taint_effects_is_read() -> None:
    bare = {"name": "gpu-9", "taints": [{"key": "a/b", "effect": "Surprise"}]}
    counters = resource_slice(pool="other")
    found = inventory([resource_slice(bare), counters])
    assert found[0].taints == (Taint("a/b", "", "Surprise"),)
    assert found[0].uuid is None


GIB = 1 << 30


def test_capacity_sharing_and_the_place_of_a_slice_are_read() -> None:
    whole = device("gpu-0", type="gpu") | {
        "capacity": {"memory": {"value": "80Gi"}, "other": {"value": "1"}},
        "allowMultipleAllocations": True,
    }
    part = device("gpu-1-mig-1g24gb-me-20-6", type="mig", parentUUID="GPU-2", profile="1g.24gb+me")
    vfio = device("gpu-vfio-1", type="vfio") | {
        "capacity": {"gpu.nvidia.com/addressableMemory": {"value": "40960Mi"}}
    }
    found = {entry.device.device: entry for entry in inventory([resource_slice(whole, part, vfio)])}
    assert (found["gpu-0"].memory, found["gpu-0"].shareable) == (80 * GIB, True)
    mig = found["gpu-1-mig-1g24gb-me-20-6"]
    assert (mig.gi_profile_id, mig.placement_start, mig.memory) == (20, 6, None)
    assert mig.shareable is False
    assert found["gpu-vfio-1"].memory == 40 * GIB


def test_a_capacity_that_is_no_amount_is_unknown() -> None:
    odd = device("gpu-0", type="gpu") | {"capacity": {"memory": {"value": "much"}}}
    assert inventory([resource_slice(odd)])[0].memory is None


@pytest.mark.parametrize("capacity", [{"value": "80Gi"}, "80Gi"])
def test_the_nested_devices_of_v1beta1_are_read_like_the_flat_ones(capacity: Any) -> None:
    flat = device("gpu-0", type="gpu", uuid="GPU-1") | {
        "capacity": {"memory": capacity},
        "taints": [{"key": "a/b", "effect": "NoSchedule"}],
    }
    nested = {"name": flat.pop("name"), "basic": flat}
    found = inventory([resource_slice(nested)])
    assert found == inventory([resource_slice({"name": "gpu-0", **flat})])
    assert (found[0].uuid, found[0].memory) == ("GPU-1", 80 * GIB)
    assert found[0].taints == (Taint("a/b", "", "NoSchedule"),)


def test_a_type_that_is_not_known_is_no_kind() -> None:
    assert inventory([resource_slice(device("channel-0", type="channel"))])[0].kind == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
FIELDS = ["name", "attributes", "capacity", "basic", "taints", "allowMultipleAllocations"]
DEVICES = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4)


@given(st.lists(DEVICES | JSON, max_size=3), st.integers(-1, 3), st.integers(-1, 3))
def test_any_slice_is_understood_or_refused(
    devices: list[Any], generation: int, count: int
) -> None:
    good = resource_slice(device("gpu-0", type="gpu", uuid="GPU-1"), generation=9)
    try:
        odd = resource_slice(*devices, generation=generation, count=count)
    except msgspec.DecodeError:
        return
    found = inventory([good, odd])
    assert [part.uuid for part in found] == ["GPU-1"]
    assert {part.device.device for part in inventory([odd])} <= {
        entry["name"] for entry in devices if isinstance(entry, dict)
    }
