"""DeviceIncident: the record of one fault on one GPU.

The remediator keeps no state in its process that a restart must not lose: all of it is here or in
the taint rules. `spec` names the GPU and has the requests of users; `status` has the findings,
decisions and actions. If a status is lost, `plan.incidents` restores it from the existing rules.
deploy/crds/deviceincidents.yaml is the schema and describes each field for users.
"""

import re

import msgspec

from kubeapi.types import ObjectMeta, kubernetes_case
from remediator.model.incident_status import IncidentStatus
from remediator.model.intent import Intent, Kind

GPU_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A UUID as NVML reports it. Incidents are named after it, so a GPU needs one of this form."""


class IncidentSpec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    """The GPU, and the requests of users. The remediator writes it once, on creation."""

    node: str
    """Node that reported the first signal."""
    uuid: str
    hold: Intent | msgspec.UnsetType = msgspec.UNSET
    ignore: Intent | msgspec.UnsetType = msgspec.UNSET
    repair_confirmed: Intent | msgspec.UnsetType = msgspec.UNSET
    """Users write `hold`, `ignore` and `repairConfirmed`. Unset ones are absent from the object."""
    inherited_from: str | msgspec.UnsetType = msgspec.UNSET
    """Incident of the same GPU from which `hold` and `ignore` were copied on creation."""

    @property
    def intents(self) -> dict[Kind, Intent]:
        """The requests of users, by kind."""
        found: dict[Kind, Intent | msgspec.UnsetType] = {
            "Hold": self.hold,
            "Ignore": self.ignore,
            "RepairConfirmed": self.repair_confirmed,
        }
        return {kind: intent for kind, intent in found.items() if isinstance(intent, Intent)}


class Incident(msgspec.Struct, frozen=True):
    """A DeviceIncident as the API server stores it."""

    metadata: ObjectMeta
    spec: IncidentSpec
    status: IncidentStatus = IncidentStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def node(self) -> str:
        """Node that has the board now, as far as is known: boards are moved between nodes."""
        return self.status.stay.node or self.spec.node

    @property
    def blank(self) -> bool:
        """Whether the status is empty: not written yet, or lost."""
        return not self.status.fault.fault_class

    @property
    def open(self) -> bool:
        return self.status.history.closed_at is None


def with_intent(incident: Incident, kind: Kind, intent: Intent | None) -> Incident:
    """Return an incident with this intent in its spec, or without one of the kind for None."""
    value = msgspec.UNSET if intent is None else intent
    spec = incident.spec
    match kind:
        case "Hold":
            spec = msgspec.structs.replace(spec, hold=value)
        case "Ignore":
            spec = msgspec.structs.replace(spec, ignore=value)
        case "RepairConfirmed":
            spec = msgspec.structs.replace(spec, repair_confirmed=value)
    return msgspec.structs.replace(incident, spec=spec)


def incident_name(uuid: str, number: int) -> str:
    """Return the name of a GPU's n-th incident.

    It is the same after a crash, so the API server refuses to create the incident a second time.
    """
    # Kubernetes allows no capitals in the name of an object.
    return f"{uuid.lower()}-{number}"


def concerns(name: str, uuid: str) -> bool:
    """Whether an incident of this name belongs to the GPU."""
    return name.rpartition("-")[0] == uuid.lower()


def of_gpu(incidents: tuple[Incident, ...], uuid: str) -> tuple[Incident, ...]:
    """Return the incidents of one GPU, oldest first."""
    mine = [incident for incident in incidents if incident.spec.uuid == uuid]
    # As numbers: as texts 10 would come before 2.
    return tuple(sorted(mine, key=lambda incident: number_of(incident.name)))


def number_of(name: str) -> int:
    """Return the incident number at the end of an incident's name, 0 when it has none."""
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else 0
