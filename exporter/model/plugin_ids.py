"""What a device plugin's ids mean: which GPU or MIG slice, and which share of it.

The ids are free text of the plugin. Read are the grammars of NVIDIA's plugin
(`GPU-…`, `MIG-…`, the form before driver R470 `MIG-GPU-…/gi/ci`, and `…::N` for
a shared device) and those of GKE's (`nvidia0`, `nvidia0/gi3`, with `/vgpuN` for a
shared one; N counts /dev/nvidiaN). `kubernetes-gpu-id-type` of dcgm-exporter
needs no counterpart: an id says itself which kind it is. Pure.
"""

import re
from collections.abc import Collection

import msgspec

from exporter.model.hardware import Hardware

GPU_RESOURCE = "nvidia.com/gpu"
_DOMAIN = "nvidia.com/"
_OURS = (f"{GPU_RESOURCE}.", f"{_DOMAIN}mig-")
"""`nvidia.com/gpu.shared`, `nvidia.com/mig-1g.10gb`."""

_HEX = "[0-9a-fA-F]"
_BARE = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_ID = r"[^\s/:\"\\]{1,120}"
_SHARED = re.compile(r"(?P<device>.+)::(?P<replica>[0-9]{0,9})")
_OLD_MIG = re.compile(rf"MIG-(?P<uuid>GPU-{_ID})/(?P<gi>[0-9]{{1,9}})/(?P<ci>[0-9]{{1,9}})")
_UUID = re.compile(rf"(?P<uuid>(?:GPU|MIG)-{_ID}|{_BARE})")
_NODE = re.compile(
    r"(?:nvidia(?P<number>[0-9]{1,4})(?:/gi(?P<gi>[0-9]{1,9}))?(?:/vgpu(?P<replica>[0-9]{0,9}))?"
    r"|(?P<bare_number>[0-9]{1,4})/vgpu(?P<bare_replica>[0-9]{0,9}))"
)


class PluginId(msgspec.Struct, frozen=True, kw_only=True):
    """An id taken apart. A GPU is named by `uuid` or by `number`, a part of it by `gi` and `ci`."""

    uuid: str = ""
    """`GPU-…`, `MIG-…`, or without either when the plugin leaves it out."""
    number: int | None = None
    """N of /dev/nvidiaN."""
    gi: int | None = None
    ci: int | None = None
    replica: str = ""
    """Which share of a device that several containers hold; "" when it is not shared."""


def certainly_gpu(resource: str, more: Collection[str] = ()) -> bool:
    """Return whether a resource is one of GPUs, whatever its ids look like."""
    return resource == GPU_RESOURCE or resource.startswith(_OURS) or resource in more


def possibly_gpu(resource: str, more: Collection[str] = ()) -> bool:
    """Return whether a resource may be one of GPUs: network cards are `nvidia.com/…` too."""
    return resource.startswith(_DOMAIN) or resource in more


def parse(text: str) -> PluginId | None:
    """Return what an id means, None when it follows no known grammar."""
    shared = _SHARED.fullmatch(text)
    device, replica = (shared["device"], shared["replica"]) if shared else (text, "")
    if found := _OLD_MIG.fullmatch(device):
        gi, ci = int(found["gi"]), int(found["ci"])
        return PluginId(uuid=found["uuid"], gi=gi, ci=ci, replica=replica)
    if found := _UUID.fullmatch(device):
        return PluginId(uuid=found["uuid"], replica=replica)
    if (found := _NODE.fullmatch(device)) and not shared:
        gi = found["gi"]
        return PluginId(
            number=int(found["number"] or found["bare_number"]),
            gi=None if gi is None else int(gi),
            replica=found["replica"] or found["bare_replica"] or "",
        )
    return None


def uuids(desired: PluginId, hardware: Hardware) -> tuple[str, ...]:
    """Return the UUIDs of the GPU or the slices that an id means; none when they are not live.

    While no hardware is known at all, an id that is a UUID is believed.
    """
    if desired.number is None and desired.gi is None:
        if desired.uuid.startswith(("GPU-", "MIG-")):
            # Some plugins append a number to a UUID of their own making: that is no device.
            return (desired.uuid,) if desired.uuid in hardware.uuids or not hardware.gpus else ()
        either = (f"GPU-{desired.uuid}", f"MIG-{desired.uuid}")
        live = tuple(uuid for uuid in either if uuid in hardware.uuids)
        return live if len(live) == 1 else ()
    gpu = (
        hardware.by_uuid(desired.uuid)
        if desired.number is None
        else hardware.by_number(desired.number)
    )
    if gpu is None or desired.gi is None:
        return (gpu.uuid,) if gpu else ()
    return tuple(
        part.uuid for part in gpu.slices if part.gi == desired.gi and desired.ci in (None, part.ci)
    )
