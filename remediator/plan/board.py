"""One board: all that is known about one GPU at one moment, and the machine that it is in.

A board is hardware. Its names are bound to it in `boards` and nowhere later.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from exporter.model.device import Device
from exporter.model.node_health import GpuHealth
from exporter.model.resource_slices import PoolKey, SliceDevice
from remediator.diagnose.fault import Unknown, Verdict
from remediator.model.claim import Absent
from remediator.model.incident import Incident
from remediator.model.incident_status import AffectedPod
from remediator.model.node import NodeFacts
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import ForeignRule, Rule, rule_name
from remediator.plan.view import RefusedRule, Trust
from remediator.policy.place import ANYWHERE, Place

RENEWALS_NEEDED = 3
"""Renewals that confirm a report before a soak counts as proven by the agent."""


class Roster(msgspec.Struct, frozen=True, kw_only=True):
    """Which GPUs a node has now, by a report that is believed and whose NVML works."""

    boot_id: str
    slots: Mapping[str, str]
    """PCI bus id of each GPU that NVML lists now, by UUID."""
    known: frozenset[str]
    """UUIDs of all GPUs that the report or the node's slices name, listed or not."""
    aside: bool = False
    """NVIDIA's driver does not hold all GPUs: one that is not listed may be among the others."""
    complete: bool | None = None
    """Each GPU on the node's PCI bus is one that NVML lists, and none is missing; None: the bus
    could not be read."""
    nameless: bool = False
    """A GPU without a known UUID is here, or may be: it did not start, or another driver holds it.
    It would look new once it has a name."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent of a node has confirmed by its Lease."""

    confirmable: bool = False
    """The report carries the hash by which its agent can confirm it."""
    renewals: tuple[datetime, ...] = ()
    """When the agent last confirmed the present report, by our clock."""
    overtaken: bool = False
    """The agent has last confirmed another report than the one that is known."""
    behind: timedelta | None = None
    """How far the node's clock is behind ours; None where its agent has no Lease to tell."""


class OutOfReach(msgspec.Struct, frozen=True):
    """A device that a node publishes and that no rule of ours may taint."""

    device: SliceDevice
    why: str


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One node, as far as it is the same for all of its boards."""

    node: str
    trust: Trust = Trust()
    gone: bool | None = False
    """No Node has this name now, and nothing reports its hardware; None: Nodes are not read."""
    # Another boot id counts as a reboot, and so as a sign of repair: a report that is not believed
    # must show none.
    boot_id: str = ""
    reported_at: datetime | None = None
    """When the report was made, by the node's clock. None, as an empty boot id: there is none."""
    believed: bool = False
    """The node's report can be believed, whichever GPUs it lists."""
    nvml_up: bool = False
    """That report's NVML answered and left no GPU without a name, so that one missing in it is
    really missing."""
    roster: Roster | None = None
    """None while it is unknown which GPUs the node has."""
    agent: Agent = Agent()
    inventory: tuple[SliceDevice, ...] = ()
    """What the node publishes and may have tainted; what it published last, while its DRA driver is
    away."""
    out_of_reach: tuple[OutOfReach, ...] = ()
    """What else it publishes, under names that others may have as well."""
    contested: frozenset[PoolKey] = frozenset()
    """Pools of its devices and rules into which others publish as well."""
    pods: tuple[PodFacts, ...] | None = None
    """Pods of the node; None while they were not listed."""
    facts: NodeFacts | None = None
    """The Node as stored; None where it is gone, or Nodes are not read."""


