"""What a node published before its DRA driver went: slices into its report, and back. Pure."""

from exporter.model.device import Device
from exporter.model.node_health import GpuHealth, NodeHealth, PublishedDevice
from exporter.model.resource_slices import SliceDevice


def published_device(device: SliceDevice) -> PublishedDevice:
    """Return a device as the report has it."""
    return PublishedDevice(
        driver=device.device.driver,
        pool=device.device.pool,
        device=device.device.device,
        uuid=device.uuid or "",
        gi_profile_id=device.gi_profile_id,
        placement_start=device.placement_start,
        placement_size=device.placement_size,
    )


def last_published(report: NodeHealth, node: str = "") -> tuple[SliceDevice, ...]:
    """Return the devices that a report says were published last, sorted by name."""
    found = (_device(part, gpu, node) for gpu in report.gpus for part in gpu.last_published)
    return tuple(sorted(found, key=lambda device: device.device))


def _device(part: PublishedDevice, gpu: GpuHealth, node: str) -> SliceDevice:
    whole = part.uuid == gpu.uuid
    return SliceDevice(
        device=Device(part.driver, part.pool, part.device),
        kind="gpu" if whole else "mig",
        uuid=part.uuid or None,
        parent_uuid=None if whole else gpu.uuid,
        pci_bus_id=gpu.pci_bus_id,
        node=node,
        gi_profile_id=part.gi_profile_id,
        placement_start=part.placement_start,
        placement_size=part.placement_size,
        product=gpu.product,
    )
