"""Scenario to the ResourceSlices that NVIDIA's DRA drivers would publish for it.

In the shape of resource.k8s.io/v1; `as_version` turns one into an older shape. With
static MIG, the parent of a GPU's slices is not published. Pure.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from exporter.model.device import GPU_DRIVER
from simulator.gpu import Gpu, Instance, Scenario
from simulator.slice_devices import (
    Described,
    Device,
    Publishing,
    counter_set,
    devices_of,
    gpu_name,
    is_divisible,
    without_uuids,
)
from simulator.slice_devices import mig_name as _mig_name

__all__ = ["Publishing", "as_version", "compute_domain_slices", "devices", "gpu_name"]
__all__ += ["mig_name", "other_slices", "resource_slices"]

API_VERSION = "resource.k8s.io/v1"
COMPUTE_DOMAIN_DRIVER = "compute-domain.nvidia.com"
_MAX_DEVICES = 128
"""Devices that the API allows in one slice."""
_MAX_COUNTER_SETS = 8
_AS_PUBLISHED = Publishing()


def resource_slices(
    scenario: Scenario,
    node: str,
    *,
    generation: int = 1,
    node_uid: str = "",
    without_uuid: Iterable[str] = (),
    publishing: Publishing = _AS_PUBLISHED,
) -> list[dict[str, Any]]:
    """Return the ResourceSlices of a node; the pool has the node's name.

    `without_uuid` names devices whose uuid is left out. With `node_uid` the slices
    are owned by the Node, as real ones are. With dynamic MIG there is one slice per
    GPU, after those of the shared counters.
    """
    hidden = frozenset(without_uuid)
    described = list(_described(scenario, publishing))
    if publishing.dynamic_mig:
        sets = [
            counter_set(board.gpu)
            for board in described
            if board.number not in publishing.vfio and is_divisible(board.gpu)
        ]
        parts = [
            {"sharedCounters": sets[i : i + _MAX_COUNTER_SETS]}
            for i in range(0, len(sets), _MAX_COUNTER_SETS)
        ]
        parts += [
            {"devices": list(without_uuids(devices_of(board), hidden))} for board in described
        ]
    else:
        found = list(devices(scenario, without_uuid=hidden, publishing=publishing))
        parts = _divided(found)
    return _wrapped(parts, GPU_DRIVER, node, generation=generation, node_uid=node_uid)


def compute_domain_slices(
    node: str, *, generation: int = 1, node_uid: str = ""
) -> list[dict[str, Any]]:
    """Return the slice of the other driver: an IMEX channel and a daemon, no GPU."""
    found = [
        {"name": f"{kind}-0", "attributes": {"type": {"string": kind}, "id": {"int": 0}}}
        for kind in ("channel", "daemon")
    ]
    parts = _divided(found)
    return _wrapped(parts, COMPUTE_DOMAIN_DRIVER, node, generation=generation, node_uid=node_uid)


def other_slices(
    driver: str, node: str, found: Sequence[Device], *, generation: int = 1, pool: str = ""
) -> list[dict[str, Any]]:
    """Return the ResourceSlices of any other driver with these devices."""
    return _wrapped(_divided(list(found)), driver, node, generation=generation, pool=pool)


def _divided(found: list[Device]) -> list[dict[str, Any]]:
    return [
        {"devices": found[i : i + _MAX_DEVICES]} for i in range(0, len(found), _MAX_DEVICES)
    ] or [{"devices": []}]


def _wrapped(
    parts: Sequence[dict[str, Any]],
    driver: str,
    node: str,
    *,
    generation: int,
    node_uid: str = "",
    pool: str = "",
) -> list[dict[str, Any]]:
    shared = {"name": pool or node, "generation": generation, "resourceSliceCount": len(parts)}
    wrapped: list[dict[str, Any]] = []
    for index, part in enumerate(parts):
        suffix = hashlib.sha256(f"{node}/{index}".encode()).hexdigest()[:5]
        metadata: dict[str, Any] = {"name": f"{index:05x}-{driver}-{node}-{suffix}"}
        if node_uid:
            owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
            metadata["ownerReferences"] = [{**owner, "controller": True}]
        spec = {"driver": driver, "nodeName": node, "pool": dict(shared), **part}
        kind = {"apiVersion": API_VERSION, "kind": "ResourceSlice"}
        wrapped.append({**kind, "metadata": metadata, "spec": spec})
    return wrapped


def devices(
    scenario: Scenario,
    *,
    without_uuid: Iterable[str] = (),
    publishing: Publishing = _AS_PUBLISHED,
) -> Iterator[Device]:
    """Yield the devices of all GPUs; a MIG GPU gives its slices, or nothing."""
    for described in _described(scenario, publishing):
        yield from without_uuids(devices_of(described), frozenset(without_uuid))


def _described(scenario: Scenario, publishing: Publishing) -> Iterator[Described]:
    for number, gpu in enumerate(scenario.gpus):
        yield Described(number=number, gpu=gpu, scenario=scenario, publishing=publishing)


def mig_name(gpu: Gpu, instance: Instance) -> str:
    """Return the device name of a MIG slice that exists."""
    return _mig_name(gpu, instance.profile, instance.start)


def as_version(slice_: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a v1 slice in the shape of v1beta2 (the same) or v1beta1 (one level deeper)."""
    spec = dict(slice_["spec"])
    if version == "v1beta1" and "devices" in spec:
        spec["devices"] = [
            {"name": device["name"], "basic": {k: v for k, v in device.items() if k != "name"}}
            for device in spec["devices"]
        ]
    return {**slice_, "apiVersion": f"resource.k8s.io/{version}", "spec": spec}
