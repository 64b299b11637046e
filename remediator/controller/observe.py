"""The cluster for the loop: reflectors that feed the cache, and the writer that applies steps.

The only place that knows which collections are watched. `kubeapi` decodes, `cache` indexes, and
`plan` decides.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from time import monotonic
from typing import Any

import msgspec

from exporter.model.node_health import NodeDeviceHealth
from exporter.model.resource_slices import ResourceSlice
from kubeapi.client import UNREADABLE, Client
from kubeapi.reflector import Reflector
from kubeapi.resources import INCIDENTS, NODES, REPORTS
from kubeapi.store import Change
from remediator.controller import feature_gates
from remediator.controller.absent_pods import AbsentPods
from remediator.controller.agents import Agents
from remediator.controller.apply import Writer
from remediator.controller.cache import Cache
from remediator.controller.crashes import Crashes
from remediator.controller.emergency import Emergency
from remediator.controller.event_recorder import EventRecorder
from remediator.controller.feature_gates import Gates, StatedRule
from remediator.controller.ledger import Count, uncounted
from remediator.controller.node_conditions import Stored
from remediator.controller.node_pods import NodePods
from remediator.controller.quorum import Quorum
from remediator.controller.rate_limit import Pace
from remediator.controller.versions import DRA_VERSIONS, RULE_VERSIONS, Versioned
from remediator.controller.watches import (
    distrust,
    distrust_versioned,
    unreadable_claims,
    unreadable_rules,
    unreadable_slices,
)
from remediator.diagnose.fault import NODE_LEVEL, Fault
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.model.node import RawNode, facts
from remediator.model.pod import PodFacts
from remediator.plan import events
from remediator.plan.api_words import need_of
from remediator.plan.disruption import Disruption
from remediator.plan.fleet import Fleet
from remediator.plan.steps import Step
from remediator.plan.trust import WatchedKind
from remediator.plan.view import NodeView


class Fetched(msgspec.Struct, frozen=True):
    """What was read from the API server for one decision, beyond what is watched."""

    pods: tuple[PodFacts, ...] | None = None
    pods_live: bool = True
    pods_gone: frozenset[str] = frozenset()
    suspects: Mapping[str, Fault] = {}
    stored: Stored | None = None
    """The conditions of the Node; None where they were not read, or there was no answer."""


class Cluster:
    """Implements `reconcile.Hands` on a real API server.

    `mark` gets nodes that changed, `urgent` those whose report did.
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
        clock_doubt: Callable[[], str] = str,
        count: Count = uncounted,
        cluster_name: str = "",
        elapsed: Callable[[], float] = monotonic,
    ) -> None:
        self._client, self._hands_over, self._now = client, hands_over, now
        self._mark, self._urgent, self._clock_doubt = mark, urgent, clock_doubt
        self.cache = Cache(mark)
        self.gates = Gates()
        self.rules = Versioned(client, "devicetaintrules", RULE_VERSIONS, StatedRule, self._rule)
        self._slices = Versioned(client, "resourceslices", DRA_VERSIONS, ResourceSlice, self._slice)
        self._claims = Versioned(client, "resourceclaims", DRA_VERSIONS, Claim, self._claim)
        self.writer = Writer(
            client,
            self.cache,
            self.rules,
            pace,
            leading,
            count=count,
            cluster_name=cluster_name,
        )
        self._recorder = EventRecorder(client, pace, cluster_name)
        self._pods = AbsentPods(NodePods(client, elapsed), elapsed)
        self._crashes = Crashes()
        self._emergency = Emergency(client, lease_namespace, self._mark_all)
        self.policy_changed_at: datetime | None = None
        self._fetched: dict[str, Fetched] = {}
        self._quorum = Quorum(client, self._slices, self._claims)
        self._minor: int | None = None
        self._reports = Reflector(
            client, REPORTS, NodeDeviceHealth, on_change=self._report, by_watch=True
        )
        self._nodes = Reflector(
            client, NODES, RawNode, on_change=self._node, by_watch=True, metadata_only=True
        )
        self._incidents = Reflector(
            client, INCIDENTS, Incident, on_change=self._incident, by_watch=True
        )
        self._agents = Agents(
            client, self._reports, lease_namespace, stale_after, now, mark, self.cache.has_incident
        )
        self._reflectors = (self._reports, self._incidents, self._agents.leases)

    def start(self) -> None:
        self._recorder.start()
        self._emergency.start()
        for reflector in (*self._reflectors, self._nodes):
            reflector.start()

    def stop(self) -> None:
        self._recorder.stop()
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
        served = [
            resource.reflector for resource in self._versioned() if resource.version is not None
        ]
        return (*self._reflectors, *(reflector for reflector in served if reflector is not None))

    def _mark_all(self) -> None:
        for node in self.cache.nodes():
            self._mark(node)

    def wait_synced(self, timeout: float) -> bool:
        """Wait until every collection was listed once; a part would look like the whole."""
        until = monotonic() + timeout
        return all(
            reflector.wait_synced(max(0.0, until - monotonic())) for reflector in self._needed()
        )

    @property
    def synced(self) -> bool:
        """Whether the whole world was seen once; a part of it would be acting on absence."""
        probed = self.rules.probed and all(
            resource.version for resource in (self._slices, self._claims)
        )
        return (
            probed
            and self._emergency.settled
            and all(reflector.synced for reflector in self._needed())
        )

    def waiting_for(self) -> str:
        """Return what still lacks its first list, with what to do about it."""
        missing = [
            reflector
            for reflector in self.reflectors()
            if not reflector.synced and reflector is not self._nodes
        ]
        if any(reflector.missing for reflector in missing):
            return "Draguard's objects are not served; install them: kubectl apply -f deploy/crds"
        reasons = sorted({reflector.error for reflector in missing if reflector.error})
        if self._slices.probed and self._slices.version is None:
            reasons.append(
                "this API server has no ResourceSlices; Kubernetes 1.34 has them, 1.32 and 1.33 "
                "need --runtime-config=resource.k8s.io/v1beta1=true"
            )
        return "; ".join(reasons)

    def probe(self) -> str | None:
        """Find out which versions are served, and watch those.

        Returns that of DeviceTaintRule, None when there is none. Raises ApiError when there is no
        answer.
        """
        for resource in self._versioned():
            resource.probe()
        if self.writer.incident_rights.refused:
            self.writer.incident_rights.look()
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
        """Return rules of ours that no component acts on; None where that cannot be known."""
        if not feature_gates.has_status(self.rules.version, self._minor):
            return None
        return self.gates.silent()

    def incidents_of(self, rules: Collection[str]) -> tuple[Incident, ...]:
        """Return the open incidents to which rules of these names belong."""
        named = {rule.incident for rule in self.cache.rules() if rule.name in rules}
        return tuple(
            incident
            for incident in self.cache.incidents()
            if incident.open and incident.name in named
        )

    def observe(self, node: str) -> NodeView:
        """Return what is known of a node now, with what is read live where an incident needs it."""
        self.writer.turn_to(node)
        self.cache.nodes_known = not distrust(self._nodes)
        view = self._seen(node)
        incident = any(known.open for known in view.incidents)
        marked = view.facts is not None and bool(view.facts.marked)
        handed_over = marked or (incident and self._hands_over)
        live = handed_over and any(
            need_of(known.status.needs) in NODE_LEVEL for known in view.incidents
        )
        listed = incident or self._crashes.wants_pods(view)
        view = self._pods.with_pods(view, live=live) if listed else self._pods.without(view)
        fetched = Fetched(
            pods=view.pods,
            pods_live=view.pods_live,
            pods_gone=view.pods_gone,
            suspects=self._crashes.seen(view),
            stored=self.writer.conditions.read(node) if handed_over else None,
        )
        if fetched == Fetched():
            self._fetched.pop(node, None)
        else:
            self._fetched[node] = fetched
        return self._with(view, fetched)

    def peek(self, node: str) -> NodeView:
        """Return a node's view with what the last decision has read; sends no request."""
        return self._with(self._seen(node), self._fetched.get(node, Fetched()))

    def _seen(self, node: str) -> NodeView:
        view = self.cache.view(node, self._agents.stale)
        served = self.rules.version is not None
        if not served:
            # Stored rules that are not served do nothing: the incident is all that there is.
            unseen = view.rules
            view = msgspec.structs.replace(view, rules=(), unseen=unseen, leftovers=(), foreign=())
        # An object of this one node may be unreadable.
        blind = dict(self.blind())
        blind["slices"] = blind["slices"] or unreadable_slices(self._slices, view.node)
        blind["claims"] = blind["claims"] or unreadable_claims(self._claims, view)
        blind["rules"] = blind["rules"] or unreadable_rules(self.rules, view.node)
        return msgspec.structs.replace(
            view,
            refusals=self.writer.evictions.refusals(),
            clock_doubt=self._clock_doubt(),
            unread=self._incidents.unreadable,
            blind={kind: why for kind, why in blind.items() if why},
            rules_served=served,
            renewals=self._agents.renewals(node, view.report.content_hash if view.report else ""),
            behind=self._agents.behind(node),
        )

    def blind(self) -> Mapping[WatchedKind, str]:
        """Return by kind why its objects cannot be trusted now, of any node; "" where they can.

        Where no DeviceTaintRules are served there is nothing to be blind to: incidents only.
        """
        served = self.rules.version is not None
        return {
            "reports": distrust(self._reports),
            "leases": distrust(self._agents.leases),
            "slices": distrust_versioned(self._slices, "ResourceSlices"),
            "claims": distrust_versioned(self._claims, "ResourceClaims"),
            "rules": distrust_versioned(self.rules, "DeviceTaintRules") if served else "",
            "incidents": distrust(self._incidents) or self.writer.incident_rights.refused,
        }

    def confirm(self, view: NodeView, begins: Disruption) -> str:
        """Return what the API server has otherwise than a view on which a disruption rests."""
        devices = begins.devices
        if begins.repair:
            devices |= {device.device for device in view.inventory}
        return self._quorum.differs(view, devices)

    def known(self) -> Collection[str]:
        """Return every node that a report, a rule or an incident names."""
        return self.cache.nodes()

    def reporting(self) -> Collection[str]:
        """Return the nodes with an open incident or a rule: a new fault has one in milliseconds."""
        nodes = {incident.node for incident in self.cache.incidents() if incident.open}
        return {*nodes, *(rule.node for rule in self.cache.rules())} - {""}

    def stale_agents(self) -> Mapping[str, bool]:
        """Return for each node that reports whether its agent is silent; {} if watches are dead."""
        return self._agents.unreported(self.cache.reporting())

    def fleet(self) -> Fleet:
        found = self.cache.fleet()
        return msgspec.structs.replace(
            found,
            rules=found.rules if self.rules.version is not None else (),
            stopped=self._emergency.stopped,
            policy_changed_at=self.policy_changed_at,
        )

    def apply(self, step: Step) -> None:
        self.writer.apply(step)

    def post(self, event: events.Event, now: datetime) -> None:
        """Post an Event once; it is a courtesy, its text is in the incident and the log too.

        Without the role for conditions none was written, and so there is none to report.
        """
        if event.reason in events.CONDITION_REASONS and self.writer.conditions.refused:
            return
        self._recorder.tell(event, now)

    def _report(self, change: Change[NodeDeviceHealth]) -> None:
        self._agents.reported(change)
        self.cache.report(change.key, change.new)
        self._urgent(change.key)

    def _slice(self, change: Change[ResourceSlice]) -> None:
        self.cache.slice(change.key, change.old, change.new)

    def _claim(self, change: Change[Claim]) -> None:
        self.cache.claim(change.key, change.old, change.new)

    def _incident(self, change: Change[Incident]) -> None:
        gone = change.old.metadata.uid if change.old else ""
        new, unstored = change.new, self.writer.unstored
        if new is None:
            unstored.forget(change.key)
        new = unstored.whole(new) if new else None
        self.cache.incident(change.key, new, listed=change.listed, gone=gone)

    def _rule(self, change: Change[StatedRule]) -> None:
        self.gates.observed(change)
        gone = change.old.metadata.uid if change.old else ""
        self.cache.rule(change.key, change.new, listed=change.listed, gone=gone)

    def _node(self, change: Change[RawNode]) -> None:
        self.cache.node(change.key, facts(change.new) if change.new else None)

    def _with(self, view: NodeView, fetched: Fetched) -> NodeView:
        """Return a view with what was read live, and the claims that the pods name."""
        stored = fetched.stored
        known = view.facts
        if known and stored:
            known = msgspec.structs.replace(
                known,
                conditions=stored.conditions,
                others=stored.others,
                plugin_resources=stored.plugin_resources,
            )
        claims = view.claims if fetched.pods is None else (*view.claims, *self._named(fetched.pods))
        return msgspec.structs.replace(
            view,
            pods=fetched.pods,
            pods_live=fetched.pods_live,
            pods_gone=fetched.pods_gone,
            suspects=fetched.suspects,
            facts=known,
            claims=claims,
        )

    def _named(self, pods: tuple[PodFacts, ...]) -> Iterator[Claim]:
        """Yield the claims that pods name, as far as they are known."""
        watch = self._claims.reflector
        for pod in pods if watch else ():
            for name in {*pod.claims, pod.extended_claim} - {""}:
                found = watch.get(f"{pod.namespace}/{name}") if watch else None
                if found is not None:
                    yield found
