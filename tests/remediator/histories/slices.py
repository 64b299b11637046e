"""The MIG slices that a made-up GPU publishes, and the memory that they are made of."""

import msgspec

from exporter.model.device import Device
from exporter.model.mig_names import placement_of
from exporter.model.node_health import GpuHealth, MemorySlices
from exporter.model.resource_slices import SliceDevice
from tests.remediator.builders import published


def static_slices(health: GpuHealth) -> tuple[SliceDevice, ...]:
    """Return what is published of a GPU; a second compute instance has a name of its own."""
    seconds = {part.uuid for part in health.instances if part.ci}
    return tuple(
        msgspec.structs.replace(
            device,
            device=msgspec.structs.replace(
                device.device, device=device.device.device.replace("mig-1g", "mig-1c1g")
            ),
        )
        if device.uuid in seconds
        else device
        for device in published(health)
    )


def partition_of(device: Device) -> MemorySlices | None:
    """Return what a partition of dynamic MIG is made of, None for a full GPU."""
    named = placement_of(device.device.partition("-r")[0])
    return MemorySlices(named.start, 4 if named.gi_profile_id == 9 else 1) if named else None


def shares_memory(device: SliceDevice, other: SliceDevice) -> bool:
    """Whether two devices of one GPU are compute instances of one MIG instance."""
    place = partition_of(device.device)
    mine = device.device != other.device and device.parent_uuid == other.parent_uuid
    return mine and place is not None and place == partition_of(other.device)


def numbered_now(health: GpuHealth) -> set[str]:
    """Return the slices that have the numbers of errors of which no place is recorded."""
    numbers = {it.gi for it in health.xids if it.gi is not None and it.placement is None}
    return {part.uuid for part in health.instances if part.gi in numbers and not part.ci}


def memory_of(gpu: str, start: int) -> str:
    return f"{gpu}+{start}"
