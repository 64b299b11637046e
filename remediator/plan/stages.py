"""What the stages of a decision hand on, about one GPU: one type for each, and none is changed.

    demanded ─► granted ─► planned ─► status and steps

What is *demanded* follows from the GPU alone. What is *granted* of it is cut to what may be done
now. What is *planned* says which pods are evicted for that.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal

import msgspec

from exporter.model.device import Device
from remediator.diagnose.fault import Need, Unknown, Unprovable
from remediator.model.incident import Incident
from remediator.model.incident_status import (
    AffectedPod,
    DeviceEvictions,
    SeenSignal,
    Target,
    WouldTaint,
)
from remediator.model.intent import IntentRecord
from remediator.model.taint_rule import Effect, Rule
from remediator.policy.table import Evict

CourseKind = Literal[
    "no incident",
    "elsewhere",
    "undecided",
    "ends",
    "releases",
    "closes",
    "unknown",
    "stands",
    "ignored",
]
"""`releases`: recovery is verified, which is stored before a rule goes. `closes`: that is stored.
`ends`: without verified recovery. An incident that ends or closes does so after its rules.
`undecided`: nothing is decided about it, and all stays as it stands."""
DeferredBy = Literal[
    "Budget",
    "Correlation",
    "EmergencyStop",
    "Maintenance",
    "Human",
    "Blindness",
    "RulesNotServed",
    "RuleRefused",
    "PodOwner",
    "PodsUnknown",
]
"""Reason of the condition `Deferred`; `DEFERRAL_REASONS` says what each means."""


class DeferralReason(msgspec.Struct, frozen=True):
    """One reason, and what waits for it besides what would begin."""

    meaning: str
    """In a few words, for the texts of metrics."""
    ongoing: bool
    """Evictions by request that go on are stopped, too."""
    repair: Literal["goes on", "joins", "waits"]
    """A call for repair of the node. It `joins` that of another GPU of the node, for which nothing
    is deferred: the node is repaired once for both."""


DEFERRAL_REASONS: Mapping[DeferredBy, DeferralReason] = {
    "Human": DeferralReason("a hold", ongoing=True, repair="waits"),
    "Blindness": DeferralReason(
        "a collection, the clock or a new leader's policy cannot be trusted",
        ongoing=True,
        repair="waits",
    ),
    "EmergencyStop": DeferralReason("of the namespace or the policy", ongoing=True, repair="waits"),
    "Maintenance": DeferralReason("a window of the policy", ongoing=True, repair="waits"),
    # A wave or a budget stops what begins. What it has let begin goes on: the time of `within`
    # counts.
    "Correlation": DeferralReason(
        "one cause on many nodes, or a change", ongoing=False, repair="waits"
    ),
    "Budget": DeferralReason("too many GPUs at once", ongoing=False, repair="joins"),
    # Nothing is evicted without rules, and a node is repaired all the same.
    "RulesNotServed": DeferralReason(
        "the cluster serves no DeviceTaintRules", ongoing=False, repair="goes on"
    ),
    "RuleRefused": DeferralReason(
        "the API server refuses the rule of a device", ongoing=False, repair="goes on"
    ),
    # Who creates a pod can name any owner, and must not keep a sick GPU from repair by that.
    "PodOwner": DeferralReason("pods that Slurm must drain first", ongoing=False, repair="goes on"),
    "PodsUnknown": DeferralReason(
        "a pod on the device is not listed, so its owner is not known",
        ongoing=False,
        repair="goes on",
    ),
}
"""From what stops most to what stops least: of several reasons the first is shown."""


def deferral_reasons_in_words() -> str:
    return ", ".join(f"{name} ({reason.meaning})" for name, reason in DEFERRAL_REASONS.items())


class Deferral(msgspec.Struct, frozen=True):
    """What defers something, and why."""

    by: DeferredBy
    why: str
    until: datetime | None = None
    """When to decide again; None: something else than time ends it."""
    behind: DeferredBy | None = None
    """What would defer it next. Not why: the figures of a budget would change what is stored."""

    @property
    def in_words(self) -> str:
        return f"{self.why} (behind it: {self.behind})" if self.behind else self.why


class Wake(msgspec.Struct, frozen=True):
    """When to decide again though nothing has changed, and what for."""

    at: datetime
    why: str


def first_wake(*wakes: Wake | None) -> Wake | None:
    return min((wake for wake in wakes if wake), key=lambda wake: wake.at, default=None)


class Course(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What becomes of the incident of a GPU."""

    kind: CourseKind
    reason: str
    """Why, in a sentence."""
    remarks: tuple[str, ...] = ()
    """What of `reason` is not about the next step, and so is true where that is deferred, too."""
    verified: bool = False
    """Health has held for the whole soak time, and the agent has confirmed it."""
    pending: bool = False
    """Enforce mode has not reached its goal: it waits for evidence, or for the settle time."""

    @cached_property
    def is_over(self) -> bool:
        return self.kind in ("ends", "closes")


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """The notice that pods get before they are evicted, so that they can checkpoint."""

    settle: timedelta
    """From the last NoSchedule to the first eviction."""
    plan: Evict
    """The mildest of their classes: pods that are evicted by request get that much time."""
    soonest: Evict
    """That of the class that deletes pods first."""


