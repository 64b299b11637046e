"""What the kubelet says: PodResources replies, held against protobuf itself, and plugin ids."""
# pyright: basic
# Reason: protobuf builds the message classes at run time.

from random import Random
from typing import Any

from google.protobuf.message import DecodeError

from exporter.agent.join import device_resolution
from exporter.model import plugin_ids
from exporter.model.hardware import Hardware, LiveGpu, LiveSlice
from exporter.model.plugin_ids import PluginId
from exporter.model.readings import ClaimDevice, ContainerDevices, PluginDevice
from exporter.sensor.kubelet import podresources_wire as wire
from simulator import kubelet_api as api
from tests.fuzz import hostile
from tests.fuzz.target import Target, demand

_UUID = "GPU-2fa81118-6e43-4f7c-9a3f-6d0a3cf5f5a1"
_MIG = "MIG-5c2a1f0e-1111-4222-8333-444455556666"
PLUGIN_IDS: dict[str, PluginId | None] = {
    _UUID: PluginId(uuid=_UUID),
    f"{_UUID}::3": PluginId(uuid=_UUID, replica="3"),
    _MIG: PluginId(uuid=_MIG),
    f"MIG-{_UUID}/3/0": PluginId(uuid=_UUID, gi=3, ci=0),
    f"MIG-{_UUID}/3/0::1": PluginId(uuid=_UUID, gi=3, ci=0, replica="1"),
    "nvidia0": PluginId(number=0),
    "nvidia1/gi3": PluginId(number=1, gi=3),
    "nvidia0/vgpu2": PluginId(number=0, replica="2"),
    "nvidia1/gi3/vgpu0": PluginId(number=1, gi=3, replica="0"),
    "1/vgpu7": PluginId(number=1, replica="7"),
    _UUID.removeprefix("GPU-"): PluginId(uuid=_UUID.removeprefix("GPU-")),
    "0000:3b:00.0": None,
}
"""What each id means."""
RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared", "vendor.io/nic")
_LIVE = Hardware(
    (
        LiveGpu(uuid=_UUID, number=0),
        LiveGpu(
            uuid="GPU-other",
            number=1,
            slices=(LiveSlice(uuid=_MIG, gi=3, ci=0, gi_profile_id=19, placement_start=4),),
        ),
    )
)


def _device(random: Random) -> dict[str, Any]:
    found = {
        "driver_name": hostile.name(random, "gpu.nvidia.com", "nic.example.com"),
        "pool_name": hostile.name(random, "node-a"),
        "device_name": hostile.name(random, "gpu-0", "gpu-0-mig-19-4-1"),
        "cdi_devices": [{"name": hostile.text(random)} for _ in range(random.randrange(3))],
    }
    return found | ({"share_id": hostile.text(random)} if random.randrange(2) else {})


def _claim(random: Random) -> dict[str, Any]:
    return {
        "claim_name": hostile.name(random, "train-gpu"),
        "claim_namespace": hostile.name(random, "team"),
        "claim_resources": [_device(random) for _ in range(random.randrange(3))],
    }


def _container(random: Random) -> dict[str, Any]:
    plugin = [
        {
            "resource_name": hostile.name(random, *RESOURCES),
            "device_ids": [hostile.name(random, *PLUGIN_IDS) for _ in range(random.randrange(3))],
            "topology": {"nodes": [{"ID": 1}]},
        }
        for _ in range(random.randrange(2))
    ]
    return {
        "name": hostile.name(random, "main"),
        "devices": plugin,
        "cpu_ids": [random.getrandbits(62) for _ in range(random.randrange(3))],
        "memory": [{"memory_type": "memory", "size": random.getrandbits(64)}],
        "dynamic_resources": [_claim(random) for _ in range(random.randrange(2))],
    }


def make_reply(random: Random) -> bytes:
    pods = [
        {
            "name": hostile.name(random, "train-0"),
            "namespace": hostile.name(random, "team"),
            "containers": [_container(random) for _ in range(random.randrange(3))],
        }
        for _ in range(random.randrange(3))
    ]
    raw = api.ListPodResourcesResponse(pod_resources=pods).SerializeToString()
    return hostile.mutated(random, raw, 3, (raw,)) if random.randrange(4) else raw


def check_reply(raw: bytes) -> None:
    try:
        found = wire.read(raw)
    except (wire.Malformed, wire.TooLarge) as error:
        demand(str(error), "a refusal without a word")
        return
    try:
        expected = by_protobuf(raw)
    except DecodeError:
        # What is wrong lies in a field that is stepped over, or in a text that was counted.
        return
    if not found.refused:
        demand(found.containers == expected, "read otherwise than protobuf does", found.containers)


def by_protobuf(raw: bytes) -> tuple[ContainerDevices, ...]:
    """Read the same with the library."""
    found = [
        ContainerDevices(
            pod.namespace, pod.name, container.name, _claims(container), _plugin(container)
        )
        for pod in api.ListPodResourcesResponse.FromString(raw).pod_resources
        for container in pod.containers
    ]
    return tuple(sorted(devices for devices in found if devices.claims or devices.plugin))


def _claims(container: Any) -> tuple[ClaimDevice, ...]:
    found = [
        ClaimDevice(
            claim.claim_name,
            claim.claim_namespace,
            device.driver_name,
            device.pool_name,
            device.device_name,
            device.share_id,
            # A kubelet lists those of the devices before it, too.
            tuple(
                cdi.name
                for cdi in device.cdi_devices
                if cdi.name.endswith(f"-{device.device_name}")
            ),
        )
        for claim in container.dynamic_resources
        for device in claim.claim_resources
    ]
    return tuple(sorted(found))


def _plugin(container: Any) -> tuple[PluginDevice, ...]:
    found = [
        PluginDevice(resource.resource_name, device)
        for resource in container.devices
        for device in resource.device_ids
    ]
    return tuple(sorted(found))


def make_plugin(random: Random) -> PluginDevice:
    known = [plugin_id.encode() for plugin_id in PLUGIN_IDS]
    raw = hostile.mutated(random, random.choice(known), 3, known)
    return PluginDevice(hostile.name(random, *RESOURCES), raw.decode("utf-8", "replace"))


def check_plugin(device: PluginDevice) -> None:
    found = plugin_ids.parse(device.id)
    if device.id in PLUGIN_IDS:
        demand(found == PLUGIN_IDS[device.id], "another meaning", found)
    if found is not None:
        demand(found.uuid in device.id, "a UUID from nowhere", found)
        demand(bool(found.uuid) != (found.number is not None), "named twice or not at all", found)
        demand(found.replica in device.id, "a share from nowhere", found)
    where = device_resolution.of_plugin(device, (), _LIVE)
    if where is None:
        return
    demand(bool(where.uuids) + where.elsewhere + bool(where.miss) == 1, "one answer", where)
    for uuid in where.uuids:
        by_place = found is not None and (found.number is not None or found.gi is not None)
        named = uuid in (_UUID, "GPU-other", _MIG) if by_place else uuid[4:] in device.id
        demand(named, "hardware that nobody named", where)


TARGETS = (
    Target("podresources", 60, make_reply, check_reply),
    Target("plugin-id", 50, make_plugin, check_plugin),
)
