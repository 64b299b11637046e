"""The remediator's own metrics for Prometheus."""

import threading
from collections import Counter as Tally
from collections.abc import Collection, Iterable, Mapping
from math import nan

import msgspec

from remediator.controller.metric_table import OWN_FAMILIES
from remediator.metrics.families import CLUSTER_FAMILIES
from remediator.metrics.lifecycle import LIFECYCLE_FAMILIES
from remediator.metrics.transitions import LifecycleEvent
from remediator.model.incident import Incident
from remediator.model.taint_rule import Rule
from remediator.plan.node_decision import NodeDecision
from remediator.policy.fingerprint import name_of
from remediator.policy.table import Policy
from serving.families import Rows
from serving.prometheus import Registry


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the process at one moment, gathered for each scrape."""

    leading: bool
    queued: int
    queue_age: float
    """Seconds."""
    watch_ages: Mapping[str, float]
    """Seconds, by collection."""
    untrusted: Mapping[str, bool]
    """By kind of object, whether what is known of it cannot be trusted."""
    undecodable: int
    rules_served: bool
    rules_without_status: int | None
    """None where rules have no status."""
    evictions: Mapping[str, int]
    """By result."""
    statuses_refused: int = 0
    """Of incidents, since start."""
    policy_disagrees: bool = False
    clock_ahead: float | None = None
    """Seconds by which our clock is ahead of the API server's; None while no answer was dated."""


class Metrics:
    """One registry; every family of the tables."""

    def __init__(self, version: str = "") -> None:
        self._registry = Registry((*OWN_FAMILIES, *LIFECYCLE_FAMILIES), CLUSTER_FAMILIES)
        self._gauges, self._counters = self._registry.gauges, self._registry.counters
        self._histograms = self._registry.histograms
        self._guard = threading.Lock()
        self.reconciles = self._counters["reconciles"]
        self.steps = self._counters["steps"]
        self.duration = self._histograms["reconcile_duration_seconds"]
        self.jobs_failed = self._counters["timer_failures"]
        self.policy_bad = self._gauges["policy_file_bad"]
        self._counted_evictions: Tally[str] = Tally()
        self._counted_refused = 0
        self._nodes: dict[str, Tally[str]] = {}
        self._held: dict[str, Tally[str]] = {}
        self._amiss: dict[str, Tally[str]] = {}
        self._gauges["build_info"].labels(version).set(1)

    def count_events(self, events: Iterable[LifecycleEvent]) -> None:
        """Count what has happened to an incident; call it when that is stored."""
        for event in events:
            if event.family in self._histograms:
                self._histograms[event.family].labels(*event.labels).observe(event.amount)
            else:
                self._counters[event.family].labels(*event.labels).inc(event.amount)

    def count_answer(self, verb: str, status: int | None) -> None:
        """Count one answer of the API server, None for no answer. Any thread may call it."""
        code = "none" if status is None else str(status)
        self._counters["api_requests"].labels(verb, code).inc()

    def count_decision(self, decision: NodeDecision) -> None:
        """Count one decision; call it after its writes succeeded."""
        self.reconciles.labels("bug" if decision.bugs else "done").inc()
        for step in decision.steps:
            self.steps.labels(type(step).__name__).inc()
        self._nodes[decision.node] = Tally(
            type(board.verdict).__name__.lower() for board, _ in decision.pairs
        )
        unbound = sum(bool(board.presence.unbound) for board, _ in decision.pairs)
        ignoring = {claim for board, _ in decision.pairs for claim in board.users.ignoring}
        amiss = {"gpus_not_taintable": unbound, "taint_ignored_claims": len(ignoring)}
        self._amiss[decision.node] = Tally(amiss)
        self._held[decision.node] = Tally(
            planned.granted.deferred_by for _, planned in decision.pairs if planned.granted.deferred
        )

    def forget(self, nodes: Collection[str]) -> None:
        """Drop what was counted of nodes other than these."""
        for memory in (self._nodes, self._held, self._amiss):
            for node in [name for name in list(memory) if name not in nodes]:
                memory.pop(node, None)

    def set_policy(self, policy: Policy) -> None:
        """Export which policy is in force."""
        with self._guard:
            for name in ("policy_info", "policy_mode"):
                self._gauges[name].clear()
            self._gauges["policy_info"].labels(name_of(policy)).set(1)
            for row in policy.rows:
                self._gauges["policy_mode"].labels(row.fault_class, row.mode).set(1)

    def set_totals(self, incidents: Iterable[Incident], rules: Iterable[Rule]) -> None:
        """Set the totals of the whole cluster."""
        by_phase = Tally(
            (incident.status.phase, incident.status.fault.fault_class)
            for incident in incidents
            if incident.open
        )
        self._registry.replace("incidents", by_phase)
        self._registry.replace("rules", Tally((rule.effect,) for rule in rules))
        self._registry.replace("deferred_gpus", _sum(self._held, ()))
        amiss = sum(list(self._amiss.values()), Tally[str]())
        for name in ("gpus_not_taintable", "taint_ignored_claims"):
            self._gauges[name].set(amiss[name])
        self._registry.replace("gpus", _sum(self._nodes, ("healthy", "sick", "unknown")))

    def set_cluster(self, rows: Rows) -> None:
        """Replace what is exported about the cluster; {} while it is not known."""
        self._registry.show(rows)

    def set_reading(self, now: Reading) -> None:
        """Set what the process is like at this moment."""
        gauges = self._gauges
        gauges["leader"].set(now.leading)
        gauges["queue_nodes"].set(now.queued)
        gauges["queue_age_seconds"].set(now.queue_age)
        gauges["undecodable_objects"].set(now.undecodable)
        gauges["rules_served"].set(now.rules_served)
        gauges["policy_disagrees"].set(now.policy_disagrees)
        ahead = now.clock_ahead
        gauges["clock_ahead_seconds"].set(nan if ahead is None else ahead)
        missing = now.rules_without_status
        gauges["rule_status_missing"].set(nan if missing is None else missing)
        untrusted = {(kind,): float(value) for kind, value in now.untrusted.items()}
        self._registry.replace("collection_untrusted", untrusted)
        self._registry.replace(
            "watch_age_seconds", {(name,): age for name, age in now.watch_ages.items()}
        )
        # The writer counts from the start of the process: add what is new since the last page.
        refused = now.statuses_refused
        self._counters["incident_statuses_refused"].inc(refused - self._counted_refused)
        self._counted_refused = refused
        for result, count in now.evictions.items():
            new = count - self._counted_evictions[result]
            self._counters["evictions"].labels(result).inc(new)
            self._counted_evictions[result] = count

    def snapshot(
        self,
        *,
        incidents: Iterable[Incident],
        rules: Iterable[Rule],
        reading: Reading,
        rows: Rows,
        openmetrics: bool,
    ) -> bytes:
        """Return the page of this moment; two requests at once never see each other's half."""
        with self._guard:
            self.set_totals(incidents, rules)
            self.set_reading(reading)
            self.set_cluster(rows)
            return self.page(openmetrics=openmetrics)

    def page(self, *, openmetrics: bool) -> bytes:
        return self._registry.page(openmetrics=openmetrics)


def _sum(tallies: Mapping[str, Tally[str]], always: Iterable[str]) -> dict[tuple[str, ...], float]:
    total = sum(list(tallies.values()), Tally[str]())
    return {(word,): total[word] for word in (*always, *total)}
