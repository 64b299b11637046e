"""A GPU's devices as NVIDIA's DRA driver describes them in a ResourceSlice.

Names, attributes and capacities as dra-driver-nvidia-gpu v25.12 to v0.5 write them,
in the shape of resource.k8s.io/v1. Pure.
"""

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from simulator.gpu import Gpu, Scenario
from simulator.product import MigProfile

STANDARD = "resource.kubernetes.io"
Device = dict[str, Any]

_COUNTERS = {
    "multiprocessors": "multiprocessors",
    "copyEngines": "copy-engines",
    "decoders": "decoders",
    "encoders": "encoders",
    "jpegEngines": "jpeg-engines",
    "ofaEngines": "ofa-engines",
}
"""Capacity to the name of the counter that it is taken from."""
_FIELDS = {
    "multiprocessors": "multiprocessors",
    "copyEngines": "copy_engines",
    "decoders": "decoders",
    "encoders": "encoders",
    "jpegEngines": "jpeg_engines",
    "ofaEngines": "ofa_engines",
}
"""Capacity to the field of a `MigProfile`."""
ADDRESSING_MODE = "None"
"""What the driver makes of the simulated library's nvmlDeviceGetAddressingMode."""


class Publishing(msgspec.Struct, frozen=True, kw_only=True):
    """What is switched on in the driver."""

    numa: bool = False
    """`numaNode`, since v0.5."""
    dynamic_mig: bool = False
    """Gate DynamicMIG: every partition that could be made, without uuid, and shared counters."""
    vfio: frozenset[int] = frozenset()
    """Section numbers of the GPUs that are offered to virtual machines."""
    shares: str = ""
    """Flag of ConsumableShares: "", "memory", "unlimited", or a number of shares."""


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU with what its devices have in common."""

    number: int
    gpu: Gpu
    scenario: Scenario
    publishing: Publishing


def devices_of(described: Described) -> Iterator[Device]:
    """Yield what the driver publishes of one GPU: itself, its slices, or what it could become."""
    gpu, publishing = described.gpu, described.publishing
    if described.number in publishing.vfio:
        yield _vfio(described)
        return
    if publishing.dynamic_mig and is_divisible(gpu):
        # The scheduler takes the first that fits, and the driver sorts by name.
        yield from sorted(_dynamic(described), key=lambda device: device["name"])
        return
    if not gpu.mig:
        yield _finished(described, _shared(_full(gpu), publishing.shares))
        return
    for instance in gpu.instances:
        device = _mig(gpu, instance.profile, instance.start)
        device["attributes"]["uuid"] = _text(instance.uuid)
        places = range(instance.start, instance.start + instance.profile.size)
        device["capacity"] |= _values({f"memorySlice{place}": "1" for place in places})
        yield _finished(described, device)


def gpu_name(gpu: Gpu) -> str:
    """Return the device name of a full GPU."""
    return f"gpu-{gpu.minor}"


def mig_name(gpu: Gpu, profile: MigProfile, start: int) -> str:
    """Return the device name of a MIG slice, static or dynamic."""
    name = profile.name.lower().replace(".", "")
    name = "".join(c if c.isalnum() else "-" for c in name)
    return f"gpu-{gpu.minor}-mig-{name}-{profile.profile_id}-{start}"


def is_divisible(gpu: Gpu) -> bool:
    """Return whether partitions can be made: Ampere needs a reset to switch MIG mode on."""
    return gpu.mig or gpu.product.architecture != "Ampere"


def counter_set(gpu: Gpu) -> dict[str, Any]:
    """Return what the partitions of a GPU share with dynamic MIG."""
    return {"name": _counter_set_name(gpu), "counters": _counters(_whole(gpu), 0)}


def _counter_set_name(gpu: Gpu) -> str:
    return f"{gpu_name(gpu)}-counter-set"


def _whole(gpu: Gpu) -> MigProfile:
    """Return what the driver takes for all of the GPU: of each thing the most in any profile."""
    profiles = gpu.product.profiles
    return msgspec.structs.replace(
        profiles[0],
        **{
            name: max(getattr(profile, name) for profile in profiles)
            for name in (*_FIELDS.values(), "memory_mib", "size")
        },
    )


def _dynamic(described: Described) -> Iterator[Device]:
    gpu = described.gpu
    # Nor can it be switched off for the whole GPU.
    if not (gpu.mig and gpu.product.architecture == "Ampere"):
        whole = _whole(gpu)
        full = _full(gpu) | {"capacity": _capacity(whole)}
        yield _finished(described, full | _consumes(gpu, whole, 0))
    for profile in gpu.product.profiles:
        for start in profile.starts:
            part = _mig(gpu, profile, start)
            yield _finished(described, part | _consumes(gpu, profile, start))


def _consumes(gpu: Gpu, profile: MigProfile, start: int) -> Device:
    part = {"counterSet": _counter_set_name(gpu), "counters": _counters(profile, start)}
    return {"consumesCounters": [part]}


def _counters(profile: MigProfile, start: int) -> Device:
    engines = {counter: str(getattr(profile, _FIELDS[name])) for name, counter in _COUNTERS.items()}
    slices = {f"memory-slice-{start + i}": "1" for i in range(profile.size)}
    return _values({"memory": _quantity(profile.memory_mib), **engines, **slices})


def _capacity(profile: MigProfile) -> Device:
    engines = {name: str(getattr(profile, field)) for name, field in _FIELDS.items()}
    return _values({"memory": _quantity(profile.memory_mib), **engines})


def _full(gpu: Gpu) -> Device:
    return {
        "name": gpu_name(gpu),
        "attributes": {"type": _text("gpu"), "uuid": _text(gpu.uuid)},
        "capacity": _values({"memory": _quantity(gpu.product.memory_mib)}),
    }


def _mig(gpu: Gpu, profile: MigProfile, start: int) -> Device:
    return {
        "name": mig_name(gpu, profile, start),
        "attributes": {
            "type": _text("mig"),
            "parentUUID": _text(gpu.uuid),
            "profile": _text(profile.name),
        },
        "capacity": _capacity(profile),
    }


def _vfio(described: Described) -> Device:
    """Return a GPU for virtual machines; no driver reports its uuid, so its address gives one."""
    gpu = described.gpu
    identity = gpu.product.pci_device_id
    return {
        "name": f"gpu-vfio-{described.number}",
        "attributes": {
            "type": _text("vfio"),
            "uuid": _text(str(uuid.uuid5(uuid.NAMESPACE_DNS, gpu.pci))),
            "productName": _text(gpu.product.name),
            "deviceID": _text(f"0x{identity >> 16:04x}"),
            "vendorID": _text(f"0x{identity & 0xFFFF:04x}"),
            "iommuFDEnabled": {"bool": True},
            **_place(described),
        },
        "capacity": _values({"addressableMemory": _quantity(gpu.product.memory_mib)}),
    }


def _shared(device: Device, shares: str) -> Device:
    """ConsumableShares: the device may be given to several claims, each with its part."""
    if not shares:
        return device
    device["allowMultipleAllocations"] = True
    if shares == "memory":
        least = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Mi"}}
        device["capacity"]["memory"]["requestPolicy"] = least
    elif shares.isdecimal():
        policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
        device["capacity"]["shares"] = {"value": shares, "requestPolicy": policy}
    return device


def _finished(described: Described, device: Device) -> Device:
    gpu, scenario = described.gpu, described.scenario
    major, minor = gpu.product.cuda_capability
    cuda = f"{scenario.cuda // 1000}.{scenario.cuda % 1000 // 10}.0"
    # `580.95.05` becomes `580.95.5`: semantic versions have no leading zeros.
    driver = [str(int(part)) for part in scenario.driver.split(".") if part.isdigit()]
    device["attributes"] |= {
        "productName": _text(gpu.product.name),
        "brand": _text("Nvidia"),
        "architecture": _text(gpu.product.architecture),
        "cudaComputeCapability": {"version": f"{major}.{minor}.0"},
        "driverVersion": {"version": ".".join((*driver, "0", "0")[:3])},
        "cudaDriverVersion": {"version": cuda},
        "addressingMode": _text(ADDRESSING_MODE),
        **_place(described),
    }
    return device


def _place(described: Described) -> dict[str, Any]:
    """Return PCI and NUMA attributes; half of the GPUs are at each of two processors."""
    place: dict[str, Any] = {
        f"{STANDARD}/pciBusID": _text(described.gpu.pci),
        f"{STANDARD}/pcieRoot": _text(described.gpu.pcie_root),
    }
    if described.publishing.numa:
        half = (len(described.scenario.gpus) + 1) // 2
        place[f"{STANDARD}/numaNode"] = {"int": described.number // half}
    return place


def _values(amounts: dict[str, str]) -> dict[str, Any]:
    return {name: {"value": amount} for name, amount in amounts.items()}


def _text(value: str) -> dict[str, str]:
    return {"string": value}


def _quantity(mebibytes: int) -> str:
    whole, rest = divmod(mebibytes, 1024)
    return f"{mebibytes}Mi" if rest else f"{whole}Gi"


def without_uuids(devices: Iterable[Device], hidden: frozenset[str]) -> Iterator[Device]:
    """Take the uuid from the devices of these names, as a broken driver might."""
    for device in devices:
        if device["name"] in hidden:
            device["attributes"].pop("uuid", None)
        yield device
