"""Every GPU's place, kept up as reports, slices and claims change, for budgets to count on.

A node speaks for what it publishes itself: pools and NVLink domain of a GPU are
those that its publisher names. A GPU that two nodes publish is counted once.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from heapq import nsmallest
from itertools import islice

from exporter.device import GPU_DRIVER, Device
from exporter.report import FabricHealth, NodeHealth
from exporter.slices import SliceDevice
from kubeapi import clock
from remediator.decide.fleet import Changed, GpuPlace, Ground, names_on
from remediator.objects.claims import Claim, device_classes
from remediator.policy.limits import KEYS

PEERS = 32
"""Neighbours that are named; of more the number is told."""
FABRIC_JOINED = 3
"""State of a GPU that has joined its fabric (NVML_GPU_FABRIC_STATE_COMPLETED)."""

_Gpus = dict[str, tuple[SliceDevice, ...]]


class Census:
    """An index; `World` feeds it under its lock. `places` and `totals` are live."""

    def __init__(self, now: Callable[[], datetime] = clock.now) -> None:
        self.places: dict[str, GpuPlace] = {}
        self.totals: Counter[tuple[Ground, str]] = Counter()
        self.changes: dict[str, Changed] = {}
        self._now = now
        self._published: dict[str, _Gpus] = {}
        self._publishers: dict[str, tuple[str, ...]] = {}
        self._gpu_on: dict[Device, str] = {}
        self._domains: dict[str, dict[str, str]] = {}
        self._members: defaultdict[str, set[str]] = defaultdict(set)
        self._claimed: dict[Device, tuple[str, ...]] = {}
        self._versions: dict[str, tuple[str, str]] = {}

    def published(self, node: str, devices: tuple[SliceDevice, ...]) -> None:
        """Take in what a node publishes now."""
        before, after = self._published.pop(node, {}), _gpus(node, devices)
        if after:
            self._published[node] = after
        for uuid in before:
            for one in before[uuid]:
                self._gpu_on.pop(one.device, None)
        for uuid, parts in after.items():
            self._gpu_on.update((one.device, uuid) for one in parts)
        alone = (node,)
        for uuid in before.keys() ^ after.keys():
            others = tuple(one for one in self._publishers.pop(uuid, ()) if one != node)
            if uuid in after:
                self._publishers[uuid] = tuple(sorted((*others, node))) if others else alone
            elif others:
                self._publishers[uuid] = others
        self._place(before.keys() | after.keys())

    def reported(self, node: str, health: NodeHealth | None) -> None:
        """Take in a node's report; None when it is gone."""
        before = self._domains.pop(node, {})
        told = {gpu.uuid: _domain(gpu.fabric) for gpu in (health.gpus if health else ())}
        after = {uuid: domain for uuid, domain in told.items() if domain}
        if after:
            self._domains[node] = after
        self._place(uuid for uuid, _ in before.items() ^ after.items())
        self._note_versions(node, health)

    def claimed(self, old: Claim | None, new: Claim | None) -> None:
        """Take in a change of a claim."""
        before, after = _held(old), _held(new)
        if before == after:
            return
        for device, classes in before.items():
            left = list(self._claimed.pop(device, ()))
            for one in classes.intersection(left):
                left.remove(one)
            if left:
                self._claimed[device] = tuple(left)
        for device, classes in after.items():
            self._claimed[device] = tuple(sorted((*self._claimed.get(device, ()), *classes)))
        touched = (self._gpu_on.get(device) for device in before.keys() | after.keys())
        self._place(uuid for uuid in touched if uuid is not None)

    def peers(self, uuid: str) -> tuple[str, ...]:
        """Return the GPUs in one NVLink domain with this one, as `node/uuid`."""
        place = self.places.get(uuid)
        others = self._members.get(place.domain, set[str]()) - {uuid} if place else set[str]()
        named = nsmallest(PEERS, (f"{self.places[one].node}/{one}" for one in others))
        more = len(others) - len(named)
        return (*named, f"and {more} more") if more else tuple(named)

    def _place(self, uuids: Iterable[str]) -> None:
        """Bring the places of some GPUs, and what is counted of them, up to date."""
        for uuid in set(uuids):
            old, new = self.places.get(uuid), self._found(uuid)
            if old != new:
                self._count(old, -1)
                self._count(new, 1)
                self._join(uuid, old.domain if old else "", new.domain if new else "")
                self.places.pop(uuid, None)
                if new is not None:
                    self.places[uuid] = self._shared(new)

    def _found(self, uuid: str) -> GpuPlace | None:
        nodes = self._publishers.get(uuid)
        if not nodes:
            return None
        parts = [one.device for node in nodes for one in self._published[node][uuid]]
        domains = (self._domains.get(node, {}).get(uuid, "") for node in nodes)
        return GpuPlace(
            node=nodes[0],
            pools=frozenset(f"{one.driver}/{one.pool}" for one in parts),
            classes=frozenset(name for one in parts for name in self._claimed.get(one, ())),
            domain=next((one for one in domains if one), ""),
        )

    def _shared(self, place: GpuPlace) -> GpuPlace:
        """Return a neighbour's place that is the same: most of a node's are, and all are kept."""
        neighbours = islice(self._published.get(place.node, ()), 16)
        known = (self.places.get(one) for one in neighbours)
        return next((one for one in known if one is not None and one == place), place)

    def _count(self, place: GpuPlace | None, change: int) -> None:
        for ground in KEYS if place else ():
            for name in names_on(ground, place) if place else ():
                self.totals[ground, name] += change
                if not self.totals[ground, name]:
                    del self.totals[ground, name]

    def _join(self, uuid: str, old: str, new: str) -> None:
        self._members[old].discard(uuid)
        if not self._members[old]:
            del self._members[old]
        if new:
            self._members[new].add(uuid)

    def _note_versions(self, node: str, health: NodeHealth | None) -> None:
        """Note when a version became another one; the first sight of it is no change."""
        if health is None:
            self._versions.pop(node, None)
            self.changes.pop(node, None)
            return
        old = self._versions.get(node, ("", ""))
        told = (health.driver_version, health.agent_version)
        # A driver that is not loaded has no version: the last one known is still the last one.
        new = (told[0] or old[0], told[1] or old[1])
        self._versions[node] = new
        moved = [bool(before) and before != after for before, after in zip(old, new, strict=True)]
        if any(moved):
            was, now = self.changes.get(node, Changed()), self._now()
            self.changes[node] = Changed(
                driver_at=now if moved[0] else was.driver_at,
                agent_at=now if moved[1] else was.agent_at,
            )


def _gpus(node: str, devices: tuple[SliceDevice, ...]) -> _Gpus:
    """Return what a node publishes of each GPU.

    NVIDIA's driver names a pool after its node: another pool is another node's to speak of.
    """
    found: _Gpus = {}
    for one in devices:
        uuid, name = one.parent_uuid or one.uuid, one.device
        foreign = name.driver == GPU_DRIVER and name.pool != node
        if uuid and one.kind and one.node == node and not foreign:
            found[uuid] = (*found.get(uuid, ()), one)
    return found


def _domain(fabric: FabricHealth) -> str:
    """Return the NVLink domain of a GPU, "" where it is in none that reaches beyond its node.

    A cluster UUID of zeros is that of a single machine's own NVSwitches.
    """
    if fabric.state != FABRIC_JOINED or not fabric.cluster_uuid.strip("0-"):
        return ""
    return f"{fabric.cluster_uuid}/{fabric.clique if fabric.clique is not None else ''}"


def _held(claim: Claim | None) -> dict[Device, frozenset[str]]:
    """Return through which classes a claim holds each device; an administrator's look is none."""
    if claim is None:
        return {}
    classes = device_classes(claim)
    return {one.name: classes for one in claim.results if classes and not one.admin_access}
