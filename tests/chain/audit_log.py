"""What an API server did, by its own audit log: a source that misses nothing between two looks."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from remediator.model.node import REPAIR_NEEDED

UUID = "draguard.dev/uuid"
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete]
  resources:
  - {group: resource.k8s.io, resources: [devicetaintrules, resourceclaims, resourceclaims/status]}
  - {group: "", resources: [pods, pods/eviction, nodes/status]}
- level: None
"""
_OWNER = "/replicaset-controller"
"""Makes a pod once more when the answer to it was lost with a server, and takes one away then."""
Json = dict[str, Any]


class RuleWrite(NamedTuple):
    """A DeviceTaintRule was stored (`effect`), or deleted (`effect` "")."""

    at: datetime
    device: str
    effect: str
    uuid: str = ""
    """Hardware for which it stood, by the rule's own label."""


class Eviction(NamedTuple):
    """Somebody other than its node had a pod deleted."""

    at: datetime
    pod: str
    by: str


class Tenancy(NamedTuple):
    """A pod, by UID, was given a device (`pool/device`)."""

    since: datetime
    device: str
    tolerates: bool = False
    """Its claim tolerates taints."""


class RepairCall(NamedTuple):
    """A Node was written that requests its own repair."""

    at: datetime
    node: str
    message: str


class Done(NamedTuple):
    """All that was done to a cluster."""

    rules: Sequence[RuleWrite] = ()
    tenancies: Mapping[str, Tenancy] = {}
    evictions: Sequence[Eviction] = ()
    calls: Sequence[RepairCall] = ()


class _Ref(msgspec.Struct, frozen=True):
    resource: str
    name: str = ""
    subresource: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    verb: str
    user_agent: str
    stage_timestamp: datetime
    object_ref: _Ref
    response_status: _Status = _Status()
    request_object: Json = {}
    response_object: Json = {}


def flags(folder: Path) -> list[str]:
    """Return flags for a kube-apiserver that keeps the log in `folder`."""
    policy = folder / "audit-policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    return [f"--audit-policy-file={policy}", f"--audit-log-path={folder / 'audit.log'}"]


class AuditLog:
    """Reads the log in a folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "audit.log"

    def done(self) -> Done:
        return Done(self.rules(), self.tenancies(), self.evictions(), self.repair_calls())

    def rules(self) -> list[RuleWrite]:
        """Return each accepted write of a rule, in order."""
        stored: dict[str, RuleWrite] = {}
        found: list[RuleWrite] = []
        for entry in self._entries("devicetaintrules"):
            name = entry.object_ref.name
            if entry.verb != "delete":
                spec = entry.response_object["spec"]
                selector, effect = spec["deviceSelector"], spec["taint"]["effect"]
                meta = entry.response_object["metadata"]
                device = f"{selector['pool']}/{selector['device']}"
                uuid = meta.get("labels", {}).get(UUID, "")
                stored[meta["name"]] = RuleWrite(entry.stage_timestamp, device, effect, uuid)
                found.append(stored[meta["name"]])
            else:
                gone = stored.get(name, RuleWrite(entry.stage_timestamp, name, ""))
                found.append(gone._replace(at=entry.stage_timestamp, effect=""))
        return found

    def tenancies(self) -> dict[str, Tenancy]:
        """Return where each pod ran, by its UID."""
        found: dict[str, Tenancy] = {}
        for entry in self._entries("resourceclaims"):
            status = entry.response_object.get("status", {})
            results = status.get("allocation", {}).get("devices", {}).get("results", [])
            pods: list[Json] = status.get("reservedFor", []) if results else []
            for pod in pods:
                device = f"{results[0]['pool']}/{results[0]['device']}"
                tolerates = bool(results[0].get("tolerations"))
                found.setdefault(pod["uid"], Tenancy(entry.stage_timestamp, device, tolerates))
        return found

    def repair_calls(self) -> list[RepairCall]:
        """Return each write of a Node with a condition that requests a repair, in order."""
        return [
            RepairCall(entry.stage_timestamp, entry.object_ref.name, condition["message"])
            for entry in self._entries("nodes")
            for condition in entry.response_object.get("status", {}).get("conditions", [])
            if (condition["type"], condition["status"]) == (REPAIR_NEEDED, "True")
        ]

    def evictions(self) -> list[Eviction]:
        """Return each accepted deletion of a pod by anybody but its node and owner, in order."""
        return [
            Eviction(
                entry.stage_timestamp, entry.response_object["metadata"]["uid"], entry.user_agent
            )
            for entry in self._entries("pods")
            if entry.verb == "delete"
            and entry.request_object.get("gracePeriodSeconds") != 0
            and not entry.user_agent.endswith(_OWNER)
        ]

    def _entries(self, resource: str) -> Iterator[_Entry]:
        with self._file.open("rb") as lines:
            for line in lines:
                try:
                    one = msgspec.json.decode(line, type=_Entry)
                except msgspec.DecodeError:
                    continue  # the server was killed in the middle of it
                if one.object_ref.resource == resource and one.response_status.code < 300:
                    yield one
