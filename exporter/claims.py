"""Who holds each GPU and each MIG slice of this node.

Joins what the kubelet says (containers and their devices, by DRA name or device
plugin id) with what the driver published (DRA name to UUID). Local to one node
and pure. What cannot be joined is counted with its reason, never guessed.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from exporter.device import GPU_DRIVER, Device
from exporter.readings import ClaimDevice, ContainerDevices, PluginDevice
from exporter.slices import SliceDevice

Miss = Literal["not_published", "no_uuid", "unknown_id"]
"""Why a holding could not be tied to hardware: its name is in no slice, the slice carries no uuid
(dynamic MIG), or a device plugin's id is no UUID."""

_PLUGIN_PREFIX = "nvidia.com/"


class Holder(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """One container's hold on one device. `dra` is None with a device plugin."""

    namespace: str
    pod: str
    container: str
    dra: ClaimDevice | None = None
    resource: str = ""
    """The device plugin's resource name, or the one that an extended-resource claim stands for."""
    replica: str = ""
    """Of a time-sliced or otherwise shared device plugin id (dcgm-exporter's `vgpu`)."""
    pod_uid: str = ""
    claim_uid: str = ""
    request: str = ""
    """`main` or `main/sub` of the claim's allocation."""
    device_class: str = ""
    pod_group: str = ""
    admin: bool | None = None
    """Admin access: looks on, holds nothing. None: not known."""
    declared_memory: int | None = None
    """Bytes that the claim was given: consumed capacity of a share, else the device's memory."""
    profile: str = ""
    """MIG profile as published."""
    pod_labels: tuple[tuple[str, str], ...] = ()
    """Allowed ones, sorted, as on the pod."""


class Holders(msgspec.Struct, frozen=True):
    """Holders by UUID (`GPU-…` or `MIG-…`), sorted; and what could not be joined."""

    by_uuid: dict[str, tuple[Holder, ...]] = {}
    elsewhere: tuple[Holder, ...] = ()
    """Holds on devices that NVML cannot show: of other drivers, and of GPUs given to VFIO."""
    misses: tuple[tuple[Miss, str], ...] = ()
    """(reason, device) for each hold that has no hardware known."""


def join(containers: Iterable[ContainerDevices], published: Iterable[SliceDevice]) -> Holders:
    """Return who holds what now."""
    known = {device.device: device for device in published}
    found: dict[str, set[Holder]] = {}
    misses: set[tuple[Miss, str]] = set()
    for container in containers:
        for uuid, holder in _holds(container, known):
            if isinstance(uuid, str):
                found.setdefault(uuid, set()).add(holder)
            else:
                misses.add(uuid)
    by_uuid = {uuid: tuple(sorted(found[uuid], key=_order)) for uuid in sorted(found)}
    return Holders(by_uuid=by_uuid, misses=tuple(sorted(misses)))


def _holds(
    container: ContainerDevices, known: Mapping[Device, SliceDevice]
) -> Iterable[tuple[str | tuple[Miss, str], Holder]]:
    for claim in container.claims:
        if claim.driver == GPU_DRIVER:
            yield _published_uuid(claim, known), _holder(container, dra=claim)
    for device in container.plugin:
        if device.resource.startswith(_PLUGIN_PREFIX):
            yield _plugin_uuid(device), _holder(container, resource=device.resource)


def _holder(
    container: ContainerDevices, dra: ClaimDevice | None = None, resource: str = ""
) -> Holder:
    return Holder(
        namespace=container.namespace,
        pod=container.pod,
        container=container.container,
        dra=dra,
        resource=resource,
    )


def _published_uuid(
    claim: ClaimDevice, known: Mapping[Device, SliceDevice]
) -> str | tuple[Miss, str]:
    name = Device(claim.driver, claim.pool, claim.device)
    device = known.get(name)
    if device is None:
        return "not_published", str(name)
    return device.uuid or ("no_uuid", str(name))


def _plugin_uuid(device: PluginDevice) -> str | tuple[Miss, str]:
    if device.id.startswith(("GPU-", "MIG-")):
        return device.id
    return "unknown_id", f"{device.resource}/{device.id}"


def _order(holder: Holder) -> tuple[str, ...]:
    claim = holder.dra
    named = (claim.claim, claim.device, claim.share_id) if claim else ("", "", "")
    return (holder.namespace, holder.pod, holder.container, holder.resource, *named)
