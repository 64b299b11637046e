"""ResourceSlices of drivers that are not NVIDIA's, with every attribute that we read of a GPU."""

from collections.abc import Collection, Iterable, Iterator
from itertools import cycle
from typing import Any, NamedTuple

import msgspec

from exporter.model.resource_slices import ResourceSlice

Json = dict[str, Any]
DRIVERS = (
    "gpu.example.com",
    "composable.example.org",
    "gpu.amd.com",
    "compute-domain.nvidia.com",
)
TYPES = ("gpu", "mig", "vfio")
INVENTED = "GPU-0e9c2d10-1111-4222-8333-444455556666"
PCI = "resource.kubernetes.io/pciBusID"
SHARED = "rack-7"
"""A pool into which every node publishes."""


class Board(NamedTuple):
    uuid: str
    bus_id: str


def foreign_slices(
    node: str,
    boards: Iterable[Board],
    types: Collection[str] = TYPES,
    *,
    counters: bool = True,
) -> dict[str, Json]:
    """Return slices by name: of a pool of the node, of a shared pool, and of no node's pool.

    The API server takes `counters` only beside a slice that declares them.
    """
    found: dict[str, Json] = {}
    known = (*boards, Board(INVENTED, "0000:fe:00.0"))
    for driver, domain in zip(DRIVERS, cycle(("", "/")), strict=False):
        prefix = f"{driver}/" if domain else ""
        devices = [
            body
            for number, board in enumerate(known)
            for kind, body in _devices(number, board, prefix)
            if kind in types
        ]
        if not counters:
            for device in devices:
                device.pop("consumesCounters", None)
        for pool, where in (
            (node, {"nodeName": node}),
            (SHARED, {"nodeName": node}),
            (f"floating-of-{node}", {"allNodes": True}),
        ):
            name = f"{driver}-{pool}-{node}"
            found[name] = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": name},
                "spec": {
                    "driver": driver,
                    "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
                    **where,
                    "devices": devices,
                },
            }
    return found


def decoded(slices: dict[str, Json]) -> list[ResourceSlice]:
    return [msgspec.convert(body, ResourceSlice) for body in slices.values()]


def _devices(number: int, board: Board, prefix: str) -> Iterator[tuple[str, Json]]:
    """Give what names a board: whole, as a slice that is made, as one that may be, for a VM."""
    bus, old = {PCI: board.bus_id}, {"pcieBusID": board.bus_id}
    yield "gpu", _device(f"gpu-{number}", prefix, bus, type="gpu", uuid=board.uuid)
    for made in (True, False):
        uuid = {"uuid": board.uuid.replace("GPU-", "MIG-")} if made else {}
        name, texts = f"gpu-{number}-mig-1g10gb-19-{int(made)}", {"profile": "1g.10gb", **uuid}
        body = _device(name, prefix, bus, type="mig", parentUUID=board.uuid, **texts)
        counter = {f"memory-slice-{place}": {"value": "1"} for place in range(8)}
        body["consumesCounters"] = [{"counterSet": f"gpu-{number}", "counters": counter}]
        yield "mig", body
    yield "vfio", _device(f"gpu-vfio-{number}", prefix, bus, type="vfio", uuid="0a0b0c0d")
    yield "vfio", _device(f"old-{number}", prefix, old, type="vfio")


def _device(name: str, prefix: str, bus: dict[str, str], **texts: str) -> Json:
    written = {f"{prefix}{key}": text for key, text in (texts | {"productName": "H100"}).items()}
    return {
        "name": name,
        "attributes": {key: {"string": text} for key, text in (written | bus).items()},
        "capacity": {"memory": {"value": "80Gi"}},
        "allowMultipleAllocations": True,
        "taints": [{"key": "example.com/broken", "effect": "NoSchedule"}],
    }
