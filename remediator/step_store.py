"""What the API server would store after the steps of plans, in memory.

`policy explain`, the replay and the tests make a plan, take its steps here, and plan again from
what is stored then. A write that the API server would refuse raises ConflictError and changes
nothing. Pure.
"""

from datetime import datetime

import msgspec

from exporter.model.device import Device
from kubeapi.types import ObjectMeta
from remediator.model.incident import Incident
from remediator.model.incident_status import AffectedPod
from remediator.model.node import NodeCondition
from remediator.model.taint_rule import Rule
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteEdited,
    DeleteIncident,
    DeleteReport,
    DeleteRule,
    EvictPod,
    OpenIncident,
    Step,
    WriteNodeConditions,
    WriteStatus,
)


class ConflictError(RuntimeError):
    """The API server would refuse this write: it was planned on what is no longer stored."""


class StepStore:
    def __init__(self) -> None:
        self.rules: dict[Device, Rule] = {}
        self.incidents: dict[str, Incident] = {}
        self.evicted: list[AffectedPod] = []
        self.conditions: dict[str, NodeCondition] = {}
        """The Node's conditions, by type."""
        self._version = 0

    def take(self, step: Step, now: datetime) -> None:
        """Do one step. Raises ConflictError."""
        match step:
            case OpenIncident(incident):
                self._open(incident, now)
            case WriteStatus(incident, status):
                stored = self._unchanged_incident(incident)
                self.put_incident(msgspec.structs.replace(stored, status=status))
            case CreateRule(rule):
                self._create_rule(rule, now)
            case ChangeRule(read, rule):
                stored = self._unchanged_rule(read)
                dated = stored.time_added if stored.effect == rule.effect else now
                self._put_rule(rule, stored.uid, dated)
            case DeleteRule(read):
                del self.rules[self._unchanged_rule(read).device]
            case DeleteIncident(incident):
                del self.incidents[self._unchanged_incident(incident).name]
            case DeleteReport() | DeleteEdited():
                pass  # they come with each view
            case EvictPod(_, pod):
                self.evicted.append(pod)
            case WriteNodeConditions(_, written):
                self.conditions |= {condition.type: condition for condition in written}

    def put_incident(self, incident: Incident) -> None:
        """Store an incident as another client writes it, such as a user or a backup."""
        meta = msgspec.structs.replace(incident.metadata, resource_version=self._next_version())
        self.incidents[incident.name] = msgspec.structs.replace(incident, metadata=meta)

    def _open(self, incident: Incident, now: datetime) -> None:
        if incident.name in self.incidents:
            raise ConflictError(f"the incident {incident.name} exists already")
        # Kubernetes stores whole seconds, and a status only by its own endpoint.
        meta = ObjectMeta(
            name=incident.name,
            uid=f"uid-{incident.name}",
            creation_timestamp=now.replace(microsecond=0),
        )
        self.put_incident(Incident(meta, incident.spec))

    def _create_rule(self, rule: Rule, now: datetime) -> None:
        if rule.device in self.rules:
            raise ConflictError(f"the rule of {rule.device} exists already")
        self._put_rule(rule, f"uid-{self._version + 1}", now)

    def _put_rule(self, rule: Rule, uid: str, dated: datetime | None) -> None:
        self.rules[rule.device] = msgspec.structs.replace(
            rule, uid=uid, resource_version=self._next_version(), time_added=dated
        )

    def _unchanged_incident(self, read: Incident) -> Incident:
        """Return a stored incident. Raises ConflictError if it changed since the plan was made."""
        stored = self.incidents.get(read.name)
        if stored is None or _identity(stored.metadata) != _identity(read.metadata):
            raise ConflictError(f"the incident {read.name} has changed since it was read")
        return stored

    def _unchanged_rule(self, read: Rule) -> Rule:
        """Return the stored rule of a device. Raises ConflictError if it changed since the plan."""
        stored = self.rules.get(read.device)
        if stored is None or _identity(stored) != _identity(read):
            raise ConflictError(f"the rule of {read.device} has changed since it was read")
        return stored

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)


def _identity(read: ObjectMeta | Rule) -> tuple[str, str]:
    return read.uid, read.resource_version
