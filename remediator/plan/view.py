"""What a decision is made from: one node at one moment, the fleet that budgets count, and trust.

What may be done on a node is one matrix of acts against what must be known for each (`NEEDED`). An
act is refused while anything in its row is in doubt: it then changes nothing, in neither direction.
A watch that is refused, gone or stale shows the cluster as it was; acting on that evicts the pods
of a healthy GPU after a renumbering. By a clock that is wrong everything may be old, and while two
policies disagree it is not known which of them stops what.

PodGroups, JobSets, ComputeDomains, Nodes and Events are in no row: without them the list of
affected pods is incomplete. That may delay an eviction (`pods`), and nothing else is wrong. Whether
a node is gone is unknown while Nodes are not read (`NodeView.gone`). What is in doubt about one GPU
alone is its board's.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal

import msgspec

from exporter.model.node_health import SCHEMA_VERSION, NodeHealth
from exporter.model.resource_slices import PoolKey, SliceDevice
from remediator.diagnose.fault import Fault
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.model.node import NodeFacts, is_call
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import EditedRule, ForeignRule, Rule
from remediator.policy.limits import Ground
from remediator.policy.table import Policy

WatchedKind = Literal["reports", "leases", "slices", "claims", "rules", "incidents"]
Blind = Mapping[WatchedKind, str]
"""By kind of object, why what is known of it cannot be trusted now. A kind that can be trusted is
not in it."""
Knowledge = WatchedKind | Literal["report", "clock", "policy"]
"""`report`: the node's own, present, fresh and of a schema that is known. `clock`: ours. `policy`:
that of the leader and that of this process are one."""
Act = Literal[
    "restrict",
    "rebind",
    "release",
    "disrupt",
    "begin a call",
    "name pods",
    "end a clock",
    "end a soak",
    "prune a report",
]
"""`rebind`: a taint follows its hardware to another name. `release`: a taint or an incident ends.
`disrupt`: pods begin to be evicted, by NoExecute or the Eviction API. `begin a call`: the repair of
a node becomes needed. `name pods`: who holds a device of the node. `prune a report`: that of a node
that is gone is deleted."""

_PLACE: tuple[WatchedKind, ...] = ("reports", "leases", "slices", "rules", "incidents")
NEEDED: Mapping[Act, tuple[tuple[Knowledge, ...], ...]] = {
    # NoSchedule ends no pod, so it waits neither for the clock nor for claims or another policy.
    "restrict": (_PLACE, ("report",)),
    # Slices alone say which hardware has a name, so a taint follows its GPU while the agent is
    # stale.
    "rebind": (("slices", "rules", "incidents"),),
    "release": (_PLACE,),
    "disrupt": ((*_PLACE, "claims"), ("clock",), ("policy",)),
    "begin a call": (("clock",), ("policy",)),
    "name pods": (("slices", "claims"),),
    "end a clock": (("clock",),),
    # The file of this process may have a shorter one than the leader before.
    "end a soak": (("clock",), ("policy",)),
    # A watch that lags proves neither that an agent is silent nor that no incident is open.
    "prune a report": (_PLACE, ("clock",)),
}
"""By act, groups of what it rests on: the first group with a doubt gives the reason."""


class Trust(msgspec.Struct, frozen=True):
    """What is in doubt on one node now, and so what must not be done there."""

    doubts: Mapping[Knowledge, str] = {}
    """Why each kind of knowledge cannot be trusted. What can be is not in it, or is ""."""

    def refusal(self, act: Act) -> str:
        """Return why an act must not be done now, "" when it may."""
        if not self.doubts:  # nearly always
            return ""
        for group in NEEDED[act]:
            if why := "; ".join(self.doubts[kind] for kind in group if self.doubts.get(kind)):
                return why
        return ""


Emptied = tuple[str, str]
"""UID of a rule, and the effect under which no pod is left."""
NODE_SHARE = 16
"""GPUs of one node that count in a total, however many it publishes: HGX machines have 8, trays of
GB200 4, few have more than 16. So a node that invents GPUs raises no cap by more than these."""


class GpuPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where one physical GPU is, for counting."""

    node: str
    pools: frozenset[str] = frozenset()
    """`driver/pool` of its devices."""
    classes: frozenset[str] = frozenset()
    """DeviceClasses through which its devices are claimed now."""
    domain: str = ""
    """NVLink domain: cluster UUID and clique of the fabric; "" for none."""
    product: str = ""
    """Product name and driver version; "" where it is not published."""


