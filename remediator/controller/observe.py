"""The cluster for the loop: what is known of a node, and what a decision has read beyond that.

`informers` feeds the cache, `plan` decides, and the writer applies its steps.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from time import monotonic

import msgspec

from exporter.model.device import NVIDIAS, GpuDrivers
from kubeapi.client import Client
from kubeapi.distrust import distrust
from kubeapi.event_recorder import EventRecorder
from remediator.controller.absent_pods import AbsentPods
from remediator.controller.apply import Writer
from remediator.controller.cache import Cache
from remediator.controller.crashes import Crashes
from remediator.controller.final_check import FinalCheck
from remediator.controller.informers import Informers
from remediator.controller.ledger import Count, count_nothing
from remediator.controller.node_conditions import StoredConditions
from remediator.controller.node_pods import NodePods
from remediator.controller.rate_limit import Pace
from remediator.controller.rejected_fields import Unstored
from remediator.controller.takeover import Takeover
from remediator.diagnose.fault import NODE_LEVEL, Fault
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import labels_of_cluster
from remediator.plan import events
from remediator.plan.steps import Disruption, Step
from remediator.plan.view import Fleet, NodeView, StoreView, WatchedKind
from remediator.plan.words import need_of
from remediator.policy.table import Policy

PolicyChange = tuple[datetime | None, tuple[Policy, ...] | None]
"""When more was permitted last, and what was in force shortly before, as `Fleet` has it."""


class Fetched(msgspec.Struct, frozen=True):
    """What was read from the API server for one decision, beyond what is watched."""

    pods: tuple[PodFacts, ...] | None = None
    pods_live: bool = True
    pods_gone: frozenset[str] = frozenset()
    suspects: Mapping[str, Fault] = {}
    stored: StoredConditions | None = None
    """The conditions of the Node; None where they were not read, or there was no answer."""


class Cluster:
    """Implements `reconcile.ControlPlane` on a real API server.

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
        count: Count = count_nothing,
        cluster_name: str = "",
        elapsed: Callable[[], float] = monotonic,
        drivers: GpuDrivers = NVIDIAS,
    ) -> None:
        self._client, self._hands_over, self._clock_doubt = client, hands_over, clock_doubt
        self._now = now
        unstored = Unstored()
        self.cache = Cache(mark, drivers=drivers)
        self.informers = Informers(
            client,
            self.cache,
            unstored,
            mark=mark,
            urgent=urgent,
            lease_namespace=lease_namespace,
            stale_after=stale_after,
            now=now,
        )
        self.writer = Writer(
            client,
            self.cache,
            self.informers.rules,
            pace,
            leading,
            unstored=unstored,
            count=count,
            cluster_name=cluster_name,
            elapsed=elapsed,
        )
        labels = labels_of_cluster(cluster_name)
        self._recorder = EventRecorder[events.Event](
            client,
            as_object=lambda event, at: (event.posted_in, events.manifest(event, at, labels)),
            turn=pace.ask_for_event,
        )
        pods = NodePods(client, elapsed)
        self._pods = AbsentPods(pods, elapsed)
        self._crashes = Crashes()
        self.policy_change: PolicyChange = (None, None)
        self._fetched: dict[str, Fetched] = {}
        watched = self.informers
        self._final_check = FinalCheck(
            client, watched.slices, watched.claims, pods, watched.emergency, drivers, elapsed
        )
        self.takeover = Takeover(client, watched.rules, watched.incidents, elapsed)

    def start(self) -> None:
        self._recorder.start()
        self.informers.start()

    def stop(self) -> None:
        self._recorder.stop()
        self.writer.stop()
        self.informers.stop()
        self._client.close()

    def probe(self) -> None:
        """Find out what is served and what may be written. Raises ApiError without an answer."""
        self.informers.probe()
        if self.writer.incident_rights.refused:
            self.writer.incident_rights.look()

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
        # First: the view must contain what was written for this node until now.
        self.writer.turn_to(node)
        self.cache.nodes_known = not distrust(self.informers.nodes)
        view = self._cached_view(node)
        if view.agent.left and self.takeover.find_unseen():
            # Not pruned now: what the leader before wrote of this node may not be known yet.
            agent = msgspec.structs.replace(view.agent, left=None)
            view = msgspec.structs.replace(view, agent=agent)
        incident = any(known.open for known in view.stored.incidents)
        marked = view.facts is not None and bool(view.facts.marked)
        handed_over = marked or (incident and self._hands_over)
        # Only before a node is handed over for repair: a list of the newest state takes longer.
        live = handed_over and any(
            need_of(known.status.repair.needs) in NODE_LEVEL for known in view.stored.incidents
        )
        listed = incident or self._crashes.needs_pods(view)
        view = self._pods.with_pods(view, live=live) if listed else self._pods.without_pods(view)
        fetched = Fetched(
            pods=view.usage.pods,
            pods_live=view.usage.pods_live,
            pods_gone=view.usage.pods_gone,
            suspects=self._crashes.find_suspects(view),
            stored=self.writer.conditions.read(node) if handed_over else None,
        )
        if fetched == Fetched():
            self._fetched.pop(node, None)
        else:
            self._fetched[node] = fetched
        return self._with_fetched(view, fetched)

    def peek(self, node: str) -> NodeView:
        """Return a node's view with what the last decision has read; sends no request."""
        return self._with_fetched(self._cached_view(node), self._fetched.get(node, Fetched()))

    def _cached_view(self, node: str) -> NodeView:
        agents = self.informers.agents
        view = self.cache.view(node, agents.why_stale)
        served = self.informers.rules.version is not None
        if not served:
            # Stored rules that are not served do nothing.
            stored = StoreView(incidents=view.stored.incidents, unseen=view.stored.rules)
            view = msgspec.structs.replace(view, stored=stored)
        # An object of this one node may be unreadable.
        blind = dict(self.blind_kinds())
        for kind, why in self.informers.unreadable_by_kind(view).items():
            blind[kind] = blind[kind] or why
        content = view.agent.report.content_hash if view.agent.report else ""
        return msgspec.structs.replace(
            view,
            agent=msgspec.structs.replace(
                view.agent,
                renewals=agents.renewals(node, content),
                overtaken=agents.is_overtaken(node, content),
                behind=agents.clock_lag(node),
            ),
            stored=msgspec.structs.replace(
                view.stored,
                unread=self.informers.incidents.unreadable,
                rules_served=served,
                refused=self.writer.refused_rules.refusals(self._now()),
                irremovable=self.writer.refused_rules.refusals(self._now(), freeing=True),
            ),
            usage=msgspec.structs.replace(view.usage, refusals=self.writer.evictions.refusals()),
            clock_doubt=self._clock_doubt(),
            blind={kind: why for kind, why in blind.items() if why},
        )

    def blind_kinds(self) -> Mapping[WatchedKind, str]:
        """Return by kind why nothing may rest on its objects now, on any node; "" where it may."""
        found = self.informers.distrust_by_kind()
        incidents = found["incidents"] or self.writer.incident_rights.refused
        return {**found, "incidents": incidents}

    def confirm(self, view: NodeView, begins: Disruption) -> str:
        """Return what differs on the API server from a view that steps rest on; "" if nothing does.

        A pod whose eviction still waits for its backoff is not checked.
        """
        evictions = self.writer.evictions
        due = frozenset(pod for pod in begins.continued if evictions.is_due(pod))
        if begins or begins.continued:
            evictions.not_looked_at = begins.continued - due
        begins = msgspec.structs.replace(begins, continued=due)
        unseen = self.takeover.find_unseen() if begins.devices or begins.repair else ""
        return unseen or self._final_check.differs(view, begins)

    def known_nodes(self) -> Collection[str]:
        """Return every node that a report, a rule or an incident names."""
        return self.cache.nodes()

    def affected_nodes(self) -> Collection[str]:
        """Return the nodes with an open incident or a rule: a new fault has one in milliseconds."""
        nodes = {incident.node for incident in self.cache.incidents() if incident.open}
        return {*nodes, *(rule.node for rule in self.cache.rules())} - {""}

    def stale_agents(self) -> Mapping[str, bool]:
        """Return for each node that reports whether its agent is silent; {} if watches are dead."""
        return self.informers.agents.stale_by_node(self.cache.reporting_nodes())

    def fleet(self) -> Fleet:
        found, (changed_at, before) = self.cache.fleet(), self.policy_change
        served = self.informers.rules.version is not None
        return msgspec.structs.replace(
            found,
            rules=found.rules if served else (),
            rules_served=served,
            stopped=self.informers.emergency.stop_reason,
            policy_changed_at=changed_at,
            policies_before=before,
        )

    def apply(self, step: Step) -> None:
        self.writer.apply(step)

    def post(self, event: events.Event, now: datetime) -> None:
        """Post an Event once. Its text is in the incident and the log, too.

        Without the role for node conditions none was written, so none is reported.
        """
        if event.reason in events.CONDITION_REASONS and self.writer.conditions.lacks_role:
            return
        self._recorder.record(event, now)

    def _with_fetched(self, view: NodeView, fetched: Fetched) -> NodeView:
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
        named = () if fetched.pods is None else self._named_claims(fetched.pods)
        usage = msgspec.structs.replace(
            view.usage,
            pods=fetched.pods,
            pods_live=fetched.pods_live,
            pods_gone=fetched.pods_gone,
            claims=(*view.usage.claims, *named),
        )
        return msgspec.structs.replace(view, usage=usage, suspects=fetched.suspects, facts=known)

    def _named_claims(self, pods: tuple[PodFacts, ...]) -> Iterator[Claim]:
        """Yield the claims that pods name, as far as they are known."""
        watch = self.informers.claims.reflector
        for pod in pods if watch else ():
            for name in {*pod.claims, pod.extended_claim} - {""}:
                found = watch.get(f"{pod.namespace}/{name}") if watch else None
                if found is not None:
                    yield found
