"""The status of a DeviceIncident: what was found, decided and done, in groups.

Each group is one question about the incident. A field at its default is absent in the object.
deploy/crds/deviceincidents.yaml describes each field for users.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal, get_args

import msgspec

from exporter.model.device import Device
from exporter.model.node_health import MemorySlices
from kubeapi.types import Entry, kubernetes_case
from remediator.model.intent import IntentRecord
from remediator.model.taint_rule import Effect

SCHEMA_VERSION = 2
TIMELINE_LIMIT = 64
"""These limits are the CRD's. `incident_caps` has the others, and applies all of them."""
PLACED_LIMIT = 64
"""Entries of `slices`, of which the newest are kept. A GPU has at most seven MIG slices at once."""
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
    "fault_class": "class",
    "phase_since": "phaseSinceTime",
    "cause_since": "causeSinceTime",
    "seen_through": "seenThroughTime",
    "affected": "affectedPods",
    "affected_left_out": "affectedPodsOmitted",
    "would_taint": "plannedTaints",
    "informed": "neighbors",
    "foreign": "foreignTaints",
    "node_gone_since": "nodeGoneSinceTime",
    "clock_set_back_ms": "clockSetBackMilliseconds",
    "tainted_at": "taintedTime",
    "evicting_at": "evictingTime",
    "requested_at": "requestedTime",
    "empty_since": "emptySinceTime",
    "drained_at": "drainedTime",
    "evicted": "evictedPods",
    "evicted_left_out": "evictedPodsOmitted",
    "missing_since": "missingSinceTime",
    "healthy_since": "healthySinceTime",
    "confirmed_at": "confirmedTime",
    "released_at": "releasedTime",
    "soak_epoch": "epoch",
    "dbe_volatile": "volatileErrors",
    "dbe_aggregate": "aggregateErrors",
    "closed_at": "closedTime",
    "handled_through": "handledThroughTime",
    "probation_until": "probationEndTime",
}
"""By field: its name in the API, where that is not the field's own name in camelCase."""


def _api_name(field: str) -> str:
    return _API_NAMES.get(field) or kubernetes_case(field)


class Group(msgspec.Struct, frozen=True, rename=_api_name):
    """Fields of a status that belong together; one at its default is absent in the object."""


class Target(Entry, frozen=True, order=True):
    """A device in scope, and the UUID of the hardware that had this name when it was recorded."""

    driver: str
    pool: str
    device: str
    uuid: str

    @property
    def name(self) -> Device:
        return Device(self.driver, self.pool, self.device)


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
    """The strongest effect that a stored rule has had for it. None: the policy or a user has set it
    free since."""
    fault: str
    """Fault class in the taint's key."""
    cause: str
    """Value of the taint."""
    tainted_time: datetime | None = None
    """When it was tainted first. None: an older version recorded it, without the time."""


class DeviceEvictions(Entry, frozen=True):
    """Evictions from one device by the Eviction API: each device's pods get a time of their own."""

    device: str
    rounds: int
    """Rounds of evictions; one more each time that new pods join a claim of the device."""
    start_time: datetime | None = None
    """When the first eviction of the present pods was requested, plus the time in which none was
    requested. `evict.within` of the policy counts from it. None: no pod is there."""
    attempt_time: datetime | None = None
    """Last time at which evictions were requested. It is not updated at each attempt."""
    free_since_time: datetime | None = None
    """Since when no claim has held the device."""


def first_start(evictions: Iterable[DeviceEvictions]) -> datetime | None:
    return min((entry.start_time for entry in evictions if entry.start_time), default=None)


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
    called_time: datetime | None = None
    """When the Node condition was first seen to call for a repair of this Node, in this boot."""
    need: str
    """The greatest need so far: a value of `words.NEEDS`."""
    node: str
    node_uid: str = ""
    boot_id: str = ""
    """"": unknown."""


