"""Short ways to write down pods, claims and what is known of a cluster."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from allocation.answers import Answers
from allocation.explainer.findings import Findings, Look, Snapshot
from allocation.layers.explanation import Inventory
from allocation.model.claims import Claim
from allocation.model.events import Event
from allocation.model.nodes import Node
from allocation.model.pods import Pod
from allocation.model.slices import ResourceSlice
from exporter.model.device import Device
from tests.allocation.builders import CLASSES, DRIVER, Json, device, evaluate, in_slice, request

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def text(seconds: float) -> str:
    return at(seconds).isoformat().replace("+00:00", "Z")


def pod(
    name: str = "train",
    claim: str = "job",
    *,
    node: str = "",
    phase: str = "Pending",
    namespace: str = "team",
    created: float = 0,
    **spec: Any,
) -> Pod:
    """Return a pod with a claim; without a node, the scheduler has refused it."""
    scheduled = REFUSED if not node else {"type": "PodScheduled", "status": "True"}
    condition = {**scheduled, "lastTransitionTime": text(created)}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": text(created),
    }
    claims = [{"name": "gpu", "resourceClaimName": claim}] if claim else []
    body: Json = {
        "metadata": metadata,
        "spec": {"nodeName": node, "resourceClaims": claims, **spec},
        "status": {"phase": phase, "conditions": [condition]},
    }
    return msgspec.convert(body, Pod)


def claim(
    name: str = "job",
    device_name: str = "",
    *,
    count: int = 1,
    namespace: str = "team",
    reserved: Iterable[Pod] = (),
    created: float = 0,
    allocated: float | None = None,
    on: str = "",
    **metadata: Any,
) -> Claim:
    """Return a claim for gpus; with a device of node-a it is allocated, there or `on` a node."""
    status: Json = {
        "reservedFor": [
            {"resource": "pods", "name": each.metadata.name, "uid": each.metadata.uid}
            for each in reserved
        ]
    }
    if device_name:
        result = {"driver": DRIVER, "pool": "node-a", "device": device_name, "request": "r"}
        status["allocation"] = {"devices": {"results": [result]}}
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}
        if on:
            status["allocation"] |= {"nodeSelector": {"nodeSelectorTerms": [term]}}
        if allocated is not None:
            status["allocation"] |= {"allocationTimestamp": text(allocated)}
    body: Json = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "creationTimestamp": text(created),
            **metadata,
        },
        "spec": {"devices": {"requests": [request(count=count)]}},
        "status": status,
    }
    return msgspec.convert(body, Claim)


class NoRemarks:
    """Nothing is read of a pod, and every template exists."""

    def __init__(self, *events: Event) -> None:
        self._events = events

    def templates(self, pod: Pod, claims: Collection[str]) -> Mapping[str, bool] | None:
        return dict.fromkeys(pod.templates_due(claims).values(), True)

    def events(self, pod: Pod) -> tuple[Event, ...]:  # noqa: ARG002 - all pods alike
        return self._events


def snapshot(
    pods: Iterable[Pod] = (),
    claims: Iterable[Claim] = (),
    *,
    gpus: int = 1,
    version: int = 1,
    seconds: float = 100,
    slices: tuple[ResourceSlice, ...] | None = None,
    incidents: dict[Device, str] | None = None,
    unreadable: str = "",
) -> Snapshot:
    claims = tuple(claims)
    devices = in_slice(*[device(f"gpu-{n}") for n in range(gpus)])
    return Snapshot(
        at=at(seconds),
        version=version,
        pods={f"{each.metadata.namespace}/{each.metadata.name}": each for each in pods},
        claims={each.key: each for each in claims},
        inventory=Inventory(
            slices=(devices,) if slices is None else slices,
            classes=tuple(CLASSES.values()),
            claims=claims,
            nodes=(Node("node-a"),),
        ),
        incidents=incidents or {},
        unreadable=unreadable,
    )


def look(
    given: Snapshot,
    findings: Findings | None = None,
    *,
    budget: float = 60,
    remarks: NoRemarks | None = None,
) -> Look:
    findings = findings or Findings(lambda: 0.0)
    return findings.look(given, Answers(evaluate), remarks or NoRemarks(), budget)
