"""DeviceIncident: the record of one fault on one GPU.

The remediator's only memory. What a restart must know is here or in the rules themselves; nothing
is kept in the process. The fields are those of deploy/crds/deviceincidents.yaml. `spec` names the
GPU and is written once; `status` has what was found and done. An empty status is filled again from
the rules that stand (`plan.incidents`). Pure.
"""

import re
from datetime import datetime
from typing import Any, Literal, get_args

import msgspec

from exporter.model.device import Device
from exporter.model.node_health import MemorySlices
from kubeapi.types import Entry, ObjectMeta, kubernetes_case
from remediator.model.intent import Intent, IntentRecord, Kind
from remediator.model.taint_rule import Effect

SCHEMA_VERSION = 1
TIMELINE_LIMIT = 64
"""These and further limits of the CRD are applied by `incident_caps`."""
PLACED_LIMIT = 64
"""Slices of `placed`, the youngest; a GPU has seven at most."""
PODS_LIMIT = 256
"""Entries of `affected` and of `evicted`; the number of further ones is beside them."""
FOREIGN_LIMIT = 16
SEEN_LIMIT = 64
"""Records of `seen_signals`; those beyond it are new by their dates alone."""
INFORMED_LIMIT = 64
EVICTION_BLOCKED = "EvictionBlocked"
"""Condition of an incident: pods are left whose evictions are requested on, with the reason."""
RULES_NOT_SERVED = "RulesNotServed"
"""Condition of an incident: rules that it has made cannot be seen. Only where that has happened."""
HARDWARE_LIMIT = 64
"""Entries of `hardware`: the GPU first, then slices. A GPU has seven slices at once."""
SIBLINGS_LIMIT = 64
GPU_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""NVML's form. Objects are named after it, so another form cannot have an incident."""

Phase = Literal[
    "Suspected",
    "Tainted",
    "Evicting",
    "Drained",
    "Repairing",
    "Verifying",
    "Recovered",
    "NeedsHuman",
    "Closed",
]
"""What each of them means is the table in `plan.phase`."""
PHASES: tuple[Phase, ...] = get_args(Phase)
Untaint = Literal["Automatic", "OnConfirmation"]
"""How the taints end: by verified recovery, or by a user who confirms the repair."""

_API_NAMES = {
    "phase_since": "phaseSinceTime",
    "tainted_at": "taintedTime",
    "evicting_at": "evictingTime",
    "drained_at": "drainedTime",
    "healthy_since": "healthySinceTime",
    "closed_at": "closedTime",
    "handled_through": "handledThroughTime",
    "seen_through": "seenThroughTime",
    "would_taint": "plannedTaints",
    "affected": "affectedPods",
    "affected_left_out": "affectedPodsOmitted",
    "evicted": "evictedPods",
    "evicted_left_out": "evictedPodsOmitted",
    "informed": "neighbors",
    "foreign": "foreignTaints",
    "needs_since": "neededSinceTime",
    "empty_since": "emptySinceTime",
    "node_gone_since": "nodeGoneSinceTime",
    "probation_until": "probationEndTime",
    "soak_dbe_volatile": "soakVolatileErrors",
    "soak_dbe_aggregate": "soakAggregateErrors",
    "clock_set_back_ms": "clockSetBackMilliseconds",
}
"""Fields of the status that the API calls by other words than this program does."""


def _api_name(field: str) -> str:
    return _API_NAMES.get(field) or kubernetes_case(field)


class Target(Entry, frozen=True, order=True):
    """A device in scope, and the hardware that its name stood for."""

    driver: str
    pool: str
    device: str
    uuid: str

    @property
    def name(self) -> Device:
        return Device(self.driver, self.pool, self.device)


class ScopeRecord(msgspec.Struct, frozen=True, rename=kubernetes_case):
    """Written whole, like the status: a merge patch keeps what it does not name."""

    summary: str = ""
    devices: tuple[Target, ...] = ()


class IncidentSpec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    """Which GPU. Written when the incident is opened, and never again."""

    node: str
    """That reported the first signal."""
    uuid: str
    hold: Intent | msgspec.UnsetType = msgspec.UNSET
    ignore: Intent | msgspec.UnsetType = msgspec.UNSET
    repair_confirmed: Intent | msgspec.UnsetType = msgspec.UNSET
    """Users write these three; what is not there is left out of the object."""
    inherited_from: str | msgspec.UnsetType = msgspec.UNSET
    """Incident of the same GPU from which they were carried over when this one was created."""

    @property
    def intents(self) -> dict[Kind, Intent]:
        """What users want, by kind."""
        found: dict[Kind, Intent | msgspec.UnsetType] = {
            "Hold": self.hold,
            "Ignore": self.ignore,
            "RepairConfirmed": self.repair_confirmed,
        }
        return {kind: intent for kind, intent in found.items() if isinstance(intent, Intent)}