def names_on(ground: Ground, place: GpuPlace) -> Iterable[str]:
    """Return the grounds of one kind that a GPU stands on."""
    match ground:
        case "node":
            return (place.node,)
        case "pool":
            return place.pools
        case "class":
            return place.classes
        case "domain":
            return (place.domain,) if place.domain else ()
        case "product":
            return (place.product,) if place.product else ()
        case "cluster":
            return ("",)


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """When something changed on a node, as we saw it or its agent reports; None: unknown."""

    driver_at: datetime | None = None
    agent_at: datetime | None = None


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster beyond one node, as far as budgets need it."""

    rules: tuple[Rule, ...] = ()
    """Ours, of all nodes, as stored."""
    rules_served: bool = True
    """False: there are none in `rules`, and what open incidents record of theirs counts."""
    incidents: tuple[Incident, ...] = ()
    """Of all nodes: the open ones, and those that are closed and began within `LONGEST_RATE`.
    Older ones that are closed count for nothing and need not be here."""
    places: Mapping[str, GpuPlace] = {}
    """By GPU UUID, of every GPU that was published within the last 24 h."""
    totals: Mapping[tuple[Ground, str], int] = {}
    """GPUs on each ground, likewise, of each node no more than `NODE_SHARE`; the cluster's is under
    ("cluster", "")."""
    changes: Mapping[str, Changed] = {}
    """By node."""
    policy_changed_at: datetime | None = None
    """When more was permitted last, somewhere."""
    policies_before: tuple[Policy, ...] | None = None
    """What was in force within `after_change` before that; None: unknown."""
    seen_node: str = ""
    """The node decided about, if it is there: its incidents may still record that it is gone."""
    filled_again: frozenset[Emptied] = frozenset()
    """Rules of that node that have pods again, while their incidents record that no pod is left."""
    stopped: str = ""
    """The user and reason of the emergency stop; "" while it is off."""


class LeftReport(msgspec.Struct, frozen=True, kw_only=True):
    """The stored report of a node that is gone, which may be pruned."""

    name: str
    uid: str
    resource_version: str
    since: datetime
    """When it or its Node was there last, as far as this process knows: a Node that went before
    its start is known by the date in the report alone."""


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent of a node reports, and how that is known."""

    report: NodeHealth | None = None
    stale: str = ""
    """Why the report cannot be believed now, "" when it is fresh."""
    renewals: tuple[datetime, ...] = ()
    """When the agent last confirmed the present report by its Lease, by our clock."""
    overtaken: bool = False
    """Its last Lease confirms another report, which no watch has reported yet."""
    behind: timedelta | None = None
    """How far the node's clock is behind ours, by its agent's last Lease; None without one."""
    left: LeftReport | None = None
    """None where its Node is there, and while it is not this report's turn."""


class SliceView(msgspec.Struct, frozen=True, kw_only=True):
    """What is published about the GPUs of a node."""

    inventory: tuple[SliceDevice, ...] = ()
    """Devices that this node publishes."""
    last_published: tuple[SliceDevice, ...] = ()
    """Those that its report says were published last, in pools that it publishes nothing of now."""
    unbound: Mapping[str, str] = {}
    """By UUID of a reported GPU why no device of this node stands for it, though one is published.
    GPUs that no node publishes are not in it."""
    contested: frozenset[PoolKey] = frozenset()
    """Pools of its devices and rules into which others publish as well."""
    elsewhere: Mapping[str, tuple[str, ...]] = {}
    """GPU UUID to the other nodes that publish it, or report it with a fresh report."""
    also_at: Mapping[str, tuple[str, ...]] = {}
    """GPU UUID to nodes that publish it as well without a fresh report of it, where this node
    publishes and freshly reports it, or was the last to, and another one has its incident or rules:
    it was moved, or this node lies."""
    decided_by: Mapping[str, str] = {}
    """GPU UUID to the other node that decides about it; about all others this node does."""

    @property
    def devices(self) -> tuple[SliceDevice, ...]:
        """What this node publishes, or has published last: what its claims may name."""
        return (*self.inventory, *self.last_published)


class RefusedRule(msgspec.Struct, frozen=True):
    """A taint rule that the API server did not let us write, or delete, as it was to be."""

    why: str
    until: datetime
    """When it is tried again."""


