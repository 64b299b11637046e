"""What the remediator says about itself to Prometheus; the one door to prometheus_client here."""

from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable
from typing import cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics_exposition

from remediator.decide.reconcile import NodeDecision
from remediator.judge.fault import Healthy, Sick, Verdict
from remediator.objects.incident import Incident
from remediator.objects.taints import Rule

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
        self._gpus = self._gauge("gpus", "GPUs by verdict: healthy, sick, unknown.", "verdict")
        self._held = self._gauge("held_gpus", "GPUs for which the budget holds something back.")
        self._nodes: dict[str, Tally[str]] = {}

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def decided(self, decision: NodeDecision) -> None:
        """Count one tick; call it after its writes succeeded."""
        self.reconciles.labels("done").inc()
        for step in decision.steps:
            self.steps.labels(type(step).__name__).inc()
        tally = Tally(_word(case.verdict) for case, _ in decision.pairs)
        tally["held"] = sum(bool(wish.held) for _, wish in decision.pairs)
        self._nodes[decision.node] = tally
        self._total()

    def forget(self, nodes: Collection[str]) -> None:
        """Drop what was counted of nodes other than these."""
        for node in [one for one in list(self._nodes) if one not in nodes]:
            self._nodes.pop(node, None)
        self._total()

    def _total(self) -> None:
        total = sum(list(self._nodes.values()), Tally[str]())
        for word in ("healthy", "sick", "unknown"):
            self._gpus.labels(word).set(total[word])
        self._held.set(total["held"])

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


def _word(verdict: Verdict) -> str:
    if isinstance(verdict, Sick):
        return "sick"
    return "healthy" if isinstance(verdict, Healthy) else "unknown"
