"""A drawn cluster on the real control plane, with a pod that uses all claims that wait there."""

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

from allocation.layers.explanation import Known
from allocation.model.pods import AFFINITY
from allocation.remedies import Change
from draguard.cluster.listing import ignored
from draguard.cluster.waiting import WaitingReader
from kubeapi.client import ApiError
from simulator.cluster.workloads import pod, pod_spec
from tests.allocation.clusters import cluster as drawn
from tests.lab.cluster import NODES, RULES, SLICES, Cluster, Json

NAMESPACE = "drawn"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
PLACED = "placed"
RESERVED: Json = {"key": "team/reserved", "value": "b", "effect": "NoSchedule"}
GATE: Json = {"name": "draguard.dev/explained-first"}
_REFUSALS = frozenset({400, 422})


class NotTakenError(Exception):
    """The API server refuses an object of the cluster."""


class DrawnCluster:
    """All of it is stored, and its pod waits behind a gate. Raises NotTakenError."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._player, self._client = cluster.player, cluster.client
        draw = Random(seed)  # noqa: S311 - drawn again from its seed, not secret
        self._pod, given = f"s{seed}", _with_names(drawn(seed), f"s{seed}")
        self._waiting: list[Json] = given["waiting"]
        self._placement = _placement(draw)
        rules = list(_rules(given["slices"]))
        try:
            for claim in given["claims"]:
                self._allocate(claim)
            for each in given["slices"]:
                self._client.create(SLICES, each)
            for rule in rules:
                self._client.create(RULES, rule)
            for node in given["nodes"]:
                self._add_node(node["metadata"], draw)
            self._start(schedulingGates=[GATE])
        except ApiError as error:
            if error.status not in _REFUSALS:
                raise
            raise NotTakenError(str(error)) from error

    def known(self) -> Known:
        """Read what `draguard why` reads of the pod."""
        return WaitingReader(self._client, NAMESPACE, ignored).pod(self._pod)

    def open_gate(self) -> None:
        self._client.merge_patch(f"{PODS}/{self._pod}", {"spec": {"schedulingGates": None}})

    def decision(self) -> str:
        """Return PLACED, or why the scheduler refuses the pod; "": it has not decided yet.

        A pod that waits for a condition of its devices has them already.
        """
        found = self._get(f"{PODS}/{self._pod}")
        names = [claim["metadata"]["name"] for claim in self._waiting]
        statuses = [self._get(f"{CLAIMS}/{name}").get("status", {}) for name in names]
        if found["spec"].get("nodeName") or all("allocation" in each for each in statuses):
            return PLACED
        for each in found["status"].get("conditions", ()):
            if each["type"] == "PodScheduled" and each["reason"] != "SchedulingGated":
                return each["message"]
        return ""

    def apply(self, change: Change) -> None:
        """Do what is offered: to what is stored, or by another pod with claims of its own."""
        match change.what:
            case "Free":
                self._client.delete(f"{CLAIMS}/{change.which.partition('/')[2]}")
            case "RemoveRule":
                self._client.delete(f"{RULES}/{change.which}")
            case "Untaint":
                self._untaint(change.which)
            case "Uncordon":
                path = f"{NODES}/{change.which}"
                self._client.merge_patch(path, {"spec": {"unschedulable": False}})
            case _:
                self._client.delete(f"{PODS}/{self._pod}", {"gracePeriodSeconds": 0})
                self._change_request(change)
                self._pod += "-again"
                for claim in self._waiting:
                    claim["metadata"]["name"] += "-again"
                self._start()

    def _get(self, path: str) -> Json:
        return msgspec.json.decode(self._client.get(path), type=dict[str, Any])

    def _allocate(self, claim: Json) -> None:
        """Store a claim that has a device; its status is a second request."""
        name, status = claim["metadata"]["name"], claim["status"]
        (result,) = status["allocation"]["devices"]["results"]
        exactly = {"deviceClassName": "any", "adminAccess": result.get("adminAccess")}
        spec = {"devices": {"requests": [{"name": result["request"], "exactly": exactly}]}}
        self._client.create(CLAIMS, {"metadata": {"name": name}, "spec": spec})
        self._client.merge_patch(f"{CLAIMS}/{name}/status", {"status": status})

    def _add_node(self, metadata: Json, draw: Random) -> None:
        self._player.add_node(metadata["name"], metadata["labels"])
        spec = {
            "unschedulable": draw.random() < 0.15,
            "taints": [RESERVED] if draw.random() < 0.15 else [],
        }
        self._client.merge_patch(f"{NODES}/{metadata['name']}", {"spec": spec})

    def _start(self, **fields: Any) -> None:
        """Create the claims that wait, and the pod."""
        names = [claim["metadata"]["name"] for claim in self._waiting]
        for name, claim in zip(names, self._waiting, strict=True):
            self._client.create(CLAIMS, {"metadata": {"name": name}, "spec": claim["spec"]})
        spec = pod_spec() | self._placement | fields
        spec["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in names]
        spec["containers"][0]["resources"]["claims"] = [{"name": name} for name in names]
        self._client.create(PODS, pod(self._pod, spec))

    def _untaint(self, which: str) -> None:
        """Take a taint from one device, as its driver does when that is repaired."""
        key, _, name = which.partition(" of ")
        for each in self._get(SLICES)["items"]:
            spec = each["spec"]
            for device in spec.get("devices", ()):
                if f"{spec['driver']}/{spec['pool']['name']}/{device['name']}" == name:
                    taints = device.pop("taints", ())
                    device["taints"] = [taint for taint in taints if taint["key"] != key]
            self._client.replace(f"{SLICES}/{each['metadata']['name']}", each)

    def _change_request(self, change: Change) -> None:
        """Change what the claims that wait request, or which nodes the pod may have."""
        which = change.which
        match change.what:
            case "DropSelector":
                for _, choice in self._choices():
                    kept = choice.get("selectors", [])
                    choice["selectors"] = [x for x in kept if x["cel"]["expression"] != which]
            case "OneDevice":
                for name, choice in self._choices():
                    if name == which and "count" in choice:
                        choice["count"] = 1
            case "DropConstraint":
                for claim in self._waiting:
                    devices = claim["spec"]["devices"]
                    kept = devices["constraints"]
                    devices["constraints"] = [x for x in kept if which not in x.values()]
            case "Tolerate":
                keys = which.partition(" of node ")[0].split(", ")
                self._placement["tolerations"] = [{"key": x, "operator": "Exists"} for x in keys]
            case "DropNodeSelector":
                del self._placement["affinity" if AFFINITY in which else "nodeSelector"]
            case _:
                raise NotImplementedError(change.what)

    def _choices(self) -> Iterator[tuple[str, Json]]:
        """Yield each choice of each request, with the request's name as `explain` writes it."""
        for claim in self._waiting:
            for request in claim["spec"]["devices"]["requests"]:
                name = f"{NAMESPACE}/{claim['metadata']['name']}/{request['name']}"
                for choice in request.get("firstAvailable") or (request["exactly"],):
                    yield name, choice


