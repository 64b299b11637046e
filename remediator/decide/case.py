"""One GPU's case: what is known of it, and what should become of it. Values only. Pure."""

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from exporter.report import GpuHealth
from exporter.slices import SliceDevice
from remediator.judge.fault import Need, Unknown, Verdict
from remediator.objects.incident import (
    AnswerRecord,
    DeletedRule,
    Incident,
    PodHold,
    Target,
    WouldFence,
)
from remediator.objects.pods import PodFacts
from remediator.objects.taints import Effect, ForeignRule, Rule
from remediator.policy.table import ANYWHERE, Place


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known about one GPU at one moment."""

    node: str
    uuid: str
    verdict: Verdict
    gpu: GpuHealth | None = None
    """None when the node's report does not speak of it now, or cannot be believed."""
    inventory: tuple[SliceDevice, ...] = ()
    """What the node publishes."""
    incidents: tuple[Incident, ...] = ()
    """Of this GPU, first episode first."""
    rules: tuple[Rule, ...] = ()
    """Ours, for this GPU, as stored."""
    leftovers: tuple[Rule, ...] = ()
    """Ours as well, on devices that `rules` has a rule for already: they are to go."""
    holds: tuple[PodHold, ...] = ()
    """Who holds this GPU or a slice of it."""
    gang: tuple[PodHold, ...] = ()
    """Who holds none of it and is hit with a holder, as its peer: told of, never moved."""
    place: Place = ANYWHERE
    boot_id: str = ""
    """Of the report; "" when there is none to believe."""
    reported_at: datetime | None = None
    """When the report was made, by the node's clock; None when there is none to believe."""
    pods: tuple[PodFacts, ...] | None = None
    """Pods of the node; None while they were not listed."""
    foreign: tuple[ForeignRule, ...] = ()
    """Other people's rules on devices of this GPU."""
    node_gone_since: datetime | None = None
    """Since when the API server has no Node of this name."""
    node_gone: bool = False
    """Nodes are read, and there is none of this name now."""
    heard: bool = False
    """The node's report can be believed, whether or not it speaks of this GPU."""
    nvml_up: bool = False
    """That report's NVML answered, so that a GPU missing in it is really missing."""
    reported: bool = False
    """The node's report, believed or not, speaks of this GPU."""
    elsewhere: tuple[str, ...] = ()
    """Other nodes that publish this GPU, or report it and are heard of."""
    left: bool = False
    """The board is proven to be elsewhere: this node is heard of without it, another has it."""
    peers: tuple[str, ...] = ()
    """Neighbours over NVLink or IMEX, as `node/uuid`."""
    cordons: tuple[str, ...] = ()
    """Others' cordons and quarantines of the node, in words."""
    remarks: tuple[str, ...] = ()
    """What its links say of the device at their other end: no fault of this GPU."""
    blank: Unknown | None = None
    """Why nothing but its incidents and rules is known; None where everything was looked into."""


HeldBy = Literal["Budget", "Correlation", "EmergencyStop", "Maintenance", "Human"]
"""Reason of the condition `Held`."""


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """What should be so for one GPU. `incident` is None when there is no story to tell."""

    uuid: str
    incident: Incident | None = None
    rules: tuple[Rule, ...] = ()
    """Rules that should stand, complete: a stored rule that is not here should go."""
    would: tuple[WouldFence, ...] = ()
    """What enforce mode would do in the end and the mode in force does not."""
    pending: bool = False
    """Enforce mode has not reached its goal: it waits for evidence, or for the settle time."""
    closing: bool = False
    """Recovery is verified: the rules go, then the incident is closed."""
    seen_through: datetime | None = None
    """The youngest signal that this answer has taken into account, by the node's clock."""
    wake_at: datetime | None = None
    """When time alone changes the answer."""
    held: str = ""
    """What is held back, and why."""
    held_by: HeldBy = "Budget"
    """By whom, when something is held back."""
    evict: tuple[PodHold, ...] = ()
    """Pods to be moved by the Eviction API, because NoExecute does not reach them."""
    awaits: str = ""
    """Which evidence is waited for, or was, before a doubtful fault is fenced."""
    needs: Need = "nothing"
    """What would repair it."""
    calls: Need = "nothing"
    """The same, as far as classes in mode enforce ask for it: others may be called for that."""
    call_held: str = ""
    """Why nobody may be called to repair the node for it now, beside what is held altogether."""
    reason: str = ""
    """Why, in a sentence."""
    goal: Effect = "None"
    """The strongest effect that enforce mode goes for."""
    row: str = ""
    """Row of the policy that led."""
    ending: str = ""
    """Why the story ends without verified recovery: the rules go, then the incident is closed."""
    recurrence: int = 0
    """Which episode of this GPU within the repeat window it is."""
    person: str = ""
    """Why recovery alone does not release it; "" when it does, or a person has confirmed."""
    sticky: bool = False
    """Recovery alone does not release it, whatever was confirmed since."""
    verified: bool = False
    """Health has held for the whole soak time."""
    probation: timedelta = timedelta()
    """How long a new fault counts as a relapse, once this is closed."""
    repair: str = ""
    """What shows that somebody repairs it now."""
    answers: tuple[AnswerRecord, ...] = ()
    """What people have said."""
    deleted: tuple[DeletedRule, ...] = ()
    """Rules that a person took away, and that are not made again yet."""
    placed: tuple[Target, ...] = ()
    """Slices that errors of one instance meant when they were new."""
    duplicates: tuple[Incident, ...] = ()
    """Younger open incidents of the same GPU: they are closed."""
    undecided: Unknown | None = None
    """Why nothing is decided about it: `rules` are those that stand, and its story says so."""
