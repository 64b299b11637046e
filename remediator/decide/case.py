"""One GPU's case: what is known of it, and what should become of it. Values only. Pure."""

from datetime import datetime
from typing import Literal

import msgspec

from exporter.report import GpuHealth
from exporter.slices import SliceDevice
from remediator.judge.fault import Need, Verdict
from remediator.objects.incident import Incident, PodHold, WouldFence
from remediator.objects.pods import PodFacts
from remediator.objects.taints import ForeignRule, Rule
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
    holds: tuple[PodHold, ...] = ()
    """Who holds this GPU or a slice of it."""
    place: Place = ANYWHERE
    boot_id: str = ""
    """Of the report; "" when there is none to believe."""
    pods: tuple[PodFacts, ...] | None = None
    """Pods of the node; None while they were not listed."""
    foreign: tuple[ForeignRule, ...] = ()
    """Other people's rules on devices of this GPU."""
    node_gone_since: datetime | None = None
    """Since when the API server has no Node of this name."""


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
    needs: Need = "nothing"
    """What would repair it."""
    reason: str = ""
    """Why, in a sentence."""