class BoardRules(msgspec.Struct, frozen=True, kw_only=True):
    """The taint rules on the devices of one board."""

    stored: tuple[Rule, ...] = ()
    """Ours."""
    leftovers: tuple[Rule, ...] = ()
    """Ours as well, on devices that `stored` has a rule for already: to be deleted."""
    unseen: tuple[Rule, ...] = ()
    """Ours as they were last seen, while no DeviceTaintRules are served."""
    served: bool = True
    """False: `stored` is empty because no DeviceTaintRules are served."""
    known: bool = True
    """False: rules may stand that are not among `stored`."""
    foreign: tuple[ForeignRule, ...] = ()
    """Rules that are not Draguard's."""
    refused: Mapping[str, RefusedRule] = {}
    """By name: rules of ours, on any board, that may not be created or raised now."""
    irremovable: Mapping[str, RefusedRule] = {}
    """The same for those that may not be lowered or removed."""

    def refusal(self, device: Device) -> RefusedRule | None:
        """Return why the rule of a device is not as it should be, None where it can be written."""
        if not self.refused:  # nearly always
            return None
        names = (rule.name for rule in self.stored if rule.device == device)
        return self.refused.get(next(names, rule_name(device)))


class Users(msgspec.Struct, frozen=True, kw_only=True):
    """Who uses the devices of one board."""

    holders: tuple[AffectedPod, ...] = ()
    """Pods that hold this GPU or a slice of it."""
    gang: tuple[AffectedPod, ...] = ()
    """Pods that hold none of it and are affected with a holder, as its peer: reported, never
    evicted."""
    absent: tuple[Absent, ...] = ()
    """For what its devices are reserved without a pod that is listed."""
    refusals: Mapping[str, str] = {}
    """Pod UID to why the Eviction API refused its last eviction."""
    tolerations: Mapping[tuple[str, str], timedelta] = {}
    """By pod UID and device, for how long our taint there is tolerated as NoExecute."""
    ignoring: tuple[str, ...] = ()
    """Claims that were given a tainted device of it, as `namespace/name`."""


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """Where one board is seen."""

    reported: bool = False
    """The node's report, believed or not, lists it."""
    published: bool = False
    """A slice has it now, so that claims alone give it out."""
    unbound: str = ""
    """Why a device that is published of it cannot be tainted."""
    elsewhere: tuple[str, ...] = ()
    """Other nodes that publish it, or report it with a fresh report."""
    also_at: tuple[str, ...] = ()
    """Nodes that publish it as well, without a fresh report of it: it was moved from there, or this
    node lies."""
    decided_by: str = ""
    """Another node that decides about it; "": this one does."""
    left: bool = False
    """It is proven to be elsewhere: this node reports without it, and another node has it."""


# `dict=True`: a cached_property keeps its value in the instance's dict, which a Struct lacks.
class Board(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One GPU."""

    uuid: str
    machine: Machine
    verdict: Verdict
    gpu: GpuHealth | None = None
    """None when the current report does not list it, or the report cannot be believed."""
    incidents: tuple[Incident, ...] = ()
    """Of this GPU, first incident first."""
    rules: BoardRules = BoardRules()
    users: Users = Users()
    place: Place = ANYWHERE
    unusable: str = ""
    """Why the node's report shows nothing about this GPU."""
    presence: Presence = Presence()
    peers: tuple[str, ...] = ()
    """Neighbours over NVLink or IMEX, as `node/uuid`."""
    remarks: tuple[str, ...] = ()
    """What its links report about the device at their other end: no fault of this GPU."""
    undecidable: Unknown | None = None
    """Why nothing but its incidents and rules is known; None where everything was looked into."""

    @cached_property
    def node(self) -> str:
        return self.machine.node

    @cached_property
    def trust(self) -> Trust:
        return self.machine.trust

    @cached_property
    def inventory(self) -> tuple[SliceDevice, ...]:
        return self.machine.inventory

    @cached_property
    def pods(self) -> tuple[PodFacts, ...] | None:
        return self.machine.pods

    @cached_property
    def boot_id(self) -> str:
        """Of the report; "" when it shows nothing about this GPU."""
        return "" if self.unusable else self.machine.boot_id

    @cached_property
    def reported_at(self) -> datetime | None:
        """When the report was made, by the node's clock; None when it shows nothing of this GPU."""
        return None if self.unusable else self.machine.reported_at
