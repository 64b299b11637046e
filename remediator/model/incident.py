"""DeviceIncident: the record of one fault on one GPU.

The remediator keeps no state in its process that a restart must not lose: all of it is here or in
the taint rules. `spec` names the GPU and has the requests of users; `status` has the findings,
decisions and actions. If a status is lost, `plan.incidents` restores it from the existing rules.
deploy/crds/deviceincidents.yaml is the schema and describes each field for users.
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
"""These limits are the CRD's. `incident_caps` has the others, and applies all of them."""
PLACED_LIMIT = 64
"""Entries of `placed`, of which the newest are kept. A GPU has at most seven MIG slices at once."""
PODS_LIMIT = 256
"""Entries of `affected` and `evicted`; `affected_left_out`, `evicted_left_out` count the rest."""
FOREIGN_LIMIT = 16
SEEN_LIMIT = 64
"""Entries of `seen_signals`. Whether a signal beyond them is new depends on its date alone."""
INFORMED_LIMIT = 64
EVICTION_BLOCKED = "EvictionBlocked"
"""Condition type: pods are left after the time for evictions, or pods joined a claim too often."""
STATE_UNKNOWN = "DeviceStateUnknown"
"""Condition type: nothing is known of its GPU now, so nothing changes."""
RULES_NOT_SERVED = "RulesNotServed"
"""Condition type: no DeviceTaintRules are served, so the state of the incident's is unknown."""
HARDWARE_LIMIT = 64
"""Entries of `hardware`: the GPU first, then its MIG slices, of which it has seven at once."""
SIBLINGS_LIMIT = 64
GPU_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A UUID as NVML reports it. Incidents are named after it, so a GPU needs one of this form."""

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
"""The table in `plan.phase` says what each phase means."""
PHASES: tuple[Phase, ...] = get_args(Phase)
Untaint = Literal["Automatic", "OnConfirmation"]
"""How the taints end: after verified recovery, or once a user has confirmed the repair as well."""

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
    "empty_since": "emptySinceTime",
    "node_gone_since": "nodeGoneSinceTime",
    "probation_until": "probationEndTime",
    "soak_dbe_volatile": "soakVolatileErrors",
    "soak_dbe_aggregate": "soakAggregateErrors",
    "clock_set_back_ms": "clockSetBackMilliseconds",
}
"""By field: its name in the API, where that is not the field's own name in camelCase."""


def _api_name(field: str) -> str:
    return _API_NAMES.get(field) or kubernetes_case(field)


class Target(Entry, frozen=True, order=True):
    """A device in scope, and the UUID of the hardware that had this name when it was recorded."""

    driver: str
    pool: str
    device: str
    uuid: str

    @property
    def name(self) -> Device:
        return Device(self.driver, self.pool, self.device)


class ScopeRecord(msgspec.Struct, frozen=True, rename=kubernetes_case):
    """Both fields are always written, because a merge patch keeps each field that it leaves out."""

    summary: str = ""
    devices: tuple[Target, ...] = ()


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
    """Hardware that the incident has tainted. Its device name may have changed since."""

    uuid: str = ""
    """UUID of a MIG slice. "": the whole GPU with all its slices, or what `placement` names."""
    placement: MemorySlices | None = None
    """Failed memory slices. Every MIG device that uses them is affected, and so is the full GPU.
    With a `uuid`: that slice was created on them after the fault."""
    effect: Effect
    """The strongest effect that a stored rule has had for it."""
    fault: str
    """Fault class in the taint's key."""
    cause: str
    """Value of the taint."""
    tainted_time: datetime | None = None
    """When it was tainted first. None: an older version recorded it, without the time."""


class DeviceRounds(Entry, frozen=True):
    """How often pods were evicted from a device and new ones joined its claim."""

    device: str
    rounds: int
    """Rounds of evictions; one more each time that new pods join a claim of the device."""
    free_since_time: datetime | None = None
    """Since when no claim has held the device."""


class SeenSignal(Entry, frozen=True, kw_only=True):
    """An error record of the node's report that the incident has taken into account."""

    code: int
    """XID."""
    gpu_instance: int = -1
    """MIG GPU instance id; -1: the driver named none. `compute_instance` likewise."""
    compute_instance: int = -1
    placement_start: int = -1
    """First memory slice of the instance; -1: unknown."""
    count: int
    first_seen_time: datetime
    """By the node's clock."""

    @property
    def key(self) -> tuple[int, int, int, int]:
        """What the record counts: one XID on one instance."""
        return self.code, self.gpu_instance, self.compute_instance, self.placement_start


class WouldTaint(Entry, frozen=True):
    """A taint that mode Enforce would set in addition, or would where rules are served."""

    device: str
    effect: str


class AffectedPod(Entry, frozen=True, order=True):
    """A pod that uses a device in scope: its claim is reserved for the pod (`reservedFor`)."""

    namespace: str
    pod: str
    claim: str
    device: str
    uid: str = ""
    via: str = ""
    """How it uses the device. "": by a claim of its own; else `ExtendedResource`, `AdminAccess`
    (NoExecute evicts it too) or `Gang` (it does not use the device, but a pod of its gang does)."""
    tolerates: str = ""
    """Our effects that its claim tolerates, such as `NoExecute for 300s`; "": none."""


class RepairRequest(Entry, frozen=True, kw_only=True):
    """A repair of the node that may be requested. Another machine, boot or need has its own."""

    since_time: datetime
    """Since when it is needed, in mode Enforce, and not deferred."""
    first_time: datetime
    """The same, whatever boots and needs have come since: a machine that reboots again and again
    uses up no budget by that."""
    deadline_start_time: datetime | None = None
    """Since when a fault class that may evict has requested it. The deadline counts from then."""
    need: str
    """The greatest need so far: a value of `words.NEEDS`."""
    node: str
    node_uid: str = ""
    boot_id: str = ""
    """"": unknown."""


