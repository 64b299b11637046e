"""Liveness of the agents: their Leases, how old their reports are, what they confirm."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from time import monotonic

from exporter.model.node_health import REPORT_HASH, REPORT_INTERVAL, NodeDeviceHealth
from kubeapi.client import Client
from kubeapi.distrust import WATCH_DEAD
from kubeapi.lease import Lease, leases
from kubeapi.reflector import Reflector
from kubeapi.store import Change
from remediator.freshness import Freshness, Renewals
from remediator.model.taint_rule import DOMAIN

AGENT_LEASE_PREFIX = "draguard-agent-"
LEASE_NAME = "draguard-remediator"
"""Of the leader's Lease, in the same namespace."""
VERSION = f"{DOMAIN}/version"
"""Annotation of that Lease: the version of the leader."""
DRIVERS = f"{DOMAIN}/gpu-drivers"
"""Annotation of that Lease: the leader's drivers of GPUs, with commas between."""


class Agents:
    """`mark` gets nodes whose agent reports again, or confirms while the node has an incident."""

    def __init__(  # noqa: PLR0917 - what a report's age rests on
        self,
        client: Client,
        reports: Reflector[NodeDeviceHealth],
        lease_namespace: str,
        stale_after: float,
        now: Callable[[], datetime],
        mark: Callable[[str], None],
        has_incident: Callable[[str], bool],
    ) -> None:
        self._client, self._reports = client, reports
        self._now, self._mark, self._has_incident = now, mark, has_incident
        self._freshness = Freshness(stale_after, monotonic)
        self._renewals = Renewals()
        self._behind: dict[str, timedelta] = {}
        # The agents' Leases and not our own, which changes every two seconds.
        self.leases = Reflector(
            client,
            leases(lease_namespace),
            Lease,
            params={"fieldSelector": f"metadata.name!={LEASE_NAME}"},
            on_change=self._on_lease,
            by_watch=True,
        )

    def stale_by_node(self, nodes: Iterable[str]) -> Mapping[str, bool]:
        """Return for each node whether its agent is silent; {} while our own watches are dead.

        A watch counts as dead earlier than an agent, so that a dead watch of ours never looks like
        silent agents.
        """
        last_contact = min(self._reports.last_contact, self.leases.last_contact)
        if not last_contact or monotonic() - last_contact > WATCH_DEAD:
            return {}
        return {node: bool(self._freshness.why_stale(node)) for node in nodes}

    def why_stale(self, node: str) -> str:
        """Return why a node's report is not trusted: it cannot be read, or is too old; else ""."""
        if node in self._reports.unreadable:
            return f"the report of {node} cannot be read; the log says what is wrong with it"
        report = self._reports.items().get(node)
        interval = report.status.report_interval_seconds if report else REPORT_INTERVAL
        return self._freshness.why_stale(node, interval)

    def renewals(self, node: str, content_hash: str) -> tuple[datetime, ...]:
        """Return when a node's agent confirmed a report lately; () while it did not."""
        return self._renewals.of(node, content_hash)

    def is_overtaken(self, node: str, content_hash: str) -> bool:
        """Whether a node's agent has last confirmed another report than this one."""
        return self._renewals.is_overtaken(node, content_hash)

    def clock_lag(self, node: str) -> timedelta | None:
        """Return how far a node's clock is behind, by its last Lease; None where it has none.

        The age of a Lease that came in a list is included: a minute at most.
        """
        return self._behind.get(node)

    def on_report(self, change: Change[NodeDeviceHealth]) -> None:
        if change.new is None:
            self._freshness.forget(change.key)
        # It may have been written long ago: its date counts, by the API server's time.
        elif change.listed:
            written = change.new.status.observed_at
            self._freshness.note_list(change.key, "report", written, self._server_time())
        else:
            self._freshness.note_change(change.key, "report")

    def _on_lease(self, change: Change[Lease]) -> None:
        name = change.key.rpartition("/")[2]
        if not name.startswith(AGENT_LEASE_PREFIX):
            return
        node = name.removeprefix(AGENT_LEASE_PREFIX)
        if change.new is None:
            # Nodes come and go for as long as this process runs: keep nothing of those gone.
            self._renewals.forget(node)
            self._behind.pop(node, None)
            if node not in self._reports.items():
                self._freshness.forget(node)
            return
        # Before the rest, which makes the agent fresh.
        was_stale = bool(self._freshness.why_stale(node))
        renewed = change.new.spec.renew_time
        if renewed is not None:
            self._behind[node] = max(self._server_time() - renewed, timedelta())
        report_hash = change.new.metadata.annotations.get(REPORT_HASH, "")
        if change.listed:
            self._freshness.note_list(node, "Lease", renewed, self._server_time())
            self._renewals.note_list(node, report_hash)
        else:
            self._freshness.note_change(node, "Lease")
            report = self._reports.items().get(node)
            stored = report.status.content_hash if report else ""
            self._renewals.note_renewal(node, report_hash, stored, self._now())
            # An untaint may wait for this confirmation.
            if self._has_incident(node):
                self._mark(node)
        if was_stale:
            self._mark(node)

    def _server_time(self) -> datetime:
        """Return the API server's time, which our clock need not know."""
        return self._client.server_clock.now() or self._now()