class EvictionDemand(msgspec.Struct, frozen=True, kw_only=True):
    """From which devices pods are to be evicted now, and how."""

    notice: Notice | None = None
    """What comes for the pods of devices that are tainted now; None where nothing does."""
    plan: Evict | None = None
    """How the classes with `Evict` evict pods now; None while no class does."""
    devices: tuple[Device, ...] = ()
    """Those whose pods a fault has evicted now, in whichever way."""
    resumes: bool = False
    """Evictions under `Evict` would begin anew: no pod was there, or something deferred them."""


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
    away: bool = False
    """The board seems to be in this machine no more: nothing is called for, and what was needed is
    remembered, in case that it is."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What the incident records, whatever is done about it."""

    seen_through: datetime | None = None
    """The youngest signal that this answer has taken into account, by the node's clock."""
    seen: tuple[SeenSignal, ...] | None = None
    """The signals that it has taken into account."""
    is_new: bool = False
    """A signal is new, whatever its date: it may be dated before `seen_through`."""
    would: tuple[WouldTaint, ...] = ()
    """What enforce mode would do in the end, and the mode in force or the cluster does not."""
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
    unprovable: Unprovable | None = None
    """Why no other source can confirm what only the kernel log reports: a user looks."""
    end_unreported: str = ""
    """Why no source will report that the fault is over: a user is needed; "" while one may."""
    probation: timedelta = timedelta()
    """How long a new fault counts as a relapse, once this is closed."""
    repair_seen: str = ""
    """What shows that its repair is under way now."""
    intents: tuple[IntentRecord, ...] = ()
    """What users want, and what became of it."""
    slices: tuple[Target, ...] = ()
    """Slices that errors of one instance meant when they were new."""


class Demanded(msgspec.Struct, frozen=True, kw_only=True):
    """What should be so for one GPU, whatever else happens in the cluster."""

    uuid: str
    course: Course
    incident: Incident | None = None
    """With what was found now; the rest of it is as stored. None: there is none to write."""
    duplicates: tuple[Incident, ...] = ()
    """Younger open incidents of the same GPU: they are closed."""
    rules: tuple[Rule, ...] = ()
    """Rules that should stand, complete: a stored rule that is not here should go."""
    renamed: tuple[Rule, ...] = ()
    """Those of `rules` that follow tainted hardware to another name: no new disruption."""
    goal: Effect = "None"
    """The strongest effect that enforce mode goes for."""
    deferrals: tuple[Deferral, ...] = ()
    """What it waits for whatever the others do: a user's hold, or a cap of its faults."""
    wake: Wake | None = None
    eviction: EvictionDemand = EvictionDemand()
    repair: Repair = Repair()
    record: Record = Record()
    undecided: Unknown | None = None
    """Why nothing is decided about it: `rules` are those that stand, and its incident records the
    reason."""


