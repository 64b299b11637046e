"""What a GPU, a MIG slice and a DRA device are called.

Every other module takes these values as they are; none parses a UUID, a bus id
or a device name again. Pure: no client, no clock, no OS.
"""

import re

import msgspec

GPU_DRIVER = "gpu.nvidia.com"
"""DRA driver name under which NVIDIA publishes full GPUs, MIG slices and VFIO devices."""

_BUS_ID = re.compile(
    r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<slot>[0-9a-f]{2})(?:\.[0-7])?",
    re.IGNORECASE,
)


class Device(msgspec.Struct, frozen=True, order=True):
    """A device as DRA names it, and as a DeviceTaintRule selects it.

    The name is not the hardware: after a reboot or a swapped board the same
    triple may mean another GPU. Keep the UUID beside it.
    """

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class Instance(msgspec.Struct, frozen=True, order=True):
    """The part of a MIG GPU that an error belongs to.

    `gi` is the GPU instance id and `ci` the compute instance id inside it, both
    NVML's. DCGM counts them differently: never join by its numbers.
    """

    gi: int
    ci: int | None = None


NO_INSTANCE_ID = 0xFFFFFFFF
"""NVML's "not attributable to an instance" in event data (nvml.h, nvmlEventData_t)."""


def instance_of(gi: int, ci: int) -> Instance | None:
    """Turn the two ids of an NVML event into an instance, None when it names none."""
    if gi == NO_INSTANCE_ID:
        return None
    return Instance(gi, None if ci == NO_INSTANCE_ID else ci)


def normal_bus_id(text: str) -> str | None:
    """Bring a PCI address to the kernel's form `dddd:bb:dd.0`, lower case.

    NVML prints eight digits of domain, the kernel log four and sometimes no
    function, ResourceSlices four and a function. None when it is not an address.
    """
    found = _BUS_ID.fullmatch(text.strip())
    if found is None:
        return None
    domain = int(found["domain"] or "0", 16)
    return f"{domain:04x}:{found['bus']}:{found['slot']}.0".lower()
