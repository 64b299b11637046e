"""What a GPU, a MIG slice and a DRA device are called.

Every other module takes these values as they are; none parses a UUID, a bus id
or a device name again. Pure: no client, no clock, no OS.
"""

import re
from collections.abc import Iterable

import msgspec

GPU_DRIVER = "gpu.nvidia.com"
"""DRA driver name under which NVIDIA publishes full GPUs, MIG slices and VFIO devices."""

GpuDrivers = frozenset[str]
"""The DRA drivers whose devices are NVIDIA's GPUs. A device of any other driver is *foreign*."""
NVIDIAS: GpuDrivers = frozenset({GPU_DRIVER})
"""compute-domain.nvidia.com publishes channels and daemons, and no GPU."""

_DRIVER_NAME = re.compile(
    r"(?=.{1,63}$)[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*"
)
"""As Kubernetes validates the name of a DRA driver: in lower case. It stores what was written."""

_BUS_ID = re.compile(
    r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<slot>[0-9a-f]{2})(?:\.[0-7])?",
    re.IGNORECASE,
)


def driver_names(names: Iterable[str]) -> GpuDrivers:
    """Return those that are names of DRA drivers."""
    return frozenset(name.strip() for name in names if _DRIVER_NAME.fullmatch(name.strip()))


def gpu_drivers(names: Iterable[str]) -> GpuDrivers:
    """Read a list of drivers. Raises ValueError, with what to write instead."""
    given = tuple(names)
    found = driver_names(given)
    wrong = sorted({name.strip() for name in given} - found)
    if wrong or not found:
        refused = ", ".join(map(repr, wrong)) or "nothing"
        raise ValueError(
            f"takes names of DRA drivers with commas between, such as {GPU_DRIVER}, not {refused}"
        )
    return found


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
