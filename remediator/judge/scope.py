"""Which devices a fault means: one MIG slice, or the GPU with every slice on it.

Taints do not inherit in Kubernetes: a taint on `gpu-0` says nothing about
`gpu-0-mig-...`, so a scope lists each published device by itself. Devices are
found by UUID and only among what the reporting node publishes. Pure.
"""

from collections.abc import Iterable

import msgspec

from exporter.device import Instance
from exporter.report import GpuHealth
from exporter.slices import SliceDevice
from remediator.judge.fault import Fault
from remediator.objects.incident import Target
from remediator.objects.taints import Rule


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
    return [device for device in inventory if _is_part(device, gpu)]


def displaced(rule: Rule, inventory: tuple[SliceDevice, ...]) -> bool:
    """Whether other hardware is published now under the name that a rule selects.

    A slice that was made again on the same GPU is other hardware to a contained
    error, and the same to a fault of the GPU.
    """
    return any(one.device == rule.device and _is_other(rule, one) for one in inventory)


def _is_other(rule: Rule, device: SliceDevice) -> bool:
    if device.uuid is None or device.uuid == rule.uuid:
        return False
    if rule.gpu not in (device.uuid, device.parent_uuid):
        return True
    return rule.fault == "contained" and rule.uuid != rule.gpu


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


def _is_part(device: SliceDevice, gpu: GpuHealth) -> bool:
    if gpu.uuid in (device.uuid, device.parent_uuid):
        return True
    twin = device.kind == "vfio" and bool(gpu.pci_bus_id)
    return twin and device.pci_bus_id == gpu.pci_bus_id


def _slice(instance: Instance, gpu: GpuHealth, mine: list[SliceDevice]) -> list[SliceDevice]:
    live = [one for one in gpu.instances if one.gi == instance.gi and instance.ci in (None, one.ci)]
    uuids = {one.uuid for one in live}
    abstract = tuple(f"-{one.gi_profile_id}-{one.placement_start}" for one in live)
    return [
        device
        for device in mine
        if device.uuid in uuids or (device.uuid is None and device.device.device.endswith(abstract))
    ]


def _targets(devices: Iterable[SliceDevice], gpu: GpuHealth) -> tuple[Target, ...]:
    return tuple(
        sorted(
            Target(one.device.driver, one.device.pool, one.device.device, one.uuid or gpu.uuid)
            for one in devices
        )
    )
