"""DeviceIncident: the case file of one fault episode on one GPU.

The remediator's only memory. What a restart must know is here or in the rules
themselves; nothing is kept in the process. The fields are those of
deploy/crds/deviceincidents.yaml. Pure.
"""

from datetime import datetime
from typing import Literal

import msgspec

from exporter.device import Device
from exporter.report import Entry, ObjectMeta, kubernetes_case

SCHEMA_VERSION = 1
TIMELINE_LIMIT = 64
PLACED_LIMIT = 64
"""Slices of `placed`, the youngest; a GPU has seven at most."""
PODS_LIMIT = 256
"""Entries of `hit` and of `evicted`; how many more there are is said beside them."""
FOREIGN_LIMIT = 16
INFORMED_LIMIT = 64

Phase = Literal[
    "Suspected",
    "Fenced",
    "Evicting",
    "Drained",
    "Repairing",
    "Verifying",
    "Recovered",
    "NeedsHuman",
    "Closed",
]
"""`Closed`: it ended without verified recovery, and the message says how."""


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
    """Written whole, like the spec that holds it: a merge patch keeps what it does not name."""

    summary: str = ""
    devices: tuple[Target, ...] = ()


class IncidentSpec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    node: str
    uuid: str
    fault: str
    cause: str = ""
    evidence: tuple[str, ...] = ()
    scope: ScopeRecord = ScopeRecord()
    schema_version: int = SCHEMA_VERSION


class Condition(Entry, frozen=True):
    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    last_transition_time: datetime
    message: str = ""


class TimelineEntry(Entry, frozen=True):
    time: datetime
    phase: str
    text: str


class RuleRecord(Entry, frozen=True):
    name: str
    uid: str
    device: str
    effect: str
    leaving: bool = False
    """We are about to take it away: when it is gone, it was us and not a person."""


class WouldFence(Entry, frozen=True):
    device: str
    effect: str


class PodHold(Entry, frozen=True, order=True):
    """A pod that holds a device through a claim (`status.reservedFor`)."""

    namespace: str
    pod: str
    claim: str
    device: str
    uid: str = ""
    via: str = ""
    """How it holds it: "" by a claim, `extended` by an extended resource, `admin` by admin access
    (evicted by NoExecute too), `gang` not itself but as a peer of a pod that does."""
    tolerates: str = ""
    """Effects of ours that its claim tolerates, such as `NoExecute for 300s`; "" for none."""


class DeletedRule(Entry, frozen=True):
    """A rule of ours that a person took away: respected until a time."""

    device: str
    deleted_at: datetime
    respected_until: datetime
    fault: str = ""
    """Class of the incident then: a worse one ends the respect."""
    seen_through: datetime | None = None
    """Youngest signal then, by the node's clock: a later one ends the respect."""


class AnswerRecord(Entry, frozen=True):
    """What a person said by an annotation, and what became of it."""

    kind: str
    """`hold`, `ignore` or `confirmed-repaired`."""
    said: str
    """The annotation's value, cut short."""
    state: str
    """`InForce`, `Expired`, `Unreadable`, or `Overtaken` by a later signal."""
    seen_at: datetime
    """When we first read it, by our clock."""
    seen_through: datetime | None = None
    """Youngest signal then, by the node's clock."""


class IncidentStatus(msgspec.Struct, frozen=True, rename=kubernetes_case):
    """Always written whole, because a merge patch keeps what it does not name."""

    phase: str = "Suspected"
    """A `Phase`; a word of another version is carried along."""
    phase_since: datetime | None = None
    mode: str = ""
    message: str = ""
    fenced_at: datetime | None = None
    evicting_at: datetime | None = None
    drained_at: datetime | None = None
    healthy_since: datetime | None = None
    closed_at: datetime | None = None
    handled_through: datetime | None = None
    seen_through: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    timeline: tuple[TimelineEntry, ...] = ()
    rules: tuple[RuleRecord, ...] = ()
    would_fence: tuple[WouldFence, ...] = ()
    hit: tuple[PodHold, ...] = ()
    evicted: tuple[PodHold, ...] = ()
    informed: tuple[str, ...] = ()
    """Neighbours over NVLink or IMEX that may feel it: `node/uuid`, never tainted for it."""
    foreign: tuple[str, ...] = ()
    """Taints, rules and cordons of others on these devices, in words."""
    needs: str = ""
    """What would repair it: a `judge.fault.Need`."""
    needs_since: datetime | None = None
    """Since when a node-level act may be called for: needed, in mode enforce, and not held."""
    recurrence: int = 0
    """Which episode of this GPU within the policy's repeat window it is; 0: not counted yet."""
    sticky: bool = False
    """Recovery alone does not release it: a person confirms the repair."""
    empty_since: datetime | None = None
    """Since when no allocated claim and no running pod was seen on the devices."""
    node_gone_since: datetime | None = None
    deleted_rules: tuple[DeletedRule, ...] = ()
    device_classes: tuple[str, ...] = ()
    """DeviceClasses through which its devices were claimed since it was opened."""
    probation_until: datetime | None = None
    """After release."""
    opened_boot_id: str = ""
    opened_epoch: int = 0
    """Boot and epoch of the GPU at the last new signal: a repair shows by another."""
    placed: tuple[Target, ...] | None = None
    """Slices that errors of one instance meant when they were new: numbers of instances are used
    again. None: written by a version that kept none."""
    soak_dbe_volatile: int | None = None
    soak_dbe_aggregate: int | None = None
    """Uncorrected memory errors when health began: one more, and the soak begins anew."""
    answers: tuple[AnswerRecord, ...] = ()
    duplicate_of: str = ""
    """Older incident of the same GPU that tells this story."""
    hit_left_out: int = 0
    evicted_left_out: int = 0
    """Entries beyond the limit of `hit` and of `evicted`."""


class Incident(msgspec.Struct, frozen=True):
    """The object as the API server stores it."""

    metadata: ObjectMeta
    spec: IncidentSpec
    status: IncidentStatus = IncidentStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def open(self) -> bool:
        return self.status.closed_at is None


def incident_name(uuid: str, episode: int) -> str:
    """Name of the n-th episode of a GPU: the same after a crash, so that it is not opened twice."""
    return f"{uuid.lower()}-{episode}"


def tells_of(name: str, uuid: str) -> bool:
    """Whether an incident is one of a GPU, by its name alone."""
    return name.rpartition("-")[0] == uuid.lower()


def of_gpu(incidents: tuple[Incident, ...], uuid: str) -> tuple[Incident, ...]:
    """Return the incidents of one GPU, first episode first."""
    mine = [one for one in incidents if one.spec.uuid == uuid]
    return tuple(sorted(mine, key=lambda one: episode_of(one.name)))


def episode_of(name: str) -> int:
    """Return the episode number at the end of an incident's name, 0 when it has none."""
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else 0
