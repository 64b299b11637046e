"""What is watched of a cluster, as a snapshot. All reading of the explainer is here.

Of pods only those are kept that use claims or extended resources, and of Nodes only what the
scheduler's filters read.
"""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from allocation.explainer.findings import Snapshot
from allocation.layers.explanation import Inventory
from allocation.model.claims import Claim, DeviceClass
from allocation.model.nodes import Node, StoredNode
from allocation.model.pods import Pod
from allocation.model.slices import ResourceSlice, TaintRule, with_rules
from allocation.plugin import requests_by_node
from kubeapi.client import Client
from kubeapi.decoding import Decoder
from kubeapi.distrust import distrust, distrust_versioned
from kubeapi.reflector import Reflector
from kubeapi.resources import INCIDENTS, NODES
from kubeapi.store import Change
from kubeapi.types import NamespacedMeta
from kubeapi.versions import GROUP, RULE_VERSIONS, Versioned
from remediator.model.incident import Incident

PODS = "/api/v1/pods"
VERSIONS = ("v1", "v1beta2")
"""Of slices, claims and classes: they have one shape since Kubernetes 1.33."""
_NO_DEVICES = Pod(NamespacedMeta())
"""Stands for each pod that uses none: there are many."""
_ENDED = frozenset({"Succeeded", "Failed"})


