"""Which devices a fault means: those of one MIG instance's memory, or the GPU with every slice.

Taints do not inherit in Kubernetes: a taint on `gpu-0` does not cover `gpu-0-mig-...`, so a scope
lists each published device by itself. With dynamic MIG all partitions that could be made are
published, and several are made of the same memory slices. Devices are found by UUID and placement,
and only among what the reporting node publishes. Pure.
"""

from collections.abc import Iterable, Mapping

import msgspec

from exporter.model.device import Device, Instance
from exporter.model.mig_names import placement_of
from exporter.model.node_health import GpuHealth, MemorySlices, MigInstance
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.fault import Fault
from remediator.model.incident_status import Target
from remediator.model.taint_rule import Rule, is_label_value


class Scope(msgspec.Struct, frozen=True):
    """What one fault means. `exact` is False when it names an instance that is not published."""

    targets: tuple[Target, ...]
    exact: bool = True


def scope(fault: Fault, gpu: GpuHealth, inventory: tuple[SliceDevice, ...]) -> Scope:
    """Return the devices of one fault of one GPU, among what its node publishes.

    An error of one instance means every device that is made of the same memory
    slices, in part at least: the full GPU where it is published beside its
    partitions, too. It never means more than that, and nothing when nothing
    intersects.
    """
    mine = parts_of(gpu, inventory)
    if fault.instance is None:
        return Scope(_targets(mine, gpu))
    failed = _find_failed(fault, fault.instance, gpu)
    found = [device for device in mine if _is_affected(device, failed, gpu)]
    return Scope(_targets(found, gpu), exact=any(device.kind == "mig" for device in found))


def parts_of(gpu: GpuHealth, inventory: tuple[SliceDevice, ...]) -> list[SliceDevice]:
    """Return what is published of a GPU: itself, its slices, its VFIO twin."""
    return [device for device in inventory if _is_part(device, gpu, inventory)]


def published_parts(
    uuid: str, gpu: GpuHealth | None, inventory: tuple[SliceDevice, ...]
) -> list[SliceDevice]:
    """Return what is published of a GPU; of one that is not reported, what names its UUID."""
    if gpu is not None:
        return parts_of(gpu, inventory)
    return [device for device in inventory if uuid in (device.uuid, device.parent_uuid)]


def is_displaced(rule: Rule, inventory: tuple[SliceDevice, ...]) -> bool:
    """Whether other hardware is proven to be now under the name that a rule selects.

    A slice that was made again on the same GPU is other hardware to a contained error, and the same
    to a fault of the GPU. A name that no node publishes proves nothing.
    """
    return any(
        device.device == rule.device and _is_other(rule, device, inventory) for device in inventory
    )


def _is_other(rule: Rule, device: SliceDevice, inventory: tuple[SliceDevice, ...]) -> bool:
    # The UUID of a VFIO device is made of its PCI address, and so is the same for another board
    # there.
    if device.kind != "vfio" and device.uuid == rule.uuid:
        return False
    behind = gpus_behind(device, inventory)
    if rule.gpu not in behind:
        # A device that names no board proves nothing about the one that is ruled, unless that one
        # is in another slot.
        parts = [part for part in inventory if rule.gpu in gpus_behind(part, inventory)]
        slots = {part.pci_bus_id for part in parts} - {""}
        return bool(behind or (slots and device.pci_bus_id and device.pci_bus_id not in slots))
    sliced = rule.fault == "contained" and rule.uuid != rule.gpu
    # A partition of dynamic MIG has no UUID, and may be the same memory.
    return sliced and device.uuid not in {None, rule.uuid}


def gpus_behind(device: SliceDevice, inventory: tuple[SliceDevice, ...]) -> frozenset[str]:
    """Return the UUIDs of the GPU behind a device, none while it is not named.

    A VFIO device has a UUID of its PCI address and not of the board: the devices that are also
    published at that address name the board. Where there are none, the node's report may have (see
    `with_board_in_slot`).
    """
    if device.kind != "vfio":
        return frozenset({device.parent_uuid or device.uuid or ""} - {""})
    if not device.pci_bus_id:
        return frozenset()
    there = [
        part for part in inventory if part.kind != "vfio" and part.pci_bus_id == device.pci_bus_id
    ]
    named = frozenset({part.parent_uuid or part.uuid or "" for part in there} - {""})
    return named or frozenset({device.parent_uuid or ""} - {""})


def gpus_named(name: Device, inventory: tuple[SliceDevice, ...]) -> frozenset[str]:
    """Return the UUIDs of the GPUs that a device name stands for now, none while unknown."""
    parts = (part for part in inventory if part.device == name)
    return frozenset(gpu for part in parts for gpu in gpus_behind(part, inventory))


def with_board_in_slot(device: SliceDevice, boards: Mapping[str, str]) -> SliceDevice:
    """Return a device; a VFIO device with the GPU that NVML lists in its slot, if it lists one.

    `boards` are the UUIDs of those by PCI bus id. A GPU that is passed through is not listed: then
    it is unknown which board is there.
    """
    board = boards.get(device.pci_bus_id) if device.kind == "vfio" else None
    return msgspec.structs.replace(device, parent_uuid=board) if board else device