class StoreView(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored about the GPUs of a node: incidents and taint rules."""

    incidents: tuple[Incident, ...] = ()
    """Of this node, and of GPUs that it reports."""
    unread: frozenset[str] = frozenset()
    """Names of incidents, of any node, that cannot be read as they are stored now."""
    rules: tuple[Rule, ...] = ()
    """Ours, for this node, one for each device."""
    leftovers: tuple[Rule, ...] = ()
    """Ours by their label, on a device that one of `rules` stands on already."""
    edited: tuple[EditedRule, ...] = ()
    """Ours for devices of this node, by their name, on devices that they were not made for."""
    rules_served: bool = True
    """Without DeviceTaintRules there are none here, whatever is stored."""
    unseen: tuple[Rule, ...] = ()
    """Ours as they were last seen, while no DeviceTaintRules are served."""
    foreign: tuple[ForeignRule, ...] = ()
    """Rules that are not Draguard's and select a device of this node."""
    refused: Mapping[str, RefusedRule] = {}
    """By name, on any node: rules of ours that may not be created or raised now."""
    irremovable: Mapping[str, RefusedRule] = {}
    """The same for those that may not be lowered or removed."""


class UsageView(msgspec.Struct, frozen=True, kw_only=True):
    """Who uses the devices of a node."""

    claims: tuple[Claim, ...] = ()
    """At least every claim that holds a device of this node."""
    pods: tuple[PodFacts, ...] | None = None
    """Pods of the node; None while they were not listed."""
    pods_live: bool = True
    """The list is of the newest state, not of the API server's cache."""
    pods_gone: frozenset[str] = frozenset()
    """UIDs of pods and PodGroups for which claims are reserved, and of which no pod exists any
    more: the reservation was not removed."""
    refusals: Mapping[str, str] = {}
    """Pod UID to why the Eviction API refused its last eviction."""


class NodeView(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything the decision about one node rests on, at one moment."""

    node: str
    agent: AgentView = AgentView()
    slices: SliceView = SliceView()
    stored: StoreView = StoreView()
    usage: UsageView = UsageView()
    facts: NodeFacts | None = None
    """The Node as stored; None where it is gone, or Nodes are not read."""
    nodes_known: bool = False
    """Whether Nodes are read, so that None above means gone."""
    clock_doubt: str = ""
    """Why our own clock is not to be trusted now, "" when it is. By one that is wrong everything
    may be old."""
    blind: Blind = {}
    """By kind of object, why what is known of it cannot be trusted now (`NEEDED`)."""
    places: Mapping[str, GpuPlace] = {}
    """By GPU UUID."""
    suspects: Mapping[str, Fault] = {}
    """By GPU UUID: XIDs that follow the GPU and not the job."""
    domains: Mapping[str, tuple[str, ...]] = {}
    """GPU UUID to its peers over NVLink or IMEX, as `node/uuid`."""

    @cached_property
    def gone(self) -> bool | None:
        """No Node has this name now, and nothing reports its hardware; None: Nodes are not read."""
        # A user may delete the Node of a machine that runs on: its agent still reports, and its
        # pods stay.
        if not self.unbelieved or self.facts is not None:
            return False
        return True if self.nodes_known else None

    @cached_property
    def boot_id(self) -> str | None:
        """Of the report, "" of a node that is gone; None while it is unknown."""
        if self.gone:
            return ""
        return None if self.agent.report is None or self.unbelieved else self.agent.report.boot_id

    @cached_property
    def repair_called(self) -> bool | None:
        """Whether a repair is called for in this boot; None while the conditions are not read."""
        stored = self.facts.conditions if self.facts else None
        return None if stored is None else any(is_call(each, self.boot_id) for each in stored)

    @cached_property
    def unbelieved(self) -> str:
        """Why the report as a whole cannot be believed, "" when it can.

        Nor can it be acted on while what a taint rests on cannot be trusted.
        """
        return self.trust().refusal("restrict")

    def trust(self, disagrees: str = "") -> Trust:
        """Return what is in doubt; `disagrees` is that of the policy."""
        doubts: dict[Knowledge, str] = {
            **self.blind,
            "report": self.without_report,
            "clock": self.clock_doubt,
            "policy": disagrees,
        }
        return Trust({kind: why for kind, why in doubts.items() if why})

    @cached_property
    def without_report(self) -> str:
        """Why the node has no report to go by, "" when it has one that is fresh."""
        if self.agent.report is None:
            return f"{self.node} has no report"
        # One version ahead is usual while an upgrade goes on.
        if self.agent.report.schema_version > SCHEMA_VERSION + 1:
            found = self.agent.report.schema_version
            return f"the report's schema {found} is newer than this version knows"
        return self.agent.stale
