"""Which devices a fault means: one MIG slice, or the GPU with every slice on it.

Taints do not inherit in Kubernetes: a taint on `gpu-0` says nothing about
`gpu-0-mig-...`, so a scope lists each published device by itself. Devices are
found by UUID and only among slices that the reporting node publishes. Pure.
"""

from collections.abc import Iterable

import msgspec

from exporter.device import Instance
from exporter.report import GpuHealth
from exporter.slices import SliceDevice
from remediator.fault import Fault
from remediator.incident import Target


class Scope(msgspec.Struct, frozen=True):
    """`kind` is `instance` or `gpu`; `exact` is False when a named instance was not found."""

    kind: str
    targets: tuple[Target, ...]
    summary: str
    exact: bool = True


def scope(
    faults: Iterable[Fault], gpu: GpuHealth, inventory: tuple[SliceDevice, ...], node: str
) -> Scope:
    """Return the union of what the given faults of one GPU mean.

    `inventory` may hold other nodes' devices too: they never match.
    """
    mine = [device for device in inventory if device.node == node and _is_part(device, gpu)]
    named = [fault.instance for fault in faults]
    slices = [_slice(instance, gpu, mine) for instance in named if instance is not None]
    if named and all(one is not None for one in named) and all(slices):
        found = {device for one in slices for device in one}
        return Scope("instance", _targets(found, gpu), _slices_in_words(found, mine))
    return Scope("gpu", _targets(mine, gpu), _gpu_in_words(mine), exact=all(slices))


def _is_part(device: SliceDevice, gpu: GpuHealth) -> bool:
    if gpu.uuid in (device.uuid, device.parent_uuid):
        return True
    twin = device.kind == "vfio" and bool(gpu.pci_bus_id)
    return twin and device.pci_bus_id == gpu.pci_bus_id


def _slice(instance: Instance, gpu: GpuHealth, mine: list[SliceDevice]) -> list[SliceDevice]:
    live = [one for one in gpu.instances if one.gi == instance.gi and instance.ci in (None, one.ci)]
    uuids = {one.uuid for one in live}
    abstract = {f"-{one.gi_profile_id}-{one.placement_start}" for one in live}
    return [
        device
        for device in mine
        if device.uuid in uuids
        or (device.uuid is None and device.device.device.endswith(tuple(abstract)))
    ]


def _targets(devices: Iterable[SliceDevice], gpu: GpuHealth) -> tuple[Target, ...]:
    return tuple(
        sorted(
            Target(one.device.driver, one.device.pool, one.device.device, one.uuid or gpu.uuid)
            for one in devices
        )
    )


def _slices_in_words(found: set[SliceDevice], mine: list[SliceDevice]) -> str:
    return f"{len(found)} of {len(mine)} slices"


def _gpu_in_words(mine: list[SliceDevice]) -> str:
    if not mine:
        return "not published"
    slices = sum(device.kind == "mig" for device in mine)
    return f"GPU with {slices} slices" if slices else "whole GPU"
