"""Which devices a fault means: one MIG slice, or the GPU with every slice on it.

Taints do not inherit in Kubernetes: a taint on `gpu-0` says nothing about
`gpu-0-mig-...`, so a scope lists each published device by itself. Devices are
found by UUID and only among what the reporting node publishes. Pure.
"""

from collections.abc import Iterable

import msgspec

from exporter.device import Instance
from exporter.mig_names import placement_of
from exporter.report import GpuHealth
from exporter.slices import SliceDevice
from remediator.judge.fault import Fault
from remediator.objects.incident import Target
from remediator.objects.taints import Rule, is_label_value


class Scope(msgspec.Struct, frozen=True):
    """What one fault means. `exact` is False when it names an instance that is not published."""

    targets: tuple[Target, ...]
    exact: bool = True


def scope(fault: Fault, gpu: GpuHealth, inventory: tuple[SliceDevice, ...]) -> Scope:
    """Return the devices of one fault of one GPU, among what its node publishes."""
    mine = parts_of(gpu, inventory)
    if fault.instance is None:
        return Scope(_targets(mine, gpu))
    found = _slice(fault.instance, gpu, mine)
    return Scope(_targets(found or mine, gpu), exact=bool(found))


def parts_of(gpu: GpuHealth, inventory: tuple[SliceDevice, ...]) -> list[SliceDevice]:
    """Return what is published of a GPU: itself, its slices, its VFIO twin."""
    return [device for device in inventory if _is_part(device, gpu, inventory)]


def displaced(rule: Rule, inventory: tuple[SliceDevice, ...]) -> bool:
    """Whether other hardware is proven to be now under the name that a rule selects.

    A slice that was made again on the same GPU is other hardware to a contained
    error, and the same to a fault of the GPU. A name that nobody publishes
    proves nothing.
    """
    return any(one.device == rule.device and _is_other(rule, one, inventory) for one in inventory)


def _is_other(rule: Rule, device: SliceDevice, inventory: tuple[SliceDevice, ...]) -> bool:
    if device.kind != "vfio" and device.uuid == rule.uuid:
        return False
    behind = _gpus_behind(device, inventory)
    if rule.gpu not in behind:
        return bool(behind)
    sliced = rule.fault == "contained" and rule.uuid != rule.gpu
    return sliced and device.uuid not in {None, rule.uuid}


def _gpus_behind(device: SliceDevice, inventory: tuple[SliceDevice, ...]) -> frozenset[str]:
    """Return the UUIDs of the GPU behind a device, none while nobody names it.

    A VFIO device has a UUID of its PCI address and not of the board: what else
    is published at that address tells the board.
    """
    if device.kind != "vfio":
        return frozenset({device.parent_uuid or device.uuid or ""} - {""})
    if not device.pci_bus_id:
        return frozenset()
    there = [one for one in inventory if one.kind != "vfio" and one.pci_bus_id == device.pci_bus_id]
    return frozenset({one.parent_uuid or one.uuid or "" for one in there} - {""})


def in_words(targets: tuple[Target, ...], mine: list[SliceDevice]) -> str:
    """Say how much of a GPU is in scope."""
    if not targets:
        return "not published"
    slices = {one.device for one in mine if one.kind == "mig"}
    hit = sum(target.name in slices for target in targets)
    if not slices:
        return "whole GPU"
    return (
        f"GPU with {len(slices)} slices" if hit == len(slices) else f"{hit} of {len(slices)} slices"
    )


def _is_part(device: SliceDevice, gpu: GpuHealth, inventory: tuple[SliceDevice, ...]) -> bool:
    if device.kind != "vfio":
        return gpu.uuid in (device.uuid, device.parent_uuid)
    behind = _gpus_behind(device, inventory)
    same_slot = bool(gpu.pci_bus_id) and device.pci_bus_id == gpu.pci_bus_id
    return gpu.uuid in behind if behind else same_slot


def _slice(instance: Instance, gpu: GpuHealth, mine: list[SliceDevice]) -> list[SliceDevice]:
    """Return the devices of a live instance.

    A slice of static MIG is known by its UUID. One of dynamic MIG has none: it
    is the partition with the profile id and the placement of the instance.
    """
    live = [one for one in gpu.instances if one.gi == instance.gi and instance.ci in (None, one.ci)]
    uuids = {one.uuid for one in live}
    places = {(one.gi_profile_id, one.placement_start) for one in live}
    return [
        device
        for device in mine
        if device.kind == "mig"
        and (device.uuid in uuids or (device.uuid is None and _place(device) in places))
    ]


def _place(device: SliceDevice) -> tuple[int, int] | None:
    """Return (GI profile id, first memory slice) of a partition, None when nobody tells."""
    if device.gi_profile_id is not None and device.placement_start is not None:
        return device.gi_profile_id, device.placement_start
    named = placement_of(device.device.device)
    return (named.gi_profile_id, named.start) if named else None


def _targets(devices: Iterable[SliceDevice], gpu: GpuHealth) -> tuple[Target, ...]:
    """Return the devices by hardware; one whose UUID no rule could carry stands for its GPU."""
    return tuple(
        sorted(
            Target(
                one.device.driver,
                one.device.pool,
                one.device.device,
                one.uuid if one.uuid and is_label_value(one.uuid) else gpu.uuid,
            )
            for one in devices
        )
    )
