"""Short ways to write down slices, claims and a cluster."""

from collections.abc import Sequence
from typing import Any

import msgspec

from allocation.answers import Answers
from allocation.candidates import Selection, candidates
from allocation.model.claims import Claim, DeviceClass, Request
from allocation.model.nodes import Node
from allocation.model.slices import PublishedDevice, ResourceSlice
from allocation.pools import Published
from allocation.reasons import Candidate, Outcome
from allocation.search import Cluster, allocate
from allocation.selectors.answers import MATCHES, NO_MATCH, Answer, fails, not_evaluated
from allocation.selectors.device import SelectedDevice
from allocation.usage import Usage
from kubeapi.types import ObjectMeta

DRIVER, NODE = "gpu.nvidia.com", Node("node-a", {"zone": "a"})
CLASSES = {"gpu": DeviceClass(ObjectMeta(name="gpu"))}
Json = dict[str, Any]


def device(name: str, **fields: Any) -> Json:
    return {"name": name, **fields}


def in_slice(
    *devices: Json,
    name: str = "",
    pool: str = "node-a",
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> ResourceSlice:
    """Return a slice of node-a, or of `spec`."""
    where = spec if {"allNodes", "nodeSelector", "perDeviceNodeSelection"} & spec.keys() else {}
    placed = where or {"nodeName": "node-a"}
    of_pool = {"name": pool, "generation": generation, "resourceSliceCount": count}
    full = {"driver": DRIVER, "pool": of_pool, "devices": devices, **placed, **spec}
    return msgspec.convert(
        {"metadata": {"name": name or f"{pool}-{generation}"}, "spec": full}, ResourceSlice
    )


def published(**fields: Any) -> PublishedDevice:
    return msgspec.convert(device("gpu-0", **fields), PublishedDevice)


def request(name: str = "r", **fields: Any) -> Json:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def waiting(*requests: Json, constraints: Sequence[Json] = (), name: str = "job") -> Claim:
    devices = {"requests": requests or (request(),), "constraints": constraints}
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "team"}, "spec": {"devices": devices}}, Claim
    )


def has(name: str, claim: str = "other", **fields: Any) -> Claim:
    """Return a claim that has a device of node-a."""
    result = {"driver": DRIVER, "pool": "node-a", "device": name, **fields}
    status = {"allocation": {"devices": {"results": [result]}}}
    return msgspec.convert(
        {"metadata": {"name": claim, "namespace": "team"}, "status": status}, Claim
    )


def cluster(slices: Sequence[ResourceSlice], *claims: Claim) -> Cluster:
    return Cluster(Published(slices), Usage.of(claims), CLASSES)


def evaluate(expression: str, devices: Sequence[SelectedDevice]) -> list[Answer]:
    """Answer as the expression says: `fails`, `unknown`, or an attribute and its value."""
    match expression:
        case "fails":
            return [fails("no such key")] * len(devices)
        case "unknown":
            return [not_evaluated("a function that is not known")] * len(devices)
        case _:
            name, _, value = expression.partition(":")
            return [MATCHES if each.attributes.get(name) == value else NO_MATCH for each in devices]


def outcome(given: Cluster, *claims: Claim, node: Node = NODE) -> Outcome:
    return allocate(claims, node, given, Answers(evaluate))


def names(found: Outcome) -> list[str]:
    return [each.device for _, _, each in found.devices]


def why(given: Cluster, claim: Claim, node: Node = NODE) -> dict[str, list[tuple[str, ...]]]:
    """Return for each device why the first request of a claim cannot have it."""
    (first, *_) = claim.spec.devices.requests
    found = seen(given, first, claim, node)
    return {
        each.device.device: [(one.why, one.what, *one.by) for one in each.reasons] for each in found
    }


def seen(given: Cluster, requested: Request, claim: Claim, node: Node) -> list[Candidate]:
    selection = Selection(requested.name, requested.choices[0], CLASSES["gpu"], Answers(evaluate))
    pools = given.published.pools_of(node)
    return candidates(selection, pools, node, given.usage, claim.spec.devices.constraints)