class Condition(Entry, frozen=True):
    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    last_transition_time: datetime
    message: str = ""
    observed_generation: int = 0


class TimelineEntry(Entry, frozen=True):
    time: datetime
    phase: str
    text: str


class RuleRecord(Entry, frozen=True):
    name: str
    uid: str
    device: str
    effect: str


class Hardware(Entry, frozen=True, kw_only=True):
    """What an incident has tainted, whatever its name is now."""

    uuid: str = ""
    """Of a MIG slice; "" for the GPU with all that is on it, or for `placement`."""
    placement: MemorySlices | None = None
    """Failed memory: every slice and partition that intersects it, and the full GPU. Beside a
    `uuid`: the slice did not fail itself, it was made of that memory later."""
    effect: Effect
    """The strongest that was ever stored for it."""
    fault: str
    """Class, for the taint's key."""
    cause: str
    tainted_time: datetime | None = None
    """Since when; None where an older schema has recorded it."""


class DeviceRounds(Entry, frozen=True):
    device: str
    rounds: int
    """Of evictions: one more each time that pods have joined a claim of it since the last."""
    free_since_time: datetime | None = None
    """Since when no pod has held it."""


class SeenSignal(Entry, frozen=True, kw_only=True):
    """A record of the node's report that the incident has taken into account."""

    code: int
    """XID."""
    gpu_instance: int = -1
    """-1: no instance was named."""
    compute_instance: int = -1
    placement_start: int = -1
    """First memory slice of the instance; -1: not known."""
    count: int
    first_seen_time: datetime
    """By the node's clock."""

    @property
    def key(self) -> tuple[int, int, int, int]:
        """What the record counts: one code on one instance."""
        return self.code, self.gpu_instance, self.compute_instance, self.placement_start


class WouldTaint(Entry, frozen=True):
    device: str
    effect: str


class AffectedPod(Entry, frozen=True, order=True):
    """A pod that holds a device through a claim (`status.reservedFor`)."""

    namespace: str
    pod: str
    claim: str
    device: str
    uid: str = ""
    via: str = ""
    """How it holds it: "" by a claim, else a word of `model.claim`: `ExtendedResource`,
    `AdminAccess` (evicted by NoExecute too), `Gang` (only as a peer of a pod that does)."""
    tolerates: str = ""
    """Effects of ours that its claim tolerates, such as `NoExecute for 300s`; "" for none."""


