"""What the remediator says about itself to Prometheus; the one door to prometheus_client here."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable
from typing import cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics_exposition

from remediator.fault import Healthy, Sick
from remediator.incident import Incident
from remediator.reconcile import NodeDecision
from remediator.taints import Rule

_openmetrics = cast(
    "Callable[[CollectorRegistry], bytes]",
    openmetrics_exposition.generate_latest,  # pyright: ignore[reportUnknownMemberType] - untyped
)


PREFIX = "draguard_remediator"


class Metrics:
    """One registry; every family carries our prefix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = self._counter(
            "reconciles",
            "Ticks by result: done, superseded (decided again), failed (API), bug.",
            "result",
        )
        self.steps = self._counter("steps", "Steps taken, by kind.", "step")
        self.duration = Histogram(
            f"{PREFIX}_reconcile_duration_seconds",
            "Time of one tick that went well, its writes included.",
            registry=self.registry,
        )
        self.jobs_failed = self._counter("timer_failures", "Timer jobs that failed or were missed.")
        self.undecodable = self._gauge(
            "undecodable_objects",
            "Objects left out since start because they could not be decoded.",
        )
        self.policy_bad = self._gauge(
            "policy_file_bad", "1 while the file is unusable and the last good policy is in force."
        )
        self.rules_served = self._gauge(
            "rules_served", "1 when DeviceTaintRules are served; without them nothing is fenced."
        )
        self._incidents = self._gauge("incidents", "Open incidents by phase.", "phase")
        self._rules = self._gauge("rules", "DeviceTaintRules of ours, by effect.", "effect")
        self._gpus = self._gauge(
            "node_gpus", "GPUs of a node by verdict: healthy, sick, unknown.", "node", "verdict"
        )
        self._held = self._gauge(
            "held_gpus", "GPUs of a node for which the budget holds something back.", "node"
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def decided(self, decision: NodeDecision) -> None:
        """Count one tick; call it after its writes succeeded."""
        self.reconciles.labels("done").inc()
        for step in decision.steps:
            self.steps.labels(type(step).__name__).inc()
        verdicts = [case.verdict for case, _ in decision.pairs]
        sick = sum(isinstance(one, Sick) for one in verdicts)
        healthy = sum(isinstance(one, Healthy) for one in verdicts)
        node = decision.node
        self._gpus.labels(node, "sick").set(sick)
        self._gpus.labels(node, "healthy").set(healthy)
        self._gpus.labels(node, "unknown").set(len(verdicts) - sick - healthy)
        self._held.labels(node).set(sum(bool(wish.held) for _, wish in decision.pairs))

    def counted(self, incidents: Iterable[Incident], rules: Iterable[Rule]) -> None:
        """Set the totals of the whole cluster."""
        self._incidents.clear()
        for phase, number in Tally(one.status.phase for one in incidents if one.open).items():
            self._incidents.labels(phase).set(number)
        self._rules.clear()
        for effect, number in Tally(rule.effect for rule in rules).items():
            self._rules.labels(effect).set(number)

    def page(self, *, openmetrics: bool) -> bytes:
        if openmetrics:
            return _openmetrics(self.registry)
        return generate_latest(self.registry)
