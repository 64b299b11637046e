"""The exporter's metrics about itself, by prometheus_client (its one door in this package).

Names are here alone; dashboards and alerts may use them beside those of `metrics`.
"""
# pyright: basic
# prometheus_client's renderers carry no types.

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

disable_created_metrics()  # a second series for each counter that nobody asks for


class SelfMetrics:
    """Counters of one agent."""

    def __init__(self, version: str) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        build = Gauge(
            "draguard_exporter_build_info",
            "The version of the node agent.",
            ["version"],
            registry=self._registry,
        )
        build.labels(version).set(1)
        self.frames_refused = Counter(
            "draguard_agent_frames_refused",
            "Messages from the sensor that could not be read.",
            registry=self._registry,
        )
        self.report_writes = Counter(
            "draguard_report_writes",
            "Reports (NodeDeviceHealth) that the API server accepted.",
            registry=self._registry,
        )
        self.report_failures = Counter(
            "draguard_report_failures",
            "Reports that it did not, by HTTP status or `unreachable`; the next one says all.",
            ["status"],
            registry=self._registry,
        )
        self.report_success = Gauge(
            "draguard_report_last_success_timestamp_seconds",
            "When a report was last accepted; 0 before the first.",
            registry=self._registry,
        )
        self.report_up = Gauge(
            "draguard_report_up",
            "1: the last report was accepted. 0: it was not, or there was none yet.",
            registry=self._registry,
        )
        self.lease_failures = Counter(
            "draguard_lease_failures",
            "Renewals of the agent's Lease that failed.",
            registry=self._registry,
        )

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def openmetrics(self) -> bytes:
        return openmetrics.generate_latest(self._registry)
