"""The hands: reflectors that feed the world, and the writer that acts on it.

The only place that knows which collections are watched. Decoding is kubeapi's,
indexing is `world`'s, deciding happens elsewhere.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from time import monotonic
from typing import Any

import msgspec

from exporter.report import NodeDeviceHealth
from exporter.slices import ResourceSlice
from kubeapi.client import UNREADABLE, Client
from kubeapi.lease import Lease, leases
from kubeapi.reflector import Reflector
from kubeapi.store import Change
from remediator.decide import plan
from remediator.decide.fleet import Fleet
from remediator.decide.view import NodeView
from remediator.hands import gates
from remediator.hands.crashes import Crashes
from remediator.hands.emergency import Emergency
from remediator.hands.gates import Gates, StatedRule
from remediator.hands.herald import Herald
from remediator.hands.leader import LEASE_NAME
from remediator.hands.node_pods import NodePods
from remediator.hands.pace import Pace
from remediator.hands.versions import DRA_VERSIONS, RULE_VERSIONS, Versioned
from remediator.hands.world import World
from remediator.hands.writes import INCIDENTS, Writer
from remediator.judge.fault import Fault
from remediator.judge.freshness import Freshness
from remediator.objects import events
from remediator.objects.claims import Claim
from remediator.objects.incident import Incident
from remediator.objects.nodes import NodeCondition, RawNode, facts
from remediator.objects.pods import PodFacts

REPORTS = "/apis/draguard.dev/v1alpha1/nodedevicehealths"
NODES = "/api/v1/nodes"
WATCH_SILENT = 150.0
"""Seconds without an event or a bookmark; API servers send a bookmark each minute."""
WATCH_DEAD = 90.0
"""Seconds of silence after which a watch is opened again."""
AGENT_LEASE_PREFIX = "draguard-agent-"


class Asked(msgspec.Struct, frozen=True):
    """What was asked of the API server for one decision, beyond what is watched."""

    pods: tuple[PodFacts, ...] | None = None
    suspects: Mapping[str, Fault] = {}
    conditions: tuple[NodeCondition, ...] | None = None


class Cluster:
    """Implements `reconcile.Hands` on a real API server.

    `mark` is told of nodes that changed, `urgent` of those whose report did.
    """

    def __init__(
        self,
        client: Client,
        *,
        mark: Callable[[str], None],
        urgent: Callable[[str], None],
        leading: Callable[[], bool],
        pace: Pace,
        lease_namespace: str,
        stale_after: float,
        now: Callable[[], datetime],
        hands_over: bool = False,
    ) -> None:
        self._client, self._hands_over, self._now = client, hands_over, now
        self._mark, self._urgent = mark, urgent
        self.world = World(mark)
        self.gates = Gates()
        self.rules = Versioned(client, "devicetaintrules", RULE_VERSIONS, StatedRule, self._rule)
        self._slices = Versioned(client, "resourceslices", DRA_VERSIONS, ResourceSlice, self._slice)
        self._claims = Versioned(client, "resourceclaims", DRA_VERSIONS, Claim, self._claim)
        self.writer = Writer(client, self.world, self.rules, pace, leading)
        self._herald = Herald(client, pace)
        self._pods = NodePods(client)
        self._crashes = Crashes()
        self._emergency = Emergency(client, lease_namespace, self._mark_all)
        self.policy_changed_at: datetime | None = None
        self._asked: dict[str, Asked] = {}
        self._freshness = Freshness(stale_after, monotonic)
        self._minor: int | None = None
        self._reports = Reflector(
            client, REPORTS, NodeDeviceHealth, on_change=self._report, by_watch=True
        )
        self._nodes = Reflector(
            client, NODES, RawNode, on_change=self._node, by_watch=True, metadata_only=True
        )
        self._stories = self._case_files()
        self._leases = self._agents(lease_namespace)
        self._reflectors = (self._reports, self._stories, self._leases)

    def _case_files(self) -> Reflector[Incident]:
        return Reflector(self._client, INCIDENTS, Incident, on_change=self._incident, by_watch=True)

    def _agents(self, namespace: str) -> Reflector[Lease]:
        """Watch the agents' Leases and not our own, which changes every two seconds."""
        return Reflector(
            self._client,
            leases(namespace),
            Lease,
            params={"fieldSelector": f"metadata.name!={LEASE_NAME}"},
            on_change=self._lease,
            by_watch=True,
        )

    def start(self) -> None:
        self._herald.start()
        self._emergency.start()
        for reflector in (*self._reflectors, self._nodes):
            reflector.start()

    def stop(self) -> None:
        self._herald.stop()
        self.writer.stop()
        for reflector in self.reflectors():
            reflector.stop()
        self._client.close()

    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """Return every watch that there should be now."""
        return (*self._needed(), self._nodes, *self._emergency.reflectors())

    def _versioned(self) -> tuple[Versioned[Any], ...]:
        return self.rules, self._slices, self._claims

    def _needed(self) -> tuple[Reflector[Any], ...]:
        """Return the watches without which nothing is decided.

        Without Nodes we know less of what others do, and that is all.
        """
        served = [one.reflector for one in self._versioned() if one.version is not None]
        return (*self._reflectors, *(one for one in served if one is not None))

    def _mark_all(self) -> None:
        for node in self.world.nodes():
            self._mark(node)

    def wait_synced(self, timeout: float) -> bool:
        """Wait until every collection was listed once; a part of the world is no world."""
        until = monotonic() + timeout
        return all(one.wait_synced(max(0.0, until - monotonic())) for one in self._needed())

    @property
    def synced(self) -> bool:
        """Whether the whole world was seen once; a part of it would be acting on absence."""
        asked = self.rules.probed and all(one.version for one in (self._slices, self._claims))
        return asked and self._emergency.settled and all(one.synced for one in self._needed())

    def waiting_for(self) -> str:
        """Return what still lacks its first list, with what to do about it."""
        missing = [one for one in self.reflectors() if not one.synced and one is not self._nodes]
        if any(one.missing for one in missing):
            return "Draguard's objects are not served; install them: kubectl apply -f deploy/crds"
        said = sorted({one.error for one in missing if one.error})
        if self._slices.probed and self._slices.version is None:
            said.append(
                "this API server has no ResourceSlices; Kubernetes 1.34 has them, 1.32 and 1.33 "
                "need --runtime-config=resource.k8s.io/v1beta1=true"
            )
        return "; ".join(said)

    def probe(self) -> str | None:
        """Find out which versions are served, and watch those.

        Returns that of DeviceTaintRule, None when there is none. Raises ApiError
        when nobody answers.
        """
        for one in self._versioned():
            one.probe()
        if self.rules.version == RULE_VERSIONS[-1] and self._minor is None:
            self._minor = self._ask_minor()
        return self.rules.version

    def _ask_minor(self) -> int | None:
        try:
            found = msgspec.json.decode(self._client.get("/version"), type=dict[str, Any])
            return int(str(found.get("minor", "")).rstrip("+"))
        except UNREADABLE:
            return None

    def rules_without_status(self) -> tuple[str, ...] | None:
        """Return rules of ours that nobody acts on; None where that cannot be known."""
        if not gates.has_status(self.rules.version, self._minor):
            return None
        return self.gates.silent()

    def stories_of(self, rules: Collection[str]) -> tuple[Incident, ...]:
        """Return the open incidents to which rules of these names belong."""
        named = {one.incident for one in self.world.rules() if one.name in rules}
        return tuple(one for one in self.world.incidents() if one.open and one.name in named)

    def view(self, node: str) -> NodeView:
        """Return what is known of a node now, with what is asked for where a story needs it."""
        self.writer.turn_to(node)
        self.world.nodes_known = self._nodes.synced
        view = self._seen(node)
        story = any(one.open for one in view.incidents)
        marked = view.facts is not None and bool(view.facts.marked)
        handed_over = marked or (story and self._hands_over)
        pods = self._pods.of(node) if story or self._crashes.wants_pods(view) else None
        view = msgspec.structs.replace(view, pods=pods)
        asked = Asked(
            pods=pods,
            suspects=self._crashes.seen(view),
            conditions=self.writer.conditions.read(node) if handed_over else None,
        )
        if asked == Asked():
            self._asked.pop(node, None)
        else:
            self._asked[node] = asked
        return _with(view, asked)

    def peek(self, node: str) -> NodeView:
        """Return a node's view with what the last decision asked for; asks nobody anything."""
        return _with(self._seen(node), self._asked.get(node, Asked()))

    def _seen(self, node: str) -> NodeView:
        view = self.world.view(node, self._stale)
        unread = self._stories.unreadable
        return msgspec.structs.replace(view, unread=unread) if unread else view

    def known(self) -> Collection[str]:
        """Return every node that a report, a rule or an incident speaks of."""
        return self.world.nodes()

    def talking(self) -> Collection[str]:
        """Return the nodes with an open story or a rule: a new fault has one in milliseconds."""
        storied = {one.spec.node for one in self.world.incidents() if one.open}
        return {*storied, *(rule.node for rule in self.world.rules())} - {""}

    def stale_agents(self) -> Mapping[str, bool]:
        """Return of each node that reports whether its agent is silent; {} while we hear nothing.

        A watch is dead after less silence than an agent, so that ours is never taken for theirs.
        """
        heard = min(self._reports.last_contact, self._leases.last_contact)
        if not heard or monotonic() - heard > WATCH_DEAD:
            return {}
        return {node: bool(self._freshness.stale(node)) for node in self.world.reporting()}

    def _stale(self, node: str) -> str:
        """Say why a node's report is not to be believed: its agent, or our own eyes."""
        silent = monotonic() - self._reports.last_contact
        if silent > WATCH_SILENT:
            return f"the watch of reports has been silent for {silent:.0f} s"
        if node in self._reports.unreadable:
            return f"the report of {node} cannot be read; the log says what is wrong with it"
        return self._freshness.stale(node)

    def fleet(self) -> Fleet:
        return msgspec.structs.replace(
            self.world.fleet(),
            stopped=self._emergency.stopped,
            policy_changed_at=self.policy_changed_at,
        )

    def take(self, step: plan.Step) -> None:
        self.writer.take(step)

    def post(self, event: events.Event, now: datetime) -> None:
        """Post an Event once; it is a courtesy, what it says is in the incident and the log too."""
        self._herald.tell(event, now)

    def _report(self, change: Change[NodeDeviceHealth]) -> None:
        if change.new is None:
            self._freshness.forget(change.key)
        elif change.old is None:
            written = change.new.status.observed_at
            self._freshness.first_seen(change.key, "report", written, self._now())
        else:
            self._freshness.changed(change.key, "report")
        self.world.report(change.key, change.new)
        self._urgent(change.key)

    def _lease(self, change: Change[Lease]) -> None:
        name = change.key.rpartition("/")[2]
        if not name.startswith(AGENT_LEASE_PREFIX):
            return
        node = name.removeprefix(AGENT_LEASE_PREFIX)
        if change.new is None:
            self._agent_left(node)
            return
        was_stale = bool(self._freshness.stale(node))
        if change.old is None:
            self._freshness.first_seen(node, "Lease", change.new.spec.renew_time, self._now())
        else:
            self._freshness.changed(node, "Lease")
        if was_stale:
            self._mark(node)

    def _agent_left(self, node: str) -> None:
        """Forget an agent of which nothing is stored: nodes come and go, and memory stays."""
        if node not in self._reports.items():
            self._freshness.forget(node)

    def _slice(self, change: Change[ResourceSlice]) -> None:
        self.world.slice(change.key, change.old, change.new)

    def _claim(self, change: Change[Claim]) -> None:
        self.world.claim(change.key, change.old, change.new)

    def _incident(self, change: Change[Incident]) -> None:
        self.world.incident(change.key, change.new)

    def _rule(self, change: Change[StatedRule]) -> None:
        self.gates.heard(change)
        self.world.rule(change.key, change.new)

    def _node(self, change: Change[RawNode]) -> None:
        self.world.node(change.key, facts(change.new) if change.new else None)


def _with(view: NodeView, asked: Asked) -> NodeView:
    known = view.facts and msgspec.structs.replace(view.facts, conditions=asked.conditions)
    return msgspec.structs.replace(view, pods=asked.pods, suspects=asked.suspects, facts=known)
