"""What is known of a pod, and what a layer says of it. Values only. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal

import msgspec

from allocation.demand import Demand
from allocation.model.claims import Claim, Result
from allocation.model.device_use import DeviceUse
from allocation.model.events import Event
from allocation.model.pods import NodeWhy, Pod
from allocation.plugin import Supply
from allocation.reasons import Why
from allocation.remedies import Change
from allocation.summary import Summary, Verdict
from exporter.model.device import Device

Layer = Literal[
    "Admission",
    "Scheduling",
    "Allocation",
    "Binding",
    "Preparation",
    "Runtime",
    "Device",
    "Running",
]
"""In the order in which a pod passes them."""

WaitReason = (
    Literal[
        "Deleting",
        "SchedulingGated",
        "TemplateMissing",
        "ClaimNotCreated",
        "ClaimMissing",
        "ClaimDeleting",
        "NoPod",
        "Unused",
        "Reserved",
        "NotAllocated",
        "NoScheduler",
        "SchedulerError",
        "Insufficient",
        "OtherResources",
        "ClaimInUse",
        "NotRead",
        "BindingFailed",
        "BindingPending",
        "DriverDown",
        "PreparationFailed",
        "Preparing",
        "CdiDeviceMissing",
        "ContainerNotStarted",
        "Crashing",
        "Starting",
        "NotReady",
        "Idle",
        "DeviceTainted",
        "DeviceSick",
        "DeviceUnhealthy",
        "DeviceNotReady",
        "Running",
        "Finished",
    ]
    | Verdict
    | Why
)
"""For programs: the layer's own, or what the allocation says."""


class DeviceNote(msgspec.Struct, frozen=True):
    """What is known of the health of an allocated device, and from where."""

    device: Device
    reason: Literal["DeviceTainted", "DeviceSick"]
    """`DeviceSick`: Draguard has an open incident of its GPU."""
    text: str


class PodView(msgspec.Struct, frozen=True, kw_only=True):
    """A pod with all that the layers look at."""

    pod: Pod
    now: datetime
    claims: Mapping[str, Claim] = {}
    """By name: those that exist of the pod's."""
    templates: Mapping[str, bool] = {}
    """Whether each exists of those that its claims are to be made from; not in it: not read."""
    events: tuple[Event, ...] = ()
    """On the pod and its claims."""
    demand: Demand = Demand(())
    elsewhere: Mapping[str, tuple[NodeWhy, str]] | None = None
    """Where all of its allocated claims are, if it may run on none of these nodes, and why."""
    summary: Summary | None = None
    """Of the claims that wait; None: of none, or see `unread`."""
    changes: tuple[Change, ...] = ()
    """Each alone would make it schedulable, the nearest miss first."""
    supplies: tuple[Supply, ...] = ()
    """Of extended resources of device plugins."""
    unread: tuple[str, ...] = ()
    """Rights that are missing, of what the allocation rests on."""
    unknown: str = ""
    """What else keeps it from being known: something that says nothing to the scheduler either."""
    health: tuple[DeviceNote, ...] = ()
    uses: tuple[DeviceUse, ...] | None = None
    """What the kubelet has given to it, by the exporter of its node; None: not known."""

    def claims_of_pod(self) -> Iterator[Claim]:
        """Yield the claims of the pod that exist, each once."""
        names = dict.fromkeys(self.pod.claim_names().values())
        yield from (self.claims[name] for name in names if name in self.claims)

    def results(self) -> Iterator[tuple[Claim, Result]]:
        """Yield each allocated device."""
        for claim in self.claims_of_pod():
            yield from ((claim, result) for result in claim.results)

    def last_event(self, *reasons: str) -> Event | None:
        """Return the newest event for one of these reasons."""
        found = [each for each in self.events if each.reason in reasons]
        return max(
            found, key=lambda each: (each.last_seen is not None, each.last_seen), default=None
        )


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pod stands: the first layer that it has not passed."""

    layer: Layer
    reason: WaitReason
    message: str
    """One sentence."""
    since: datetime | None = None
    evidence: tuple[str, ...] = ()
    todo: tuple[str, ...] = ()
