"""The hands: reflectors that feed the world, and the writer that acts on it.

The only place that knows which collections are watched. Decoding is kubeapi's,
indexing is `world`'s, deciding happens elsewhere.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from time import monotonic
from typing import Any

import msgspec

from exporter.report import NodeDeviceHealth
from exporter.slices import ResourceSlice
from kubeapi.client import ApiError, Client
from kubeapi.discovery import served
from kubeapi.lease import Lease, leases
from kubeapi.reflector import Reflector
from kubeapi.store import Change
from remediator.decide import plan
from remediator.decide.fleet import Fleet
from remediator.decide.view import NodeView
from remediator.hands.crashes import Crashes
from remediator.hands.emergency import Emergency
from remediator.hands.node_pods import NodePods
from remediator.hands.world import World
from remediator.hands.writes import INCIDENTS, RULE_VERSIONS, Writer, rules_path
from remediator.judge.freshness import Freshness
from remediator.objects import events
from remediator.objects.claims import Claim
from remediator.objects.incident import Incident
from remediator.objects.taints import RawRule

REPORTS = "/apis/draguard.dev/v1alpha1/nodedevicehealths"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
WATCH_SILENT = 150.0
"""Seconds without an event or a bookmark; API servers send a bookmark each minute."""
POSTED_LIMIT = 4096
"""Events remembered, so that a lasting state is not told at every tick."""
AGENT_LEASE_PREFIX = "draguard-agent-"


class Cluster:
    """Implements `reconcile.Hands` on a real API server."""

    def __init__(
        self,
        client: Client,
        *,
        mark: Callable[[str], None],
        lease_namespace: str,
        stale_after: float,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._now = now
        self.world = World(mark)
        self.writer = Writer(client, self.world)
        self._pods = NodePods(client)
        self._crashes = Crashes()
        self._emergency = Emergency(client, lease_namespace)
        self.policy_changed_at: datetime | None = None
        self._posted: dict[events.Event, None] = {}
        self._freshness = Freshness(stale_after, monotonic)
        self._mark = mark
        self._rules: Reflector[RawRule] | None = None
        self._probed = False
        self._reflectors: tuple[Reflector[Any], ...] = (
            Reflector(client, REPORTS, NodeDeviceHealth, on_change=self._report),
            Reflector(client, SLICES, ResourceSlice, on_change=self._slice),
            Reflector(client, CLAIMS, Claim, on_change=self._claim),
            Reflector(client, INCIDENTS, Incident, on_change=self._incident),
            Reflector(client, leases(lease_namespace), Lease, on_change=self._lease),
        )

    def start(self) -> None:
        for reflector in self._reflectors:
            reflector.start()

    def stop(self) -> None:
        for reflector in self.reflectors():
            reflector.stop()
        self._client.close()

    def reflectors(self) -> tuple[Reflector[Any], ...]:
        return (*self._reflectors, *([self._rules] if self._rules else []))

    def wait_synced(self, timeout: float) -> bool:
        """Wait until every collection was listed once; a part of the world is no world."""
        until = monotonic() + timeout
        return all(one.wait_synced(max(0.0, until - monotonic())) for one in self.reflectors())

    @property
    def synced(self) -> bool:
        """Whether the whole world was seen once; a part of it would be acting on absence."""
        return self._probed and all(one.synced for one in self.reflectors())

    def waiting_for(self) -> str:
        """Return what still lacks its first list, with what to do about it."""
        missing = [one for one in self.reflectors() if not one.synced]
        if any(one.missing for one in missing):
            return "Draguard's objects are not served; install them: kubectl apply -f deploy/crds"
        return "; ".join(sorted({one.error for one in missing if one.error}))

    def probe_rules(self) -> str | None:
        """Find out which version of DeviceTaintRule is served, and watch that one.

        Returns the version, None when there is none. Raises ApiError when nobody answers.
        """
        version = served(self._client, "resource.k8s.io", "devicetaintrules", RULE_VERSIONS)
        self._probed = True
        if version == self.writer.rules_version:
            return version
        if self._rules is not None:
            self._rules.stop()
            self._rules = None
        if version is not None:
            self._rules = Reflector(
                self._client, rules_path(version), RawRule, on_change=self._rule
            )
            self._rules.start()
        self.writer.rules_version = version
        return version

    def view(self, node: str) -> NodeView:
        """Return what is known of a node now, with its pods where a story needs them."""
        view = self.world.view(node, self._stale)
        if any(one.open for one in view.incidents):
            view = msgspec.structs.replace(view, pods=self._pods.of(node))
        return msgspec.structs.replace(view, suspects=self._crashes.seen(view))

    def _stale(self, node: str) -> str:
        """Say why a node's report is not to be believed: its agent, or our own eyes."""
        silent = monotonic() - self._reflectors[0].last_contact
        if silent > WATCH_SILENT:
            return f"the watch of reports has been silent for {silent:.0f} s"
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
        if event in self._posted:
            return
        with suppress(ApiError):
            self.writer.post(event, now)
            self._posted[event] = None
        if len(self._posted) > POSTED_LIMIT:
            self._posted.pop(next(iter(self._posted)))

    def _report(self, change: Change[NodeDeviceHealth]) -> None:
        if change.new is None:
            self._freshness.forget(change.key)
        elif change.old is None:
            written = change.new.status.observed_at
            self._freshness.first_seen(change.key, written, self._now())
        else:
            self._freshness.changed(change.key)
        self.world.report(change.key, change.new)

    def _lease(self, change: Change[Lease]) -> None:
        name = change.key.rpartition("/")[2]
        if not name.startswith(AGENT_LEASE_PREFIX) or change.new is None:
            return
        node = name.removeprefix(AGENT_LEASE_PREFIX)
        was_stale = bool(self._freshness.stale(node))
        if change.old is None:
            self._freshness.first_seen(node, change.new.spec.renew_time, self._now())
        else:
            self._freshness.changed(node)
        if was_stale:
            self._mark(node)

    def _slice(self, change: Change[ResourceSlice]) -> None:
        self.world.slice(change.key, change.old, change.new)

    def _claim(self, change: Change[Claim]) -> None:
        self.world.claim(change.key, change.old, change.new)

    def _incident(self, change: Change[Incident]) -> None:
        self.world.incident(change.key, change.new)

    def _rule(self, change: Change[RawRule]) -> None:
        self.world.rule(change.key, change.new)
