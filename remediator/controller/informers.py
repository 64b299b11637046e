"""Every watch of the remediator: its changes go into the cache.

Only this module knows which collections are watched. `kubeapi` decodes, `cache` indexes.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from time import monotonic
from typing import Any

import msgspec

from exporter.model.node_health import NodeDeviceHealth
from exporter.model.resource_slices import ResourceSlice
from kubeapi.client import UNREADABLE, Client
from kubeapi.distrust import distrust, distrust_versioned
from kubeapi.reflector import Reflector
from kubeapi.resources import INCIDENTS, NODES, REPORTS
from kubeapi.store import Change
from kubeapi.versions import DRA_VERSIONS, RULE_VERSIONS, Versioned
from remediator.controller import feature_gates
from remediator.controller.agents import Agents
from remediator.controller.cache import Cache
from remediator.controller.emergency import Emergency
from remediator.controller.feature_gates import Gates, StatedRule
from remediator.controller.rejected_fields import Unstored
from remediator.controller.watches import (
    unreadable_claims,
    unreadable_rules,
    unreadable_slices,
)
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.model.node import RawNode, facts
from remediator.plan.view import NodeView, WatchedKind


class Informers:
    """The watches, whether they have listed all, and whether their copies can be trusted.

    `mark` gets nodes that changed, `urgent` those whose report did.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        unstored: Unstored,
        *,
        mark: Callable[[str], None],
        urgent: Callable[[str], None],
        lease_namespace: str,
        stale_after: float,
        now: Callable[[], datetime],
    ) -> None:
        self._client, self._cache, self._unstored = client, cache, unstored
        self._mark, self._urgent = mark, urgent
        self._gates = Gates()
        self._minor: int | None = None
        """Minor release of the API server; read only while rules are served as v1alpha3."""
        self.rules = Versioned(client, "devicetaintrules", RULE_VERSIONS, StatedRule, self._on_rule)
        self.slices = Versioned(
            client, "resourceslices", DRA_VERSIONS, ResourceSlice, self._on_slice
        )
        self.claims = Versioned(client, "resourceclaims", DRA_VERSIONS, Claim, self._on_claim)
        self.emergency = Emergency(client, lease_namespace, self._mark_all)
        self._reports = Reflector(
            client, REPORTS, NodeDeviceHealth, on_change=self._on_report, by_watch=True
        )
        self.nodes = Reflector(
            client, NODES, RawNode, on_change=self._on_node, by_watch=True, metadata_only=True
        )
        self.incidents = Reflector(
            client, INCIDENTS, Incident, on_change=self._on_incident, by_watch=True
        )
        self.agents = Agents(
            client, self._reports, lease_namespace, stale_after, now, mark, cache.has_incident
        )
        self._reflectors = (self._reports, self.incidents, self.agents.leases)

    def start(self) -> None:
        self.emergency.start()
        for reflector in (*self._reflectors, self.nodes):
            reflector.start()

    def stop(self) -> None:
        for reflector in self.reflectors():
            reflector.stop()

    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """Return every watch that there should be now."""
        return (*self._required_watches(), self.nodes, *self.emergency.reflectors())

    def _versioned_kinds(self) -> tuple[Versioned[Any], ...]:
        return self.rules, self.slices, self.claims

    def _required_watches(self) -> tuple[Reflector[Any], ...]:
        """Return the watches without which nothing is decided.

        Nodes are not among them: without their watch, decisions only know less about other actors.
        """
        served = [
            resource.reflector
            for resource in self._versioned_kinds()
            if resource.version is not None
        ]
        return (*self._reflectors, *(reflector for reflector in served if reflector is not None))

    def _mark_all(self) -> None:
        for node in self._cache.choose_nodes():
            self._mark(node)

    def wait_synced(self, timeout: float) -> bool:
        """Wait until every collection was listed once; a part would look like the whole."""
        until = monotonic() + timeout
        return all(
            reflector.wait_synced(max(0.0, until - monotonic()))
            for reflector in self._required_watches()
        )

    @property
    def has_synced(self) -> bool:
        """Whether every collection was listed once: before, what is missing only looks deleted."""
        probed = self.rules.probed and all(
            resource.version for resource in (self.slices, self.claims)
        )
        return (
            probed
            and self.emergency.is_settled
            and all(reflector.synced for reflector in self._required_watches())
        )

    def waiting_for(self) -> str:
        """Return what still lacks its first list, with what to do about it."""
        missing = [
            reflector
            for reflector in self.reflectors()
            if not reflector.synced and reflector is not self.nodes
        ]
        if any(reflector.missing for reflector in missing):
            return (
                "Draguard's objects are not served: install or upgrade the chart, or apply "
                "deploy/manifests/crds.yaml"
            )
        reasons = sorted({reflector.error for reflector in missing if reflector.error})
        if self.slices.probed and self.slices.version is None:
            reasons.append(
                "this API server has no ResourceSlices; Kubernetes 1.34 has them, 1.32 and 1.33 "
                "need --runtime-config=resource.k8s.io/v1beta1=true"
            )
        return "; ".join(reasons)

    def probe(self) -> None:
        """Find which versions are served, and watch those; raises ApiError without an answer."""
        for resource in self._versioned_kinds():
            resource.probe()
        # The other versions have a status on every server that serves them.
        if self.rules.version == RULE_VERSIONS[-1] and self._minor is None:
            self._minor = self._read_minor()

    def _read_minor(self) -> int | None:
        try:
            found = msgspec.json.decode(self._client.get("/version"), type=dict[str, Any])
            return int(str(found.get("minor", "")).rstrip("+"))
        except UNREADABLE:
            return None

    def rules_without_status(self) -> tuple[str, ...] | None:
        """Return rules of ours that no component acts on; None where that cannot be known."""
        if not feature_gates.has_status(self.rules.version, self._minor):
            return None
        return self._gates.ignored_rules()

    def distrust_by_kind(self) -> Mapping[WatchedKind, str]:
        """Return by kind why its objects cannot be trusted now, of any node; "" where they can.

        Where no DeviceTaintRules are served, there is none that could be missed.
        """
        served = self.rules.version is not None
        return {
            "reports": distrust(self._reports),
            "leases": distrust(self.agents.leases),
            "slices": distrust_versioned(self.slices, "ResourceSlices"),
            "claims": distrust_versioned(self.claims, "ResourceClaims"),
            "rules": distrust_versioned(self.rules, "DeviceTaintRules") if served else "",
            "incidents": distrust(self.incidents),
        }

    def unreadable_by_kind(self, view: NodeView) -> Mapping[WatchedKind, str]:
        """Return by kind which objects of this one node cannot be read; "" where all can."""
        return {
            "slices": unreadable_slices(self.slices, view.node, self._cache.drivers),
            "claims": unreadable_claims(self.claims, view),
            "rules": unreadable_rules(self.rules, view.node),
        }

    def unread_counts(self) -> Mapping[WatchedKind, int]:
        """Return how many objects of a kind cannot be read, on whatever node; no kind with 0."""
        kinds: tuple[tuple[WatchedKind, Versioned[Any]], ...] = (
            ("slices", self.slices),
            ("claims", self.claims),
            ("rules", self.rules),
        )
        return {
            kind: len(of.reflector.unreadable)
            for kind, of in kinds
            if of.reflector is not None and of.reflector.unreadable
        }

    def _on_report(self, change: Change[NodeDeviceHealth]) -> None:
        # Before the cache, which marks the node: its decision must not find the report stale.
        self.agents.on_report(change)
        self._cache.put_report(change.key, change.new, listed=change.listed)
        self._urgent(change.key)

    def _on_slice(self, change: Change[ResourceSlice]) -> None:
        self._cache.put_slice(change.key, change.old, change.new)

    def _on_claim(self, change: Change[Claim]) -> None:
        self._cache.put_claim(change.key, change.old, change.new)

    def _on_incident(self, change: Change[Incident]) -> None:
        gone = change.old.metadata.uid if change.old else ""
        new = change.new
        if new is None:
            self._unstored.forget(change.key)
        else:
            new = self._unstored.restore_whole(new)
        self._cache.put_incident(change.key, new, listed=change.listed, gone=gone)

    def _on_rule(self, change: Change[StatedRule]) -> None:
        self._gates.on_rule(change)
        gone = change.old.metadata.uid if change.old else ""
        self._cache.put_rule(change.key, change.new, listed=change.listed, gone=gone)

    def _on_node(self, change: Change[RawNode]) -> None:
        self._cache.put_node(change.key, facts(change.new) if change.new else None)
