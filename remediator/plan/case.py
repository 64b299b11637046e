"""One GPU's case: what is known of it, and what should become of it. Values only. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from exporter.model.device import Device
from exporter.model.node_health import GpuHealth
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.fault import Need, Unknown, Verdict
from remediator.model.claim import Absent
from remediator.model.incident import (
    AffectedPod,
    DeviceRounds,
    Hardware,
    Incident,
    SeenSignal,
    Target,
    WouldTaint,
)
from remediator.model.intent import IntentRecord
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import Effect, ForeignRule, Rule
from remediator.policy.table import ANYWHERE, Evict, Place


class Roster(msgspec.Struct, frozen=True, kw_only=True):
    """Which GPUs a node has now, by a report that is believed and whose NVML works."""

    boot_id: str
    slots: Mapping[str, str]
    """PCI bus id of each GPU that NVML lists now, by UUID."""
    known: frozenset[str]
    """UUIDs of all GPUs that the report or the node's slices name, listed or not."""
    aside: bool = False
    """NVIDIA's driver does not hold all GPUs: one that is not listed may be among the others."""
    complete: bool = False
    """Each GPU on the node's PCI bus is one that NVML lists, and none is missing."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known about one GPU at one moment."""

    node: str
    uuid: str
    verdict: Verdict
    gpu: GpuHealth | None = None
    """None when the current report does not list it, or the report cannot be believed."""
    inventory: tuple[SliceDevice, ...] = ()
    """What the node publishes."""
    incidents: tuple[Incident, ...] = ()
    """Of this GPU, first incident first."""
    rules: tuple[Rule, ...] = ()
    """Ours, for this GPU, as stored."""
    leftovers: tuple[Rule, ...] = ()
    """Ours as well, on devices that `rules` has a rule for already: they are to go."""
    affected: tuple[AffectedPod, ...] = ()
    """Pods that hold this GPU or a slice of it."""
    gang: tuple[AffectedPod, ...] = ()
    """Pods that hold none of it and are affected with a holder, as its peer: reported, never
    evicted."""
    place: Place = ANYWHERE
    boot_id: str = ""
    """Of the report; "" when there is none to believe."""
    reported_at: datetime | None = None
    """When the report was made, by the node's clock; None when there is none to believe."""
    pods: tuple[PodFacts, ...] | None = None
    """Pods of the node; None while they were not listed."""
    absent: tuple[Absent, ...] = ()
    """For what its devices are reserved without a pod that is listed."""
    refusals: Mapping[str, str] = {}
    """Pod UID to why the Eviction API refused its last eviction."""
    tolerations: Mapping[tuple[str, str], timedelta] = {}
    """By pod UID and device, for how long our taint there is tolerated as NoExecute."""
    foreign: tuple[ForeignRule, ...] = ()
    """Rules that are not Draguard's, on devices of this GPU."""
    node_gone: bool = False
    """Nodes are read, none has this name now, and no source reports its hardware."""
    clock_doubt: str = ""
    """Why our own clock is not to be trusted now: no time that we count ends while it is not."""
    believed: bool = False
    """The node's report can be believed, whether or not it lists this GPU."""
    nvml_up: bool = False
    """That report's NVML answered and left no GPU without a name, so that one missing in it is
    really missing."""
    reported: bool = False
    """The node's report, believed or not, lists this GPU."""
    elsewhere: tuple[str, ...] = ()
    """Other nodes that publish this GPU, or report it with a fresh report."""
    left: bool = False
    """The board is proven to be elsewhere: this node reports without it, and another node has
    it."""
    peers: tuple[str, ...] = ()
    """Neighbours over NVLink or IMEX, as `node/uuid`."""
    roster: Roster | None = None
    """None while it is unknown which GPUs the node has."""
    cordons: tuple[str, ...] = ()
    """Others' cordons and quarantines of the node, in words."""
    ignoring: tuple[str, ...] = ()
    """Claims that were given a tainted device of it, as `namespace/name`."""
    remarks: tuple[str, ...] = ()
    """What its links report about the device at their other end: no fault of this GPU."""
    no_rebind: str = ""
    """Why it is not known under which names its hardware is now, "" when it is."""
    distrust: str = ""
    """Why what an untainting rests on cannot be trusted now: nothing may end."""
    no_disruption: str = ""
    """Why no pods may begin to be evicted now, beside a budget."""
    brakes_unknown: str = ""
    """Why it is unknown whether a stop, a window, a hold or a budget defers anything: part of the
    above."""
    unbound: str = ""
    """Why no device stands for a GPU that is published."""
    rules_served: bool = True
    """False: `rules` are none because no DeviceTaintRules are served."""
    rules_known: bool = True
    """False: rules may stand that are not among `rules`."""
    unseen: tuple[Rule, ...] = ()
    """Ours as they were last seen, while no DeviceTaintRules are served."""
    confirmable: bool = False
    """The report carries the hash by which its agent can confirm it."""
    renewals: tuple[datetime, ...] = ()
    """When the agent last confirmed the present report, by our clock."""
    overtaken: bool = False
    """The agent has last confirmed another report than the one that is known."""
    behind: timedelta | None = None
    """How far the node's clock is behind ours; None where its agent has no Lease to tell."""
    blank: Unknown | None = None
    """Why nothing but its incidents and rules is known; None where everything was looked into."""