class IncidentStatus(msgspec.Struct, frozen=True, rename=_api_name):
    """`merge_patch` always writes the whole status. A field at its default is absent in the object.

    Fields without a docstring are described in the CRD.
    """

    schema_version: int = 0
    """`SCHEMA_VERSION` of the version that wrote the status."""
    observed_generation: int = 0
    """`metadata.generation` at the last decision; 0: nothing is decided yet."""
    node: str = ""
    """Node that has the board now; see `Incident.node`."""
    fault: str = ""
    """A `FaultClass`, spelled as in the policy and in the taint's key."""
    cause: str = ""
    evidence: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """All sources that have reported the fault: see `diagnose.fault.Source`."""
    scope: ScopeRecord = ScopeRecord()
    phase: str = ""
    """A `Phase`; one that another version wrote is kept. "": nothing is decided yet."""
    phase_since: datetime | None = None
    mode: str = ""
    """A value of `words.MODES`."""
    message: str = ""
    tainted_at: datetime | None = None
    evicting_at: datetime | None = None
    eviction_start_time: datetime | None = None
    """When the first eviction of the present pods was requested, plus the time in which none was
    requested. `evict.within` of the policy counts from it."""
    eviction_attempt_time: datetime | None = None
    """Last time at which evictions were requested. It is not updated at each attempt."""
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
    """Tainted hardware. While the incident is open, it gets a rule under each name it has."""
    would_taint: tuple[WouldTaint, ...] = ()
    affected: tuple[AffectedPod, ...] = ()
    evicted: tuple[AffectedPod, ...] = ()
    informed: tuple[str, ...] = ()
    """NVLink or IMEX neighbours that the fault may affect, as `node/uuid`. They are not tainted."""
    foreign: tuple[str, ...] = ()
    """Taints, rules and cordons of others on these devices, as text."""
    needs: str = ""
    """The repair that is needed: a value of `words.NEEDS`."""
    repair_request: RepairRequest | None = None
    """None: a repair of the node is not needed, or may not be requested yet."""
    recurrence: int = 0
    """Number of this incident among the GPU's within the policy's repeat window; 0: unknown yet."""
    untaint: str = ""
    """An `Untaint`; "": not decided yet."""
    empty_since: datetime | None = None
    """Since when the devices have had no allocated claim and no running pod."""
    node_gone_since: datetime | None = None
    device_classes: tuple[str, ...] = ()
    """DeviceClasses of the claims on its devices when it was opened. The policy's overrides use
    these: evictions end the claims, and a later claim may name any class."""
    probation_until: datetime | None = None
    """Until when, after the untaint, a new fault of the GPU counts as a relapse."""
    opened_node_uid: str = ""
    opened_boot_id: str = ""
    opened_epoch: int = 0
    """UID of the Node, its boot and the epoch of the GPU at the last new signal. A later reboot or
    reset changes them: that is how a repair is detected. By another UID it may be another machine.
    """
    clock_set_back_ms: int | None = None
    """By how many milliseconds the node's clock had been set back when dates were copied from its
    report. None: unknown, because an older version or CRD does not store it."""
    pci_bus_id: str = ""
    """PCI slot of the board, as last reported."""
    siblings: tuple[str, ...] | None = None
    """UUIDs of the node's other GPUs while it reported this one, sorted. Any other UUID in this
    board's slot is a new board. None: unknown."""
    missing_since_time: datetime | None = None
    """Since when NVML has listed GPUs without this one, after a reboot that followed the last
    signal."""
    placed: tuple[Target, ...] | None = None
    """MIG slices that errors of one instance referred to when they were new: the driver reuses
    instance ids. None: written by a version without this field."""
    seen_signals: tuple[SeenSignal, ...] | None = None
    """Signals taken into account. Any other is new, whatever its date. None: written by a version
    without this field."""
    soak_epoch: int = 0
    """Epoch of the GPU at `soak_dbe_volatile`; 0: written by a version without this field."""
    soak_dbe_volatile: int | None = None
    soak_dbe_aggregate: int | None = None
    """Uncorrectable memory errors at `healthy_since`: since the driver loaded, and in the GPU's
    life. A further error restarts the soak time. None: unknown."""
    intents: tuple[IntentRecord, ...] = ()
    soak_confirmed_time: datetime | None = None
    """When the agent's Lease had confirmed the health since `healthy_since`. It is stored, so that
    a new leader does not wait again."""
    duplicate_of: str = ""
    """Older incident of the same GPU that continues this one."""
    affected_left_out: int = 0
    evicted_left_out: int = 0
    """Number of pods beyond the limit of `affected` and of `evicted`."""


_EMPTY = IncidentStatus()


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
        return self.status.node or self.spec.node

    @property
    def blank(self) -> bool:
        """Whether the status is empty: not written yet, or lost."""
        return not self.status.fault

    @property
    def open(self) -> bool:
        return self.status.closed_at is None


def merge_patch(status: IncidentStatus) -> dict[str, Any]:
    """Return a JSON merge patch that replaces the whole stored status.

    A merge patch keeps fields that it leaves out, so a field at its default is set to null, which
    deletes it. Its default could not be stored instead: an enum of the CRD has no empty value.
    """
    names = zip(status.__struct_fields__, status.__struct_encode_fields__, strict=True)
    values = ((name, getattr(status, field), getattr(_EMPTY, field)) for field, name in names)
    return {name: value if value != absent else None for name, value, absent in values}


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