class Observer:
    """Every watch of the explainer."""

    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._now = now
        self._guard = threading.Lock()
        self._version = 0
        self._pods: dict[str, Pod] = {}
        self._inventory: tuple[object, Inventory] | None = None
        """Of a version."""
        self._tainted: tuple[Any, Any, tuple[ResourceSlice, ...]] | None = None
        """Slices and rules as they were, and the slices with the taints of the rules."""
        raw_pods, raw_nodes = Decoder(Pod), Decoder(StoredNode)

        def decode_pod(raw: msgspec.Raw) -> Pod:
            pod = raw_pods.decode(raw)
            return pod if pod.spec.resource_claims or pod.extended_resources() else _NO_DEVICES

        self.slices = Versioned(
            client, "resourceslices", VERSIONS, ResourceSlice, self._on_inventory
        )
        self.rules = Versioned(
            client, "devicetaintrules", RULE_VERSIONS, TaintRule, self._on_inventory
        )
        self.classes = Versioned(client, "deviceclasses", VERSIONS, DeviceClass, self._on_inventory)
        self.claims = Versioned(client, "resourceclaims", VERSIONS, Claim, self._on_claim)
        self.pods = Reflector(
            client,
            PODS,
            Pod,
            on_change=self._on_pod,
            by_watch=True,
            decode=decode_pod,
        )
        self.nodes = Reflector(
            client,
            NODES,
            Node,
            on_change=self._on_inventory,
            by_watch=True,
            decode=lambda raw: raw_nodes.decode(raw).node,
        )
        self.incidents = Reflector(client, INCIDENTS, Incident, by_watch=True)

    def start(self) -> None:
        for reflector in (self.pods, self.nodes, self.incidents):
            reflector.start()

    def stop(self) -> None:
        for reflector in self.reflectors():
            reflector.stop()

    def probe(self) -> None:
        """Find which versions are served, and watch those. Raises ApiError without an answer."""
        for kind in (self.slices, self.rules, self.classes, self.claims):
            kind.probe()

    @property
    def dra(self) -> str:
        """Return the path of the group version of claims."""
        return f"/apis/{GROUP}/{self.claims.version or VERSIONS[0]}"

    def reflectors(self) -> tuple[Reflector[Any], ...]:
        versioned = (self.slices, self.rules, self.classes, self.claims)
        watched = [kind.reflector for kind in versioned if kind.reflector is not None]
        return (*watched, self.pods, self.nodes, self.incidents)

    def distrust_by_kind(self) -> Mapping[str, str]:
        """Return why a collection cannot be trusted now, "" where it can.

        Rules and incidents are none where they are not served; so is all of DRA where the cluster
        has never served any of it.
        """
        dra = (
            (self.slices, "ResourceSlices"),
            (self.classes, "DeviceClasses"),
            (self.claims, "ResourceClaims"),
        )
        absent = all(kind.probed and kind.reflector is None for kind, _ in dra)
        return {
            **{
                kind.resource: "" if absent else distrust_versioned(kind, words)
                for kind, words in dra
            },
            "devicetaintrules": distrust_versioned(self.rules, "DeviceTaintRules")
            if self.rules.version is not None
            else ("" if self.rules.probed else "DeviceTaintRules were not looked for yet"),
            "pods": distrust(self.pods),
            "nodes": distrust(self.nodes),
        }

    def snapshot(self) -> Snapshot:
        """Return what is known now."""
        kinds = (self.slices, self.rules, self.classes, self.claims)
        with self._guard:
            version = (self._version, *(kind.version for kind in kinds))
            pods = dict(self._pods)
        claims = _items(self.claims)
        if self._inventory is None or self._inventory[0] != version:
            self._inventory = version, self._take_inventory(pods, claims)
        watched = [kind.reflector for kind in kinds if kind.reflector is not None]
        unreadable = [
            f"{len(each.unreadable)} {each.resource}"
            for each in (*watched, self.nodes)
            if each.unreadable
        ]
        # Refused, silent, or not listed yet: then no device is called sick.
        trusted = not distrust(self.incidents)
        incidents: Mapping[str, Incident] = self.incidents.items() if trusted else {}
        return Snapshot(
            at=self._now(),
            version=version,
            pods=pods,
            claims=claims,
            inventory=self._inventory[1],
            incidents={
                target.name: f"incident {each.name}, {each.status.phase}"
                for each in incidents.values()
                if each.open
                for target in each.status.scope.devices
            },
            unreadable=f"this version cannot read {', '.join(unreadable)}" if unreadable else "",
        )

    def _take_inventory(self, pods: Mapping[str, Pod], claims: Mapping[str, Claim]) -> Inventory:
        published, rules = _items(self.slices), _items(self.rules)
        if self._tainted is None or self._tainted[:2] != (published, rules):
            slices = tuple(with_rules(published.values(), rules.values()))
            self._tainted = published, rules, slices
        on_nodes = (
            pod for pod in pods.values() if pod.spec.node_name and pod.status.phase not in _ENDED
        )
        return Inventory(
            slices=self._tainted[2],
            classes=tuple(_items(self.classes).values()),
            claims=tuple(claims.values()),
            nodes=tuple(self.nodes.items().values()),
            used=requests_by_node(on_nodes),
        )

    def _on_inventory(self, change: Change[Any]) -> None:
        # A kubelet writes its Node every few minutes; what is kept of it hardly ever changes.
        if change.old != change.new:
            with self._guard:
                self._version += 1

    def _on_claim(self, change: Change[Claim]) -> None:
        """Note what is allocated; what a claim requests concerns no other claim."""
        old, new = change.old, change.new
        if (old.results if old else ()) != (new.results if new else ()):
            with self._guard:
                self._version += 1

    def _on_pod(self, change: Change[Pod]) -> None:
        """Keep those that use devices; what they have of device plugins concerns others."""
        new = change.new if change.new is not _NO_DEVICES else None
        with self._guard:
            old = self._pods.pop(change.key, None)
            if new is not None:
                self._pods[change.key] = new
            if _on_plugin(old) != _on_plugin(new):
                self._version += 1


def _items(kind: Versioned[Any]) -> Mapping[str, Any]:
    """Return what is served now; a watch keeps its copy when its kind is served no more."""
    served = kind.reflector is not None and kind.version is not None
    return kind.reflector.items() if kind.reflector is not None and served else {}


def _on_plugin(pod: Pod | None) -> tuple[str, Mapping[str, int]]:
    """Return what a pod has of extended resources, and where."""
    if pod is None or not pod.spec.node_name or pod.status.phase in _ENDED:
        return "", {}
    requested = pod.extended_resources()
    return (pod.spec.node_name, requested) if requested else ("", {})