class IncidentStatus(msgspec.Struct, frozen=True, rename=_api_name):
    """Always written whole, by `merge_patch`: what is at its default is absent in the object."""

    schema_version: int = 0
    """`SCHEMA_VERSION` of its writer."""
    observed_generation: int = 0
    """`metadata.generation` that the last decision has seen; 0: never decided."""
    node: str = ""
    """That has the board now; see `Incident.node`."""
    fault: str = ""
    """A `FaultClass`, in the words of the policy, which are those of the taint's key as well."""
    cause: str = ""
    evidence: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """All sources that have reported it so far: `diagnose.fault.Source`."""
    scope: ScopeRecord = ScopeRecord()
    phase: str = ""
    """A `Phase`; a word of another version is carried along. "": nothing is decided yet."""
    phase_since: datetime | None = None
    mode: str = ""
    """A word of `words.MODES`."""
    message: str = ""
    tainted_at: datetime | None = None
    evicting_at: datetime | None = None
    eviction_start_time: datetime | None = None
    """When the first eviction of the present pods was requested, moved on by the time in which none
    was: `evict.within` counts from it."""
    eviction_attempt_time: datetime | None = None
    """Until when evictions are known to have been requested."""
    device_rounds: tuple[DeviceRounds, ...] = ()
    drained_at: datetime | None = None
    healthy_since: datetime | None = None
    closed_at: datetime | None = None
    handled_through: datetime | None = None
    seen_through: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    timeline: tuple[TimelineEntry, ...] = ()
    rules: tuple[RuleRecord, ...] = ()
    hardware: tuple[Hardware, ...] = ()
    """What has a rule under each of its names as long as this is open."""
    would_taint: tuple[WouldTaint, ...] = ()
    affected: tuple[AffectedPod, ...] = ()
    evicted: tuple[AffectedPod, ...] = ()
    informed: tuple[str, ...] = ()
    """Neighbours over NVLink or IMEX that may feel it: `node/uuid`, never tainted for it."""
    foreign: tuple[str, ...] = ()
    """Taints, rules and cordons of others on these devices, in words."""
    needs: str = ""
    """What would repair it: a word of `words.NEEDS`."""
    needs_since: datetime | None = None
    """Since when a node-level act may be called for: needed, in mode enforce, and not held."""
    deadline_start_time: datetime | None = None
    """Since when a class that may evict has called for it: the deadline counts from then."""
    recurrence: int = 0
    """Which incident of this GPU within the policy's repeat window it is; 0: not counted yet."""
    untaint: str = ""
    """An `Untaint`; "": not decided yet."""
    empty_since: datetime | None = None
    """Since when no allocated claim and no running pod was seen on the devices."""
    node_gone_since: datetime | None = None
    device_classes: tuple[str, ...] = ()
    """DeviceClasses through which its devices were claimed when it was opened. Later claims
    count for no override."""
    probation_until: datetime | None = None
    """After release."""
    opened_boot_id: str = ""
    opened_epoch: int = 0
    """Boot and epoch of the GPU at the last new signal: a repair shows by another."""
    clock_set_back_ms: int | None = None
    """By how much the node's clock had been set back when dates of its report were copied. None:
    not known, as the release before and an older CRD do not keep it."""
    pci_bus_id: str = ""
    """Slot of the board, as last reported."""
    siblings: tuple[str, ...] | None = None
    """UUIDs of the other GPUs that the node had while it reported this one, sorted. None: never
    seen. A UUID that is not among them and in the board's slot is a new board."""
    missing_since_time: datetime | None = None
    """Since when, after a reboot that followed the last signal, NVML has listed the others only."""
    placed: tuple[Target, ...] | None = None
    """Slices that errors of one instance meant when they were new: numbers of instances are used
    again. None: written by a version that kept none."""
    seen_signals: tuple[SeenSignal, ...] | None = None
    """What is not among these is new, whatever its date. None: written by a version that kept
    none."""
    soak_epoch: int = 0
    """Epoch of the GPU when its volatile errors were counted; 0: written by a version without."""
    soak_dbe_volatile: int | None = None
    soak_dbe_aggregate: int | None = None
    """Uncorrected memory errors when health began: one more, and the soak begins anew."""
    intents: tuple[IntentRecord, ...] = ()
    soak_confirmed_time: datetime | None = None
    """When the agent had confirmed health since `healthy_since`; a restart need not check again."""
    duplicate_of: str = ""
    """Older incident of the same GPU that has the record of this one."""
    affected_left_out: int = 0
    evicted_left_out: int = 0
    """Entries beyond the limit of `affected` and of `evicted`."""


_EMPTY = IncidentStatus()


class Incident(msgspec.Struct, frozen=True):
    """The object as the API server stores it."""

    metadata: ObjectMeta
    spec: IncidentSpec
    status: IncidentStatus = IncidentStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def node(self) -> str:
        """The node that has the board now, as far as is known: boards move."""
        return self.status.node or self.spec.node

    @property
    def blank(self) -> bool:
        """Whether its status is empty: not written yet, or lost."""
        return not self.status.fault

    @property
    def open(self) -> bool:
        return self.status.closed_at is None


def merge_patch(status: IncidentStatus) -> dict[str, Any]:
    """Return a status as a merge patch that leaves nothing of what was stored before.

    What is at its default is deleted: absent means the same, and an enum has no empty value.
    """
    names = zip(status.__struct_fields__, status.__struct_encode_fields__, strict=True)
    values = ((name, getattr(status, field), getattr(_EMPTY, field)) for field, name in names)
    return {name: value if value != absent else None for name, value, absent in values}


def with_intent(incident: Incident, kind: Kind, intent: Intent | None) -> Incident:
    """Return an incident with an intent, or without it."""
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
    """Name of the n-th incident of a GPU: the same after a crash, so it is not opened twice."""
    return f"{uuid.lower()}-{number}"


def concerns(name: str, uuid: str) -> bool:
    """Whether an incident is one of a GPU, by its name alone."""
    return name.rpartition("-")[0] == uuid.lower()


def of_gpu(incidents: tuple[Incident, ...], uuid: str) -> tuple[Incident, ...]:
    """Return the incidents of one GPU, first incident first."""
    mine = [incident for incident in incidents if incident.spec.uuid == uuid]
    return tuple(sorted(mine, key=lambda incident: number_of(incident.name)))


def number_of(name: str) -> int:
    """Return the incident number at the end of an incident's name, 0 when it has none."""
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else 0