class FaultStatus(Group, frozen=True):
    """What is wrong with the GPU, and by which signals."""

    fault_class: str = ""
    """A `FaultClass`, spelled as in the policy and in the taint's key."""
    classes: tuple[str, ...] = ()
    """Every class that was found: the longest of their soaks counts."""
    cause: str = ""
    cause_since: datetime | None = None
    """Since when it leads, or another cause that is not new to the incident. None: an older version
    or CRD does not store it, and the opening of the incident stands for it."""
    evidence: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """All sources that have reported the fault: see `diagnose.fault.Source`."""
    awaited_ends: tuple[str, ...] = ()
    """What must be read before the fault is over (`diagnose.ends`)."""
    seen_through: datetime | None = None
    seen_signals: tuple[SeenSignal, ...] | None = None
    """Signals taken into account. Any other is new, whatever its date. None: written by a version
    without this field."""
    slices: tuple[Target, ...] | None = None
    """MIG slices that errors of one instance referred to when they were new: the driver reuses
    instance ids. None: written by a version without this field."""


class ScopeStatus(Group, frozen=True):
    """What the fault affects, and what is done there."""

    summary: str = ""
    devices: tuple[Target, ...] = ()
    hardware: tuple[Hardware, ...] = ()
    """Tainted hardware. While the incident is open, it gets a rule under each name it has."""
    rules: tuple[RuleRecord, ...] = ()
    would_taint: tuple[WouldTaint, ...] = ()
    affected: tuple[AffectedPod, ...] = ()
    affected_left_out: int = 0
    """Number of pods beyond the limit of `affected`."""
    informed: tuple[str, ...] = ()
    """NVLink or IMEX neighbours that the fault may affect, as `node/uuid`. They are not tainted."""
    foreign: tuple[str, ...] = ()
    """Taints, rules and cordons of others on these devices, as text."""


class StayStatus(Group, frozen=True):
    """Where the board is: a node that it may leave, and the boot and epoch of the last signal."""

    node: str = ""
    """Node that has the board now; see `Incident.node`."""
    node_uid: str = ""
    boot_id: str = ""
    epoch: int = 0
    """UID of the Node, its boot and the epoch of the GPU at the last new signal. A later reboot or
    reset changes them: that is how a repair is detected. By another UID it may be another machine.
    """
    pci_bus_id: str = ""
    """PCI slot of the board, as last reported."""
    siblings: tuple[str, ...] | None = None
    """UUIDs of the node's other GPUs while it reported this one, sorted. Any other UUID in this
    board's slot is a new board. None: unknown."""
    node_gone_since: datetime | None = None
    clock_set_back_ms: int | None = None
    """By how many milliseconds the node's clock had been set back when dates were copied from its
    report. None: unknown, because an older version or CRD does not store it."""


class EvictionStatus(Group, frozen=True):
    """How far the taints and evictions are."""

    tainted_at: datetime | None = None
    evicting_at: datetime | None = None
    by_device: tuple[DeviceEvictions, ...] = ()
    empty_since: datetime | None = None
    """Since when the devices have had no allocated claim and no running pod."""
    drained_at: datetime | None = None
    evicted: tuple[AffectedPod, ...] = ()
    evicted_left_out: int = 0
    """Number of pods beyond the limit of `evicted`."""

    @property
    def started_at(self) -> datetime | None:
        """When the first eviction of pods that are there was requested."""
        return first_start(self.by_device)

    def of(self, device: Device) -> DeviceEvictions | None:
        return next((entry for entry in self.by_device if entry.device == str(device)), None)


class RepairStatus(Group, frozen=True):
    """Which repair is needed, and how far it is."""

    needs: str = ""
    """The repair that is needed: a value of `words.NEEDS`."""
    request: RepairRequest | None = None
    """None: a repair of the node is not needed, or may not be requested yet."""
    requested_at: datetime | None = None
    """When the last request began. It stays when that one has ended, for the rates."""
    answered: int = 0
    """How often another boot has followed a request that was called for. After each but the last
    the GPU was sick again."""
    missing_since: datetime | None = None
    """Since when NVML has listed GPUs without this one, after a reboot that followed the last
    signal."""


