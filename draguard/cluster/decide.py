"""`Objects` into verdicts and decisions, by the remediator's own code. Writes nothing.

Only the running remediator knows whether the policy, a driver or an agent has just changed. It also
knows the application XIDs that it has counted and, by its own clock, since when each agent reports.
Here an agent's age comes from its Lease and its report, compared with the API server's clock.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import msgspec

from draguard.cluster.objects import Objects
from draguard.cluster.reading import Reader
from draguard.phrases import short
from kubeapi.client import ApiError
from remediator.controller.agents import AGENT_LEASE_PREFIX
from remediator.controller.cache import Cache
from remediator.diagnose.fault import Healthy, Sick, Unknown
from remediator.freshness import Freshness, Sign
from remediator.model.incident import Incident
from remediator.model.node import facts
from remediator.model.pod import PodFacts
from remediator.plan.board import RENEWALS_NEEDED, Board
from remediator.plan.boards import bind_boards
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.view import NodeView
from remediator.policy.table import Policy
from remediator.settings import parse

Pods = Callable[[str], tuple[PodFacts, ...] | None]
_NEEDED = ("reports", "slices", "claims", "rules", "incidents", "leases", "nodes")
"""Collections that a verdict on one GPU needs."""


class Deciding:
    """One moment of the cluster. `stale_after` as the remediator's flag, in seconds."""

    def __init__(self, objects: Objects, stale_after: float) -> None:
        self._objects = objects
        self._freshness = Freshness(stale_after, lambda: 0.0)
        self._stale_after = timedelta(seconds=stale_after)
        self._ahead: dict[str, timedelta] = {}
        """By node: how far ahead of the server's clock its agent dates what it writes."""
        self._behind: dict[str, timedelta] = {}
        self.cache = _cache(objects)
        for report in objects.reports:
            self._dated(report.metadata.name, "report", report.status.observed_at)
        for lease in objects.leases:
            prefix, is_agents, node = lease.metadata.name.partition(AGENT_LEASE_PREFIX)
            if is_agents and not prefix:
                self._dated(node, "Lease", lease.spec.renew_time)
                if lease.spec.renew_time is not None:
                    late = objects.at - lease.spec.renew_time
                    self._behind[node] = max(late, timedelta())

    def stale(self, node: str) -> str:
        """Return why a node's report is stale or its age unknown, "" if it is current."""
        why = self._freshness.why_stale(node)
        if why and "leases" in self._objects.missing:
            return f"the state of the agent of {node} is unknown: you may not read its Lease"
        if why and node in self._ahead:
            return (
                f"the clock of {node} is {short(self._ahead[node])} ahead of the API server's: "
                "the state of its agent is unknown"
            )
        return why

    def bind_boards(self) -> Iterator[Board]:
        """Diagnose every GPU that a report, an incident or a rule names."""
        for node in sorted(self.cache.nodes()):
            yield from bind_boards(self.view(node), self._objects.at)

    def view(self, node: str) -> NodeView:
        """Return a node's view, as if its report were confirmed: to watch that takes minutes."""
        view = self.cache.view(node, self.stale)
        agent = msgspec.structs.replace(
            view.agent,
            renewals=(self._objects.at,) * RENEWALS_NEEDED,
            behind=self._behind.get(node),
        )
        stored = msgspec.structs.replace(view.stored, rules_served=self._objects.rules_served)
        return msgspec.structs.replace(view, agent=agent, stored=stored)

    def decisions(self, nodes: list[str], policy: Policy, pods: Pods) -> Iterator[NodeDecision]:
        """Decide about nodes as the worker would."""
        fleet = msgspec.structs.replace(
            self.cache.fleet(),
            stopped=self._objects.stopped,
            rules_served=self._objects.rules_served,
        )
        for node in nodes:
            view = self.view(node)
            incident = any(stored.open for stored in view.stored.incidents)
            usage = msgspec.structs.replace(view.usage, pods=pods(node) if incident else None)
            view = msgspec.structs.replace(view, usage=usage)
            yield decide_node(view, fleet, policy, self._objects.at)

    def affected_nodes(self) -> list[str]:
        """Return the nodes with an open incident, a rule of ours, or a GPU that is sick."""
        found = {incident.node for incident in self._objects.incidents if incident.open}
        found |= {rule.node for rule in self.cache.rules()}
        found |= {board.node for board in self.bind_boards() if isinstance(board.verdict, Sick)}
        return sorted(found - {""})

    def _dated(self, node: str, sign: Sign, at: datetime | None) -> None:
        """Record a date by the node's clock; one that is far ahead is not used: it may be old."""
        ahead = at - self._objects.at if at is not None else timedelta()
        if ahead > self._stale_after:
            self._ahead[node] = ahead
            return
        read_at = self._objects.at
        self._freshness.note_list(node, sign, min(at, read_at) if at else None, read_at)


def _cache(objects: Objects) -> Cache:
    cache = Cache(lambda _: None, drivers=objects.gpu_drivers)
    cache.nodes_known = bool(objects.nodes)
    for node in objects.nodes:
        cache.put_node(node.metadata.name, facts(node))
    for report in objects.reports:
        cache.put_report(report.metadata.name, report)
    # Claims come before slices, so that the place of each GPU is computed only once.
    for claim in objects.claims:
        cache.put_claim(f"{claim.metadata.namespace}/{claim.metadata.name}", None, claim)
    for published in objects.slices:
        cache.put_slice(published.metadata.name, None, published)
    for incident in objects.incidents:
        cache.put_incident(incident.name, incident)
    for rule in objects.rules:
        cache.put_rule(rule.metadata.name, rule)
    return cache


def case_of(reader: Reader, incident: Incident) -> Board | None:
    """Return the verdict on the GPU of an incident; None if the caller may read too little for one.

    The incident counts as it is given, also with an intent that is not written yet. Raises ApiError
    where the server does not answer.
    """
    try:
        objects = reader.objects(*_NEEDED, spared=("leases", "nodes"))
    except ApiError as error:
        if error.status is None:
            raise
        return None
    others = (stored for stored in objects.incidents if stored.name != incident.name)
    objects = msgspec.structs.replace(objects, incidents=(*others, incident))
    view = Deciding(objects, parse([]).stale_after).view(incident.node)
    found = bind_boards(view, objects.at)
    return next((board for board in found if board.uuid == incident.spec.uuid), None)


def verdict_in_words(board: Board | None) -> str:
    if board is None:
        return "unknown: you may not read its report and its devices"
    match board.verdict:
        case Sick(faults):
            return f"sick: {'; '.join(dict.fromkeys(fault.evidence for fault in faults))}"
        case Healthy():
            return f"healthy: {board.verdict.evidence}"
        case Unknown():
            return f"unknown: {board.verdict.why}"
