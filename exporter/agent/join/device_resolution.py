"""From the name of a held device to the hardware behind it.

A name leads to UUIDs, to hardware that NVML cannot show, or nowhere, and then
there is a word for why. Nothing is guessed. Pure.
"""

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from exporter.model import plugin_ids
from exporter.model.device import Device
from exporter.model.hardware import Hardware
from exporter.model.readings import ClaimDevice, PluginDevice
from exporter.model.resource_slices import SliceDevice

Miss = Literal["not_published", "no_uuid", "not_live", "unknown_id"]
"""Why a holding could not be tied to hardware.

- `not_published`: no ResourceSlice has the device's name (yet), and no binding of before holds;
- `no_uuid`: the slice has it without a uuid, and not as a MIG slice whose place is known;
- `not_live`: what is named does not exist now: a partition of dynamic MIG that was not made yet,
  an instance that is gone, or NVML does not list the GPU;
- `unknown_id`: a device plugin's id follows no known grammar.
"""


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """Where a held device is: one of `uuids`, `elsewhere` and `miss` is set."""

    uuids: tuple[str, ...] = ()
    """Several for a GPU instance that is divided into compute instances."""
    elsewhere: bool = False
    """Another driver's device, or a GPU that was given to VFIO."""
    miss: Miss | None = None
    published: SliceDevice | None = None
    replica: str = ""


def of_claim(
    claim: ClaimDevice, known: Mapping[Device, SliceDevice], hardware: Hardware
) -> Resolution:
    """Find a device that a driver of GPUs gave."""
    device = known.get(Device(claim.driver, claim.pool, claim.device))
    if device and device.kind == "vfio":
        return Resolution(elsewhere=True, published=device)
    if device is None:
        return Resolution(miss="not_published")
    if not device.uuid:
        parent, profile, start = device.parent_uuid, device.gi_profile_id, device.placement_start
        if parent is None or profile is None or start is None:
            return Resolution(miss="no_uuid", published=device)
        uuids = hardware.placed(parent, profile, start)
        return Resolution(uuids=uuids, miss=None if uuids else "not_live", published=device)
    if device.kind == "mig" and hardware.gpus and device.uuid not in hardware.uuids:
        return Resolution(miss="not_live", published=device)
    # A whole GPU that NVML lost is still the one that is held.
    return Resolution(uuids=(device.uuid,), published=device)


def of_plugin(
    device: PluginDevice, resource_names: Collection[str], hardware: Hardware
) -> Resolution | None:
    """Find a device that a device plugin gave; None when it is no business of NVIDIA's."""
    if not plugin_ids.possibly_gpu(device.resource, resource_names):
        return None
    desired = plugin_ids.parse(device.id)
    if desired is None:
        certain = plugin_ids.certainly_gpu(device.resource, resource_names)
        return Resolution(miss="unknown_id") if certain else Resolution(elsewhere=True)
    uuids = plugin_ids.uuids(desired, hardware)
    return Resolution(uuids=uuids, miss=None if uuids else "not_live", replica=desired.replica)
