"""ResourceSlices into devices."""

from typing import Any

import msgspec

from exporter.device import Device
from exporter.slices import ResourceSlice, Taint, incomplete, inventory


def resource_slice(
    *devices: dict[str, Any], generation: int = 1, count: int = 1, pool: str = "node-a"
) -> ResourceSlice:
    raw = {
        "metadata": {"name": f"{pool}-{generation}"},
        "spec": {
            "driver": "gpu.nvidia.com",
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
    return [one.device.device for one in inventory(slices)]


def test_a_full_gpu_a_static_and_a_dynamic_slice_are_told_apart() -> None:
    found = inventory(
        [
            resource_slice(
                device("gpu-0", type="gpu", uuid="GPU-1", **{PCI: "0000:18:00.0"}),
                device("gpu-1-mig-1g10gb-19-0", type="mig", uuid="MIG-1", parentUUID="GPU-2"),
                device("gpu-2-mig-1g10gb-19-0", type="mig", parentUUID="GPU-3", profile="1g.10gb"),
            )
        ]
    )
    assert [(one.kind, one.uuid, one.parent_uuid) for one in found] == [
        ("gpu", "GPU-1", None),
        ("mig", "MIG-1", "GPU-2"),
        ("mig", None, "GPU-3"),
    ]
    assert found[0].device == Device("gpu.nvidia.com", "node-a", "gpu-0")
    assert found[0].pci_bus_id == "0000:18:00.0"
    assert found[0].node == "node-a"


PCI = "resource.kubernetes.io/pciBusID"


def test_attribute_names_may_carry_the_drivers_domain() -> None:
    qualified = device("gpu-0", **{"gpu.nvidia.com/type": "gpu", "gpu.nvidia.com/uuid": "GPU-1"})
    assert inventory([resource_slice(qualified)])[0].uuid == "GPU-1"


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
    assert incomplete(between) == {("gpu.nvidia.com", "node-a")}


def test_a_pool_that_is_gone_has_no_devices() -> None:
    before = inventory([resource_slice(device("gpu-0"))])
    assert inventory([], before) == ()


def test_a_slice_without_devices_attributes_or_known_taint_effects_is_read() -> None:
    bare = {"name": "gpu-9", "taints": [{"key": "a/b", "effect": "Surprise"}]}
    counters = resource_slice(pool="other")
    found = inventory([resource_slice(bare), counters])
    assert found[0].taints == (Taint("a/b", "", "Surprise"),)
    assert found[0].uuid is None