def _with_names(given: Json, prefix: str) -> Json:
    """Return a cluster with names of its own.

    The scheduler has a device that waits for a condition in mind for 5 s after its pod is gone.
    """
    text = msgspec.json.encode(given).decode()
    for name in ("node-", 'nics"', "claim-", "held-"):
        text = text.replace(f'"{name}', f'"{prefix}-{name}')
    return msgspec.json.decode(text)


def _placement(draw: Random) -> Json:
    """Return what a pod says of nodes."""
    spec: Json = {}
    if draw.random() < 0.2:
        spec["nodeSelector"] = {"zone": "a"}
    if draw.random() < 0.1:
        requirement = {"key": "gen", "operator": "Gt", "values": ["1"]}
        required = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        spec["affinity"] = {"nodeAffinity": affinity}
    if draw.random() < 0.1:
        spec["tolerations"] = [{"key": RESERVED["key"], "operator": "Exists"}]
    return spec


def _rules(slices: list[Json]) -> Iterator[Json]:
    """Take the taints of rules out of slices; yield a rule for each."""
    for number, (spec, device) in enumerate(
        (each["spec"], device) for each in slices for device in each["spec"].get("devices", ())
    ):
        taints = device.get("taints", [])
        if taints and "rule" in taints[0]:
            (taint,) = device.pop("taints")
            name = f"{taint.pop('rule')}-{number}"
            where = {"driver": spec["driver"], "pool": spec["pool"]["name"]}
            selector = {**where, "device": device["name"]}
            yield {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}