DeferredBy = Literal[
    "Budget",
    "Correlation",
    "EmergencyStop",
    "Maintenance",
    "Human",
    "Blindness",
    "PodOwner",
    "PodsUnknown",
]
"""Reason of the condition `Deferred`. `PodOwner`: pods must be drained elsewhere first.
`PodsUnknown`: a pod on the device is not listed, so its owner is not known."""
BY_PODS: frozenset[DeferredBy] = frozenset({"PodOwner", "PodsUnknown"})
"""What a pod on a device defers: evictions from there, and no repair of the node. Who creates a pod
can name any owner, and must not keep a sick GPU from repair by that."""
ONLY_NEW: frozenset[DeferredBy] = frozenset({*BY_PODS, "Budget"})
"""What defers what would begin, and stops no eviction that goes on."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """The notice that pods get before they are evicted, so that they can checkpoint."""

    settle: timedelta
    """From the last NoSchedule to the first eviction."""
    plan: Evict


ROUNDS = 3
"""Rounds of evictions of a device, each for pods that joined a claim after the one before. Then a
user looks: the controller of these pods does not know that the device is tainted."""


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """Which pods are evicted now, how, and since when."""

    pods: tuple[AffectedPod, ...] = ()
    """To be evicted by the Eviction API: under `Evict`, or where NoExecute does not reach them."""
    delete: frozenset[str] = frozenset()
    """UIDs of those that are deleted instead, because NoExecute would delete them."""
    plan: Evict | None = None
    """How the classes with `Evict` evict pods now; None while no class does."""
    notice: Notice | None = None
    """What comes for the pods of devices that are tainted now; None where nothing does."""
    devices: tuple[Device, ...] = ()
    """Those whose pods a fault has evicted now, in whichever way."""
    resumes: bool = False
    """Evictions under `Evict` would begin anew: no pod was there, or something deferred them."""
    since: datetime | None = None
    """When the first eviction of the present pods was requested, as `evict.within` counts."""
    attempted: datetime | None = None
    """Until when evictions are known to have been requested."""
    rounds: tuple[DeviceRounds, ...] = ()
    """Rounds of evictions so far, by device."""
    blocked: str = ""
    """Which pods are left once the time for evictions is over, and why."""

    @property
    def joined_too_often(self) -> frozenset[str]:
        """Devices that new pods joined too often after evictions: a user has to look."""
        return frozenset(
            counted.device
            for counted in self.rounds
            if counted.rounds > ROUNDS and counted.free_since_time is None
        )


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """What would repair a GPU, and for which of that a repair of the node is called for."""

    needs: Need = "nothing"
    calls: Need = "nothing"
    """The same, as far as classes in mode enforce need it: a repair may be called for that."""
    would_call: Need = "nothing"
    """A node-level act that enforce mode would call for, and the mode in force does not."""
    would_insist: bool = False
    """A repair would be called for after the deadline, even while pods hold a GPU of the node."""
    insists: Need = "nothing"
    """The same, as far as classes that may evict need it: pods are waited for until the deadline
    only."""
    stays: bool = False
    """It is requested already, and stays so in a milder mode while two policies disagree."""
    deferred: str = ""
    """Why no repair of the node may be called for it now, beside what is deferred altogether."""
    deferred_by: DeferredBy = "Budget"
    """What defers the call."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What the incident records, whatever is done about it."""

    seen_through: datetime | None = None
    """The youngest signal that this answer has taken into account, by the node's clock."""
    seen: tuple[SeenSignal, ...] | None = None
    """The signals that it has taken into account."""
    is_new: bool = False
    """A signal is new, whatever its date: it may be dated before `seen_through`."""
    would: tuple[WouldTaint, ...] = ()
    """What enforce mode would do in the end and the mode in force does not."""
    awaits: str = ""
    """Which evidence is waited for, or was, before a doubtful fault is tainted."""
    row: str = ""
    """Row of the policy that led."""
    recurrence: int = 0
    """Which incident of this GPU within the repeat window it is."""
    confirmation: str = ""
    """Why recovery alone does not untaint it; "" when it does, or a user has confirmed."""
    sticky: bool = False
    """Recovery alone does not untaint it, whatever was confirmed since."""
    unprovable: bool = False
    """Only the kernel log reports the fault, and no other source can confirm it: a user looks."""
    unproven: str = ""
    """What the agent has still to confirm, once the soak time is over."""
    probation: timedelta = timedelta()
    """How long a new fault counts as a relapse, once this is closed."""
    repair_seen: str = ""
    """What shows that its repair is under way now."""
    intents: tuple[IntentRecord, ...] = ()
    """What users want, and what became of it."""
    placed: tuple[Target, ...] = ()
    """Slices that errors of one instance meant when they were new."""


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """The desired state of one GPU. `incident` is None when there is no incident to write."""

    uuid: str
    incident: Incident | None = None
    rules: tuple[Rule, ...] = ()
    """Rules that should stand, complete: a stored rule that is not here should go."""
    hardware: tuple[Hardware, ...] = ()
    """What the incident has tainted, with the strongest effect ever stored."""
    rebound: tuple[Rule, ...] = ()
    """Those of `rules` that follow tainted hardware to another name: no new disruption."""
    goal: Effect = "None"
    """The strongest effect that enforce mode goes for."""
    pending: bool = False
    """Enforce mode has not reached its goal: it waits for evidence, or for the settle time."""
    verified: bool = False
    """Health has held for the whole soak time, and the agent has confirmed it."""
    closing: bool = False
    """Recovery is verified: the rules go, then the incident is closed."""
    ending: str = ""
    """Why the incident ends without verified recovery: the rules go, then it is closed."""
    duplicates: tuple[Incident, ...] = ()
    """Younger open incidents of the same GPU: they are closed."""
    reason: str = ""
    """Why, in a sentence."""
    remarks: tuple[str, ...] = ()
    """What of `reason` is not about the next step, and so is true where that is deferred, too."""
    deferred: str = ""
    """What is deferred, and why."""
    deferred_by: DeferredBy = "Budget"
    """What defers it, when something is deferred."""
    wake_at: datetime | None = None
    """When time alone changes the answer."""
    eviction: Eviction = Eviction()
    repair: Repair = Repair()
    record: Record = Record()
    undecided: Unknown | None = None
    """Why nothing is decided about it: `rules` are those that stand, and its incident records the
    reason."""

    @property
    def held_back(self) -> bool:
        """Evictions that go on are deferred too, not only those that would begin."""
        return bool(self.deferred) and self.deferred_by not in ONLY_NEW

    @property
    def repair_held_back(self) -> str:
        """What is deferred altogether, and with it a call for repair of the node."""
        return "" if self.deferred_by in BY_PODS else self.deferred

    @property
    def emptying(self) -> frozenset[Device]:
        """Devices that are to be emptied now: under NoExecute, or evicted from."""
        return frozenset(
            rule.device
            for rule in self.rules
            if rule.effect == "NoExecute"
            or (rule.effect == "Evict" and rule.device in self.eviction.devices)
        )
