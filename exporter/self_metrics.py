"""The exporter's metrics about itself, by prometheus_client (its one door in this package).

Names are here alone; dashboards and alerts may use them beside those of `metrics`.
"""
# pyright: basic
# prometheus_client's renderers carry no types.

from typing import NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Metric,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

disable_created_metrics()  # a second series for each counter that nobody asks for


class SelfMetrics:
    """Counters of one agent. Where no report is written, those of reports are not shown."""

    def __init__(self, version: str, *, reporting: bool = True) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        build = self._gauge("exporter_build_info", "The version of the node agent.", "version")
        build.labels(version).set(1)
        self.frames_refused = self._counter(
            "agent_frames_refused", "Messages from the sensor that could not be read."
        )
        self.render_failures = self._counter(
            "render_failures", "Pages that could not be rendered; none is served until one can."
        )
        shown, self._registry = self._registry, self._registry if reporting else CollectorRegistry()
        self.report_writes = self._counter(
            "report_writes", "Reports (NodeDeviceHealth) that the API server accepted."
        )
        self.report_failures = self._counter(
            "report_failures",
            "Reports that it did not accept, by HTTP status or `unreachable`.",
            "status",
        )
        self.report_reductions = self._counter(
            "report_reductions",
            "Reports that it refused as invalid and got in a smaller size instead: Essential or "
            "Bare. What is left out is unknown to the remediator.",
            "size",
        )
        self.report_success = self._gauge(
            "report_last_success_timestamp_seconds",
            "When a report was last accepted; 0 before the first.",
        )
        self.report_up = self._gauge(
            "report_up", "1: the last report was accepted. 0: it was not, or there was none yet."
        )
        self.report_fields_dropped = self._gauge(
            "report_fields_dropped",
            "Fields of the last accepted report that the cluster's older CRD did not store.",
        )
        self.lease_failures = self._counter(
            "lease_failures", "Renewals of the agent's Lease that failed."
        )
        self._registry = shown

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"draguard_{name}", text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"draguard_{name}", text, labels, registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def forms(self) -> tuple[bytes, bytes]:
        """Return text and OpenMetrics of one look: CPU time and memory move between two."""
        seen = _Seen(tuple(self._registry.collect()))
        return generate_latest(seen), openmetrics.generate_latest(seen)


class _Seen(NamedTuple):
    """What a registry held at one moment, in the place of the registry."""

    families: tuple[Metric, ...]

    def collect(self) -> tuple[Metric, ...]:
        return self.families
