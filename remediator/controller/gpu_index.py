"""Every GPU's place, kept up as reports, slices and claims change, for budgets to count on.

A node counts for what it publishes itself: pools and NVLink domain of a GPU are those that its
publisher names. A GPU that two nodes publish is counted once.

A GPU that is no longer published keeps its place for a day: a kubelet that starts, or a driver that
crash-loops, wipes the slices of its node, and no percentage of the GPUs may shrink for that. GPUs
of a node beyond `NODE_SHARE` count in no total, so that none grows by what one node invents. A
restart forgets the day.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from heapq import heappop, heappush, nsmallest
from itertools import islice

from exporter.model.device import GPU_DRIVER, Device
from exporter.model.node_health import FabricHealth, NodeHealth
from exporter.model.resource_slices import SliceDevice
from kubeapi import clock
from remediator.model.claim import Claim, device_classes
from remediator.plan.view import NODE_SHARE, Changed, GpuPlace, names_on
from remediator.policy.limits import GROUNDS, Ground

SEEN_FOR = timedelta(hours=24)
"""How long a GPU counts after it was last published."""
PEERS = 32
"""Neighbours that are named; of the others only the number is returned."""
FABRIC_JOINED = 3
"""State of a GPU that has joined its fabric (NVML_GPU_FABRIC_STATE_COMPLETED)."""

_Gpus = dict[str, tuple[SliceDevice, ...]]


class GpuIndex:
    """An index; `Cache` feeds it under its lock. `places` and `totals` are live."""

    def __init__(self, now: Callable[[], datetime] = clock.now) -> None:
        self.places: dict[str, GpuPlace] = {}
        self.totals: Counter[tuple[Ground, str]] = Counter()
        self.changes: dict[str, Changed] = {}
        self._now = now
        self._published: dict[str, _Gpus] = {}
        self._publishers: dict[str, tuple[str, ...]] = {}
        self._kept: dict[str, dict[str, tuple[tuple[SliceDevice, ...], datetime]]] = {}
        """By node and GPU: what was published of it, and until when that counts."""
        self._keepers: defaultdict[str, set[str]] = defaultdict(set)
        self._ends: list[tuple[datetime, str, str]] = []
        """A heap: when a node's GPU is to be forgotten, the node and the GPU."""
        self._here: defaultdict[str, Counter[tuple[Ground, str]]] = defaultdict(Counter)
        """GPUs of a node on each ground, however many."""
        self._gpu_on: dict[Device, str] = {}
        self._domains: dict[str, dict[str, str]] = {}
        self._members: defaultdict[str, set[str]] = defaultdict(set)
        self._claimed: dict[Device, tuple[str, ...]] = {}
        self._versions: dict[str, tuple[str, str]] = {}

    def put_devices(self, node: str, devices: tuple[SliceDevice, ...]) -> None:
        """Take in what a node publishes now."""
        before, after = self._published.pop(node, {}), _gpus(node, devices)
        if after:
            self._published[node] = after
        for uuid, parts in before.items():
            self._forget_names(uuid, parts)
        # After the old names are dropped: one of them may stand for another GPU now.
        self._gpu_on.update((part.device, uuid) for uuid, parts in after.items() for part in parts)
        # One tuple for all GPUs of the node: most have one publisher.
        alone = (node,)
        for uuid in before.keys() ^ after.keys():
            others = tuple(
                publisher for publisher in self._publishers.pop(uuid, ()) if publisher != node
            )
            if uuid in after:
                self._publishers[uuid] = tuple(sorted((*others, node))) if others else alone
            elif others:
                self._publishers[uuid] = others
        kept = self._keep(node, before, after)
        self._place(before.keys() | after.keys() | kept)

    def forget_old(self) -> None:
        """Drop what was last published more than a day ago."""
        now = self._now()
        while self._ends and self._ends[0][0] <= now:
            _, node, uuid = heappop(self._ends)
            # It may have been published again since this entry was made, and then be kept longer.
            kept = self._kept.get(node, {}).get(uuid)
            if kept is not None and kept[1] <= now:
                self._drop_kept(node, uuid)
                self._place((uuid,))
                if not self._kept[node]:
                    del self._kept[node]

    def _keep(self, node: str, before: _Gpus, after: _Gpus) -> set[str]:
        """Remember what a node published until now; return every GPU that this may concern."""
        kept, until = self._kept.setdefault(node, {}), self._now() + SEEN_FOR
        concerned = set(kept)
        for uuid in after.keys() & kept.keys():
            self._drop_kept(node, uuid)
        for uuid in before.keys() - after.keys():
            kept[uuid] = (before[uuid], until)
            self._keepers[uuid].add(node)
            heappush(self._ends, (until, node, uuid))
        # The oldest go first. A node may invent GPUs, so there is a limit.
        for uuid in [*kept][: max(len(kept) - NODE_SHARE, 0)]:
            self._drop_kept(node, uuid)
        # A name that is published again stands for the GPU that has it now.
        for uuid, (parts, _) in kept.items():
            for part in parts:
                self._gpu_on.setdefault(part.device, uuid)
        if not kept:
            self._kept.pop(node, None)
        return concerned

    def last_publishers(self, uuid: str) -> frozenset[str]:
        """Return the nodes that published a GPU within the last 24 h and do so no more."""
        return frozenset(self._keepers.get(uuid, ()))

    def _drop_kept(self, node: str, uuid: str) -> None:
        parts, _ = self._kept[node].pop(uuid)
        self._keepers[uuid].discard(node)
        if not self._keepers[uuid]:
            del self._keepers[uuid]
        if node not in self._publishers.get(uuid, ()):
            self._forget_names(uuid, parts)

    def _forget_names(self, uuid: str, parts: Iterable[SliceDevice]) -> None:
        for part in parts:
            if self._gpu_on.get(part.device) == uuid:
                del self._gpu_on[part.device]

    def put_report(self, node: str, health: NodeHealth | None) -> None:
        """Take in a node's report; None when it is gone."""
        before = self._domains.pop(node, {})
        domains = {gpu.uuid: _domain(gpu.fabric) for gpu in (health.gpus if health else ())}
        after = {uuid: domain for uuid, domain in domains.items() if domain}
        if after:
            self._domains[node] = after
        moved = {uuid for uuid, _ in before.items() ^ after.items()}
        driver = self._versions.get(node, ("", ""))[0]
        self._note_versions(node, health)
        # The driver's version is a part of each place (`product`).
        if self._versions.get(node, ("", ""))[0] != driver:
            moved |= self._published.get(node, {}).keys() | self._kept.get(node, {}).keys()
        self._place(moved)

    def put_claim(self, old: Claim | None, new: Claim | None) -> None:
        """Take in a change of a claim."""
        before, after = _classes_by_device(old), _classes_by_device(new)
        if before == after:
            return
        for device, classes in before.items():
            left = list(self._claimed.pop(device, ()))
            # Once each: another claim may hold the same device through the same class.
            for name in classes.intersection(left):
                left.remove(name)
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
        named = nsmallest(PEERS, (f"{self.places[other].node}/{other}" for other in others))
        more = len(others) - len(named)
        return (*named, f"and {more} more") if more else tuple(named)

    def _place(self, uuids: Iterable[str]) -> None:
        """Bring the places of some GPUs, and what is counted of them, up to date."""
        changes: dict[int, tuple[GpuPlace, int]] = {}
        """By identity: most GPUs of a node share one place, which is then counted once."""

        def note(place: GpuPlace, change: int) -> None:
            changes[id(place)] = (place, changes.get(id(place), (place, 0))[1] + change)

        for uuid in set(uuids):
            old, new = self.places.get(uuid), self._find_place(uuid)
            if old != new:
                new = self._share_place(new) if new else None
                if old is not None:
                    note(old, -1)
                if new is not None:
                    note(new, 1)
                before, after = old.domain if old else "", new.domain if new else ""
                self._members[before].discard(uuid)
                if not self._members[before]:
                    del self._members[before]
                if after:
                    self._members[after].add(uuid)
                self.places.pop(uuid, None)
                if new is not None:
                    self.places[uuid] = new
        for place, change in changes.values():
            self._count(place, change)

    def _find_place(self, uuid: str) -> GpuPlace | None:
        nodes = self._publishers.get(uuid) or tuple(sorted(self._keepers.get(uuid, ())))
        if not nodes:
            return None
        parts: list[SliceDevice] = []
        for node in nodes:
            mine = self._published.get(node, {})
            parts += mine[uuid] if uuid in mine else self._kept[node][uuid][0]
        names = [part.device for part in parts]
        # A name that stands for another board by now is claimed for that one.
        own = (name for name in names if self._gpu_on.get(name) == uuid)
        domains = (self._domains.get(node, {}).get(uuid, "") for node in nodes)
        product = next((part.product for part in parts if part.product), "")
        version = self._versions.get(nodes[0], ("", ""))[0]
        return GpuPlace(
            node=nodes[0],
            pools=frozenset(f"{name.driver}/{name.pool}" for name in names),
            classes=frozenset(known for name in own for known in self._claimed.get(name, ())),
            domain=next((domain for domain in domains if domain), ""),
            product=f"{product} with driver {version}" if product and version else product,
        )

    def _share_place(self, place: GpuPlace) -> GpuPlace:
        """Return an equal place of a neighbour: most of a node's are, and this saves memory."""
        neighbours = islice(self._published.get(place.node, ()), 16)
        known = (self.places.get(neighbour) for neighbour in neighbours)
        return next(
            (neighbour for neighbour in known if neighbour is not None and neighbour == place),
            place,
        )

    def _count(self, place: GpuPlace, change: int) -> None:
        here = self._here[place.node]
        for ground in GROUNDS:
            for name in names_on(ground, place):
                before = min(here[ground, name], NODE_SHARE)
                here[ground, name] += change
                self.totals[ground, name] += min(here[ground, name], NODE_SHARE) - before
                if not here[ground, name]:
                    del here[ground, name]
                if not self.totals[ground, name]:
                    del self.totals[ground, name]
        if not here:
            del self._here[place.node]

    def _note_versions(self, node: str, health: NodeHealth | None) -> None:
        """Note when the version of a node's driver or agent changed.

        For a change before this process started, the date is the one that the agent reports. It
        cannot be later than now, whatever the node's clock shows.
        """
        if health is None:
            self._versions.pop(node, None)
            self.changes.pop(node, None)
            return
        if node not in self._versions:
            latest = self._now()
            driver, agent = (
                min(change.time, latest) if change.time is not None else None
                for change in (health.driver_since, health.agent_since)
            )
            if driver or agent:
                self.changes[node] = Changed(driver_at=driver, agent_at=agent)
        old = self._versions.get(node, ("", ""))
        versions = (health.driver_version, health.agent_version)
        # A driver that is not loaded has no version: the last one known is still the last one.
        new = (versions[0] or old[0], versions[1] or old[1])
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

    NVIDIA's driver names a pool after its node: another pool belongs to another node.
    """
    found: _Gpus = {}
    for device in devices:
        uuid, name = device.parent_uuid or device.uuid, device.device
        foreign = name.driver == GPU_DRIVER and name.pool != node
        if uuid and device.kind and device.node == node and not foreign:
            found[uuid] = (*found.get(uuid, ()), device)
    return found


def _domain(fabric: FabricHealth) -> str:
    """Return the NVLink domain of a GPU, "" where it is in none that reaches beyond its node.

    A cluster UUID of zeros is that of a single machine's own NVSwitches.
    """
    if fabric.state != FABRIC_JOINED or not fabric.cluster_uuid.strip("0-"):
        return ""
    return f"{fabric.cluster_uuid}/{fabric.clique if fabric.clique is not None else ''}"


def _classes_by_device(claim: Claim | None) -> dict[Device, frozenset[str]]:
    """Return by device the classes through which a claim holds it; admin access holds nothing."""
    if claim is None:
        return {}
    classes = device_classes(claim)
    return {result.name: classes for result in claim.results if classes and result.allocates}
