"""Pods, claims and slices in a few words, and what is explained of them."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from allocation.answers import Answers, Evaluate
from allocation.layers.explanation import Explanation, Inventory, Known, explain
from allocation.model.claims import (
    Claim,
    DeviceClass,
)
from allocation.model.nodes import Node
from allocation.model.pods import Pod
from allocation.model.slices import ResourceSlice
from tests.allocation.builders import (
    DRIVER,
    Json,
    device,
    evaluate,
    in_slice,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
GPU, NIC = "nvidia.com/gpu", "example.com/nic"
GPU_CLASS = msgspec.convert(
    {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}}, DeviceClass
)
NODES = (Node("node-a"), Node("node-b"))
ERROR: Json = {
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}]
}
"""Of a pod on which the scheduler has failed."""


def pod(*claims: str, gpus: int = 0, message: str = "", **fields: Any) -> Pod:
    """Return a pod that waits with these claims, and this many of nvidia.com/gpu."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message or "0/2 nodes are available: 2 cannot allocate all claims.",
    }
    spec: Json = {
        "resourceClaims": [{"name": name, "resourceClaimName": name} for name in claims],
        "containers": [{"name": "main", "resources": {"requests": {GPU: str(gpus)}}}],
    }
    metadata = {"name": "train", "namespace": "team", "uid": "1"}
    status = {"phase": "Pending", "conditions": [condition]}
    status |= fields.pop("status", {})
    return msgspec.convert({"metadata": metadata, "spec": spec | fields, "status": status}, Pod)


def claim_on_node(name: str, node: str, **fields: Any) -> Claim:
    """Return a claim that has gpu-0 of a node."""
    result = {"driver": DRIVER, "pool": node, "device": "gpu-0", **fields}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [term]},
    }
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "team"}, "status": {"allocation": allocation}},
        Claim,
    )


def gpus(node: str, number: int = 1, **fields: Any) -> ResourceSlice:
    devices = [device(f"gpu-{n}", **fields) for n in range(number)]
    return in_slice(*devices, pool=node, nodeName=node)


def explanation(
    of: Pod | None,
    *claims: Claim,
    slices: tuple[ResourceSlice, ...] = (gpus("node-a"), gpus("node-b")),
    others: tuple[Claim, ...] = (),
    nodes: tuple[Node, ...] = NODES,
    used: dict[str, dict[str, int]] | None = None,
    by: Evaluate = evaluate,
    **fields: Any,
) -> Explanation:
    stock = Inventory(
        slices=slices, classes=(GPU_CLASS,), claims=(*claims, *others), nodes=nodes, used=used
    )
    return explain(Known(at=NOW, pod=of, claims=claims, inventory=stock, **fields), Answers(by))


def changes(found: Explanation) -> list[tuple[str, str]]:
    return [(each.what, each.which) for each in found.changes]