def in_words(targets: tuple[Target, ...], mine: list[SliceDevice]) -> str:
    """Describe how much of a GPU is in scope."""
    if not targets:
        return "not published"
    slices = {part.device for part in mine if part.kind == "mig"}
    affected = sum(target.name in slices for target in targets)
    if not slices:
        return "whole GPU"
    return (
        f"GPU with {len(slices)} slices"
        if affected == len(slices)
        else f"{affected} of {len(slices)} slices"
    )


def _is_part(device: SliceDevice, gpu: GpuHealth, inventory: tuple[SliceDevice, ...]) -> bool:
    if device.kind != "vfio":
        return gpu.uuid in (device.uuid, device.parent_uuid)
    behind = gpus_behind(device, inventory)
    same_slot = bool(gpu.pci_bus_id) and device.pci_bus_id == gpu.pci_bus_id
    # Only where nothing else is published at its address does the slot decide: another board may
    # have come into it.
    return gpu.uuid in behind if behind else same_slot


class _Failed(msgspec.Struct, frozen=True):
    """A failed instance, as far as it is still known."""

    places: frozenset[MemorySlices]
    uuids: frozenset[str]
    """Of its live slices."""
    beside: frozenset[str]
    """UUIDs of live slices in the same memory that are other compute instances."""
    sizes: Mapping[int, int]
    """Memory slices by GI profile id, as far as they are known."""


def _find_failed(fault: Fault, instance: Instance, gpu: GpuHealth) -> _Failed:
    """Find out where the instance of a fault is, or was.

    The recorded placement decides. Without one (older agents) the instance
    that has the ids now is looked up.
    """
    same_gi = [
        live
        for live in gpu.instances
        # The driver uses ids again: what has this id in another place is another instance.
        if live.gi == instance.gi and fault.placement in {None, _place_of(live)}
    ]
    named = {live.uuid for live in same_gi if instance.ci in {None, live.ci}}
    recorded = fault.placement
    places = {recorded} if recorded else {_place_of(live) for live in same_gi if live.uuid in named}
    sizes = {
        live.gi_profile_id: live.placement_size
        for live in gpu.instances
        if live.gi_profile_id is not None and live.placement_size is not None
    }
    if recorded and fault.gi_profile_id is not None:
        # Once the instance is gone, no live one shows how large its profile is.
        sizes[fault.gi_profile_id] = recorded.size
    return _Failed(
        places=frozenset(place for place in places if place is not None),
        uuids=frozenset(named),
        beside=frozenset(live.uuid for live in same_gi) - named,
        sizes=sizes,
    )


def _is_affected(device: SliceDevice, failed: _Failed, gpu: GpuHealth) -> bool:
    if device.kind != "mig":
        return bool(failed.places or failed.uuids)  # the full GPU has all memory slices
    if device.uuid in failed.uuids:
        return True
    taken = None if device.uuid in failed.beside else _memory_of(device, failed.sizes, gpu)
    return taken is not None and any(taken.intersects(place) for place in failed.places)


def made_of(device: SliceDevice, place: MemorySlices, gpu: GpuHealth | None) -> bool:
    """Whether a device is made of memory slices, in part at least; the full GPU has all of them.

    What a GPU that is reported says of its live instance comes before what is published.
    """
    if device.kind != "mig":
        return True
    taken = _memory_of(device, {}, gpu)
    return taken is not None and taken.intersects(place)


def is_unplaced(device: SliceDevice, gpu: GpuHealth | None) -> bool:
    """Whether it is unknown of which memory slices a MIG device is made."""
    return device.kind == "mig" and _memory_of(device, {}, gpu) is None


def _memory_of(
    device: SliceDevice, sizes: Mapping[int, int], gpu: GpuHealth | None
) -> MemorySlices | None:
    """Return the memory slices that a MIG device is made of, None when unknown.

    When the size is not known the first slice is certain.
    """
    instances = gpu.instances if gpu else ()
    live = next((instance for instance in instances if instance.uuid == device.uuid), None)
    place = _place_of(live) if live else None
    if place is not None:
        return place
    # Older drivers publish the place of a slice in its name alone.
    named = placement_of(device.device.device)
    start = device.placement_start
    if start is None:
        start = named.start if named else None
    if start is None:
        return None
    profile = device.gi_profile_id
    if profile is None and named:
        profile = named.gi_profile_id
    size = device.placement_size or (named.size if named else None)
    return MemorySlices(start, size or (sizes.get(profile, 1) if profile is not None else 1))


def _place_of(live: MigInstance) -> MemorySlices | None:
    if live.placement_start is None or live.placement_size is None:
        return None
    return MemorySlices(live.placement_start, live.placement_size)


def hardware_of(device: SliceDevice, gpu: str) -> str:
    """Return the UUID of a device; one whose UUID no rule could carry stands for its GPU."""
    return device.uuid if device.uuid and is_label_value(device.uuid) else gpu


def _targets(devices: Iterable[SliceDevice], gpu: GpuHealth) -> tuple[Target, ...]:
    """Return the devices by hardware."""
    return tuple(
        sorted(
            Target(
                device.device.driver,
                device.device.pool,
                device.device.device,
                hardware_of(device, gpu.uuid),
            )
            for device in devices
        )
    )