class RecoveryStatus(Group, frozen=True):
    """The soak: since when the GPU is healthy, and what shows it."""

    untaint: str = ""
    """An `Untaint`; "": not decided yet."""
    healthy_since: datetime | None = None
    confirmed_at: datetime | None = None
    """When the agent's Lease had confirmed the health since `healthy_since`. It is stored, so that
    a new leader does not wait again."""
    released_at: datetime | None = None
    """When recovery was verified, and nothing else waited for. It is stored before the first rule
    is removed: whoever goes on finds it, and makes none of them again. Only a new signal or fault
    takes it back."""
    soak_epoch: int = 0
    """Epoch of the GPU at `dbe_volatile`; 0: written by a version without this field."""
    dbe_volatile: int | None = None
    dbe_aggregate: int | None = None
    """Uncorrectable memory errors at `healthy_since`: since the driver loaded, and in the GPU's
    life. A further error restarts the soak time. None: unknown."""


class PolicyStatus(Group, frozen=True):
    """What governs it: the policy at the last decision, and requests of users."""

    mode: str = ""
    """A value of `words.MODES`."""
    device_classes: tuple[str, ...] = ()
    """DeviceClasses of the claims on its devices when it was opened. The policy's overrides use
    these: evictions end the claims, and a later claim may name any class."""
    intents: tuple[IntentRecord, ...] = ()


class HistoryStatus(Group, frozen=True):
    """What it is to the other incidents of the GPU."""

    recurrence: int = 0
    """Number of this incident among the GPU's within the policy's repeat window; 0: unknown yet."""
    duplicate_of: str = ""
    """Older incident of the same GPU that continues this one."""
    closed_at: datetime | None = None
    handled_through: datetime | None = None
    probation_until: datetime | None = None
    """Until when, after the untaint, a new fault of the GPU counts as a relapse."""


class IncidentStatus(Group, frozen=True):
    """`merge_patch` always writes the whole status. A field at its default is absent in the object.

    Fields without a docstring, here and in the groups, are described in the CRD.
    """

    schema_version: int = 0
    """`SCHEMA_VERSION` of the version that wrote the status."""
    observed_generation: int = 0
    """`metadata.generation` at the last decision; 0: nothing is decided yet."""
    phase: str = ""
    """A `Phase`; one that another version wrote is kept. "": nothing is decided yet."""
    phase_since: datetime | None = None
    message: str = ""
    fault: FaultStatus = FaultStatus()
    scope: ScopeStatus = ScopeStatus()
    stay: StayStatus = StayStatus()
    eviction: EvictionStatus = EvictionStatus()
    repair: RepairStatus = RepairStatus()
    recovery: RecoveryStatus = RecoveryStatus()
    policy: PolicyStatus = PolicyStatus()
    history: HistoryStatus = HistoryStatus()
    conditions: tuple[Condition, ...] = ()
    timeline: tuple[TimelineEntry, ...] = ()

    def __post_init__(self) -> None:
        # Of an older one half the fields are unknown here: what is left would look like an incident
        # that was just opened.
        if 0 < self.schema_version < SCHEMA_VERSION:
            raise ValueError(f"its status has schema {self.schema_version}, of an older release")


def with_changes(status: IncidentStatus, **changes: object) -> IncidentStatus:
    """Return a status with other values; a mapping changes these fields of a group.

    `with_changes(status, phase="Closed", history={"closed_at": now})`
    """
    values = {
        name: msgspec.structs.replace(getattr(status, name), **value)
        if isinstance(value, dict)
        else value
        for name, value in changes.items()
    }
    return msgspec.structs.replace(status, **values)


def merge_patch(status: msgspec.Struct) -> dict[str, Any]:
    """Return a JSON merge patch that replaces the whole stored status.

    A merge patch keeps fields that it leaves out, so a field at its default is set to null, which
    deletes it. Its default could not be stored instead: an enum of the CRD has no empty value.
    """
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(status):
        value = getattr(status, field.name)
        if value == field.default:
            value = None
        found[field.encode_name] = (
            merge_patch(value) if isinstance(value, msgspec.Struct) else value
        )
    return found