class Granted(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What may be done of that now: no device gets less than what it has and may keep."""

    demanded: Demanded
    rules: tuple[Rule, ...]
    deferrals: tuple[Deferral, ...] = ()
    evicts: tuple[Device, ...] = ()
    """Devices whose pods may be evicted now."""
    call: Deferral | None = None
    """Why no repair of the node may be called for it now, beside what is deferred altogether."""

    @cached_property
    def uuid(self) -> str:
        return self.demanded.uuid

    @cached_property
    def incident(self) -> Incident | None:
        return self.demanded.incident

    @cached_property
    def wake(self) -> Wake | None:
        each = (*self.deferrals, *((self.call,) if self.call else ()))
        ends = (Wake(deferral.until, deferral.why) for deferral in each if deferral.until)
        return first_wake(self.demanded.wake, *ends)

    @cached_property
    def resumes(self) -> bool:
        """Evictions by request begin anew."""
        return self.demanded.eviction.resumes and bool(self.evicts)

    @cached_property
    def deferred(self) -> str:
        """What is deferred, and why; "" where nothing is."""
        return "; ".join(deferral.in_words for deferral in self.deferrals)

    @cached_property
    def deferred_by(self) -> DeferredBy:
        order = tuple(DEFERRAL_REASONS)
        first = min(self.deferrals, key=lambda each: order.index(each.by), default=None)
        # Of a condition that is False the reason is not shown.
        return first.by if first else "Budget"

    @cached_property
    def held_back(self) -> bool:
        """Evictions that go on are deferred too, not only those that would begin."""
        return any(DEFERRAL_REASONS[deferral.by].ongoing for deferral in self.deferrals)

    @cached_property
    def repair_held_back(self) -> str:
        """What is deferred altogether, and with it a call for repair of the node."""
        free = all(DEFERRAL_REASONS[deferral.by].repair == "goes on" for deferral in self.deferrals)
        return "" if free else self.deferred

    @cached_property
    def may_join(self) -> bool:
        """It may join a call for repair that another GPU of its node makes."""
        each = (*self.deferrals, *((self.call,) if self.call else ()))
        return all(DEFERRAL_REASONS[deferral.by].repair != "waits" for deferral in each)

    @cached_property
    def emptying(self) -> frozenset[Device]:
        """Devices that are to be emptied now: under NoExecute, or evicted from.

        A hold stops requests, so it leaves nothing to be emptied under `Evict`.
        """
        return frozenset(
            rule.device
            for rule in self.rules
            # Kubernetes evicts for NoExecute by itself. For Evict it sees a NoSchedule: only
            # requests evict.
            if rule.effect == "NoExecute" or (rule.effect == "Evict" and rule.device in self.evicts)
        )


ROUNDS = 3
"""Rounds of evictions of a device, each for pods that joined a claim after the one before. Then a
user looks: the controller of these pods does not know that the device is tainted."""


BlockedBy = Literal["DisruptionBudget", "PodsJoin", "PodsStay"]
"""Reason of the condition `EvictionBlocked`. `PodsStay`: NoExecute removes none of those left."""


class Planned(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Which pods are evicted for what is granted, and since when."""

    granted: Granted
    pods: tuple[AffectedPod, ...] = ()
    """To be evicted by the Eviction API: under `Evict`, or where NoExecute does not reach them."""
    delete: frozenset[str] = frozenset()
    """UIDs of those that are deleted instead, because NoExecute would delete them."""
    evictions: tuple[DeviceEvictions, ...] = ()
    """By device, since when and in which round."""
    blocked: str = ""
    """Which pods are left once the time for evictions is over, and why."""
    blocked_by: BlockedBy = "DisruptionBudget"
    look_again: datetime | None = None
    """When to look at the pods again: no event reports that one may be evicted now."""

    @cached_property
    def wake(self) -> Wake | None:
        pods = Wake(self.look_again, "pods are evicted by request") if self.look_again else None
        return first_wake(self.granted.wake, pods)

    @cached_property
    def demanded(self) -> Demanded:
        return self.granted.demanded

    @cached_property
    def uuid(self) -> str:
        return self.granted.uuid

    @cached_property
    def incident(self) -> Incident | None:
        return self.granted.incident

    @cached_property
    def course(self) -> Course:
        return self.demanded.course

    @cached_property
    def message(self) -> str:
        """What becomes of the GPU and why, in a sentence; what is deferred comes first."""
        deferred = self.granted.deferred
        return "; ".join((deferred, *self.course.remarks)) if deferred else self.course.reason

    @cached_property
    def record(self) -> Record:
        return self.demanded.record

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        return self.granted.rules

    @cached_property
    def joined_too_often(self) -> frozenset[str]:
        """Devices that new pods joined too often after evictions: a user has to look."""
        return frozenset(
            entry.device
            for entry in self.evictions
            # Not `>=`: the pods of the last round are evicted as well, and those after it wait.
            if entry.rounds > ROUNDS and entry.free_since_time is None
        )
