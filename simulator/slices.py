"""Scenario to the ResourceSlices that NVIDIA's DRA driver would publish for it.

Names, attributes and capacities as dra-driver-nvidia-gpu v25.12 writes them for
full GPUs and static MIG, in the shape of resource.k8s.io/v1. With MIG on, the
parent is not published. Pure.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from exporter.device import GPU_DRIVER
from simulator.gpu import Gpu, Instance, Scenario

API_VERSION = "resource.k8s.io/v1"
_STANDARD = "resource.kubernetes.io"
_MAX_DEVICES = 128
"""Devices that the API allows in one slice."""


def resource_slices(
    scenario: Scenario,
    node: str,
    *,
    generation: int = 1,
    node_uid: str = "",
    without_uuid: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Return the ResourceSlices of a node; the pool has the node's name.

    `without_uuid` names devices whose uuid is left out, as a broken driver
    might. With `node_uid` the slices are owned by the Node, as real ones are.
    """
    found = list(devices(scenario, without_uuid=without_uuid))
    parts = [found[i : i + _MAX_DEVICES] for i in range(0, len(found), _MAX_DEVICES)] or [[]]
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "ResourceSlice",
            "metadata": _metadata(index, node, node_uid),
            "spec": {
                "driver": GPU_DRIVER,
                "nodeName": node,
                "pool": {
                    "name": node,
                    "generation": generation,
                    "resourceSliceCount": len(parts),
                },
                "devices": part,
            },
        }
        for index, part in enumerate(parts)
    ]


def _metadata(index: int, node: str, node_uid: str) -> dict[str, Any]:
    suffix = hashlib.sha256(f"{node}/{index}".encode()).hexdigest()[:5]
    metadata: dict[str, Any] = {"name": f"{index:05x}-{GPU_DRIVER}-{node}-{suffix}"}
    if node_uid:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    return metadata


def devices(scenario: Scenario, *, without_uuid: Iterable[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the devices of all GPUs; a MIG GPU gives its slices, or nothing."""
    hidden = frozenset(without_uuid)
    for gpu in scenario.gpus:
        parts = map(_mig, [gpu] * len(gpu.instances), gpu.instances) if gpu.mig else [_full(gpu)]
        for device in parts:
            device["attributes"].update(_common(scenario, gpu))
            if device["name"] in hidden:
                del device["attributes"]["uuid"]
            yield device


def gpu_name(gpu: Gpu) -> str:
    """Return the device name of a full GPU."""
    return f"gpu-{gpu.minor}"


def mig_name(gpu: Gpu, instance: Instance) -> str:
    """Return the device name of a MIG slice."""
    profile = instance.profile.name.lower().replace(".", "")
    profile = "".join(c if c.isalnum() else "-" for c in profile)
    return f"gpu-{gpu.minor}-mig-{profile}-{instance.profile.profile_id}-{instance.start}"


def _full(gpu: Gpu) -> dict[str, Any]:
    return {
        "name": gpu_name(gpu),
        "attributes": {"type": _text("gpu"), "uuid": _text(gpu.uuid)},
        "capacity": {"memory": {"value": _quantity(gpu.product.memory_mib)}},
    }


def _mig(gpu: Gpu, instance: Instance) -> dict[str, Any]:
    profile = instance.profile
    counts = {
        "multiprocessors": profile.multiprocessors,
        "copyEngines": profile.copy_engines,
        "decoders": profile.decoders,
        "encoders": profile.encoders,
        "jpegEngines": profile.jpeg_engines,
        "ofaEngines": profile.ofa_engines,
        **{f"memorySlice{instance.start + i}": 1 for i in range(profile.size)},
    }
    return {
        "name": mig_name(gpu, instance),
        "attributes": {
            "type": _text("mig"),
            "uuid": _text(instance.uuid),
            "parentUUID": _text(gpu.uuid),
            "profile": _text(profile.name),
        },
        "capacity": {
            "memory": {"value": _quantity(profile.memory_mib)},
            **{name: {"value": str(count)} for name, count in counts.items()},
        },
    }


def _common(scenario: Scenario, gpu: Gpu) -> dict[str, Any]:
    major, minor = gpu.product.cuda_capability
    cuda = f"{scenario.cuda // 1000}.{scenario.cuda % 1000 // 10}.0"
    domain, bus, _ = gpu.pci.split(":")
    return {
        "productName": _text(gpu.product.name),
        "brand": _text("Nvidia"),
        "architecture": _text(gpu.product.architecture),
        "cudaComputeCapability": {"version": f"{major}.{minor}.0"},
        "driverVersion": {"version": _semver(scenario.driver)},
        "cudaDriverVersion": {"version": cuda},
        "addressingMode": _text("HMM"),
        f"{_STANDARD}/pciBusID": _text(gpu.pci),
        f"{_STANDARD}/pcieRoot": _text(f"pci{domain}:{max(int(bus, 16) - 1, 0):02x}"),
    }


def _text(value: str) -> dict[str, str]:
    return {"string": value}


def _semver(version: str) -> str:
    """`580.95.05` is `580.95.5`: semantic versions have no leading zeros."""
    parts = [str(int(part)) for part in version.split(".") if part.isdigit()]
    return ".".join((*parts, "0", "0")[:3])


def _quantity(mebibytes: int) -> str:
    whole, rest = divmod(mebibytes, 1024)
    return f"{mebibytes}Mi" if rest else f"{whole}Gi"
