"""One GPU's case: what is known of it, and what should become of it. Values only. Pure."""

from datetime import datetime

import msgspec

from exporter.report import GpuHealth
from exporter.slices import SliceDevice
from remediator.fault import Verdict
from remediator.incident import Incident, PodHold
from remediator.taints import Effect, Rule


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known about one GPU at one moment."""

    node: str
    uuid: str
    verdict: Verdict
    gpu: GpuHealth | None = None
    """None when the node's report does not speak of it now."""
    inventory: tuple[SliceDevice, ...] = ()
    incidents: tuple[Incident, ...] = ()
    """Of this GPU, first episode first."""
    rules: tuple[Rule, ...] = ()
    """Ours, for this GPU, as stored."""
    holds: tuple[PodHold, ...] = ()
    """Who holds this GPU or a slice of it."""


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """What should be so for one GPU. `incident` is None when there is no story to tell."""

    uuid: str
    incident: Incident | None = None
    rules: tuple[Rule, ...] = ()
    """Rules that should stand, complete: a stored rule that is not here should go."""
    would: Effect | None = None
    """The effect that enforce mode would want in the end, None while it waits."""
    closing: bool = False
    """Recovery is verified: the rules go, then the incident is closed."""
    wake_at: datetime | None = None
    """When time alone changes the answer."""
    held: str = ""
    """What the budget holds back, and why."""
    reason: str = ""
    """Why, in a sentence."""
