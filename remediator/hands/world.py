"""The cluster as last heard of, indexed by node: changes in, a `NodeView` out.

Fed by the reflectors of `cluster` and by the answers to our own writes, so that
a decision sees what the one before it did. Who may read the clock gives the
time. One lock; any thread may feed, any thread may read.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from exporter.report import NodeDeviceHealth
from exporter.slices import ResourceSlice, SliceDevice, inventory
from remediator.decide.fleet import Fleet, GpuPlace
from remediator.decide.view import NodeView
from remediator.hands.census import Census
from remediator.objects.claims import Claim
from remediator.objects.incident import Incident
from remediator.objects.nodes import NodeFacts
from remediator.objects.taints import ForeignRule, RawRule, Rule, parse

MarkDirty = Callable[[str], None]


class World:
    """Everything that a decision about a node may rest on."""

    def __init__(self, mark: MarkDirty) -> None:
        self._mark = mark
        self._lock = threading.RLock()
        self._reports: dict[str, NodeDeviceHealth] = {}
        self._slices: dict[str, dict[str, ResourceSlice]] = defaultdict(dict)
        self._inventory: dict[str, tuple[SliceDevice, ...]] = {}
        self._rules: dict[str, Rule] = {}
        self._incidents: dict[str, Incident] = {}
        self._claims: dict[str, dict[str, Claim]] = defaultdict(dict)
        self._reporters: dict[str, set[str]] = defaultdict(set)
        self._publishers: dict[str, set[str]] = defaultdict(set)
        self._foreign: dict[str, ForeignRule] = {}
        self._nodes: dict[str, NodeFacts] = {}
        self._nodes_known = False
        self.census = Census()

    def nodes(self) -> frozenset[str]:
        """Return every node that a report, a rule or an incident speaks of."""
        with self._lock:
            ruled = {rule.node for rule in self._rules.values()}
            remembered = {one.spec.node for one in self._incidents.values() if one.open}
            return frozenset({*self._reports, *ruled, *remembered} - {""})

    def rules(self) -> tuple[Rule, ...]:
        with self._lock:
            return tuple(self._rules.values())

    def incidents(self) -> tuple[Incident, ...]:
        with self._lock:
            return tuple(self._incidents.values())

    def view(self, node: str, stale: Callable[[str], str]) -> NodeView:
        """Return one node as it is known now.

        `stale` says of a node why its report is not to be believed, "" when it is.
        """
        with self._lock:
            report = self._reports.get(node)
            devices = self._inventory.get(node, ())
            reported = {gpu.uuid for gpu in report.status.gpus} if report else set[str]()
            pools = {(one.device.driver, one.device.pool) for one in devices}
            rules = tuple(
                rule for rule in self._rules.values() if rule.node == node or rule.gpu in reported
            )
            pools |= {(rule.device.driver, rule.device.pool) for rule in rules}
            claims = {key: one for pool in pools for key, one in self._claims[_key(pool)].items()}
            incidents = tuple(
                one
                for one in self._incidents.values()
                if one.spec.node == node or one.spec.uuid in reported
            )
            spoken_of = {rule.gpu for rule in rules} | {one.spec.uuid for one in incidents}
            return NodeView(
                node=node,
                report=report.status if report else None,
                stale=stale(node),
                inventory=devices,
                incidents=incidents,
                rules=rules,
                claims=tuple(claims.values()),
                elsewhere=self._elsewhere(node, reported | spoken_of, stale),
                facts=self._nodes.get(node),
                nodes_known=self._nodes_known,
                foreign=tuple(self._foreign.values()),
                places=self._places(reported | spoken_of),
                domains={uuid: self.census.peers(uuid) for uuid in spoken_of},
            )

    def fleet(self) -> Fleet:
        """Return what budgets are counted against."""
        with self._lock:
            return Fleet(
                rules=tuple(self._rules.values()),
                incidents=tuple(self._incidents.values()),
                places=self._places({rule.gpu for rule in self._rules.values()}),
                totals=self.census.totals,
                changes=self.census.changes,
            )

    def _places(self, uuids: Iterable[str]) -> Mapping[str, GpuPlace]:
        known = self.census.places
        return {uuid: known[uuid] for uuid in uuids if uuid in known}

    def _elsewhere(
        self, node: str, uuids: set[str], stale: Callable[[str], str]
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the other nodes that speak for a GPU; the report of a silent one does not."""
        found: dict[str, tuple[str, ...]] = {}
        for uuid in uuids:
            reporters = {one for one in self._reporters.get(uuid, ()) if not stale(one)}
            others = (reporters | self._publishers.get(uuid, set())) - {node}
            if others:
                found[uuid] = tuple(sorted(others))
        return found

    def report(self, name: str, new: NodeDeviceHealth | None) -> None:
        with self._lock:
            old = self._reports.pop(name, None)
            before = {gpu.uuid for gpu in old.status.gpus} if old else set[str]()
            after = {gpu.uuid for gpu in new.status.gpus} if new else set[str]()
            if new is not None:
                self._reports[name] = new
            self.census.reported(name, new.status if new else None)
            rivals = self._move(self._reporters, name, before, after)
        for node in {name, *rivals}:
            self._mark(node)

    def slice(self, name: str, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        dirty: set[str] = set()
        with self._lock:
            placed = {old.spec.node_name: None} if old else dict[str, ResourceSlice | None]()
            placed |= {new.spec.node_name: new} if new else {}
            for node, one in placed.items():
                dirty |= {node, *self._publish(node, name, one)} if node else set()
        for node in dirty:
            self._mark(node)

    def _publish(self, node: str, name: str, one: ResourceSlice | None) -> set[str]:
        mine = self._slices[node]
        mine.pop(name, None)
        if one is not None:
            mine[name] = one
        before = self._inventory.get(node, ())
        after = inventory(mine.values(), before)
        self._inventory[node] = after
        self.census.published(node, after)
        return self._move(self._publishers, node, _uuids(before), _uuids(after))

    def _move(
        self, owners: dict[str, set[str]], node: str, before: set[str], after: set[str]
    ) -> set[str]:
        """Note who names which GPU now; return the nodes whose contest began or ended."""
        for uuid in before - after:
            owners[uuid].discard(node)
        for uuid in after - before:
            owners[uuid].add(node)
        both = (self._reporters, self._publishers)
        return {one for uuid in before ^ after for known in both for one in known.get(uuid, ())}

    def rule(self, name: str, new: RawRule | None) -> None:
        """Take in any DeviceTaintRule; others' rules are not kept."""
        mine = parse(new) if new else None
        with self._lock:
            old = self._rules.get(name)
            if mine and old and old.uid == mine.uid and _newer(old, mine):
                return
            self._rules.pop(name, None)
            if mine is not None:
                self._rules[name] = mine
        for node in {one.node for one in (old, mine) if one is not None}:
            self._mark(node)

    def incident(self, name: str, new: Incident | None) -> None:
        with self._lock:
            old = self._incidents.get(name)
            if new and old and _overtaken(old, new):
                return
            self._incidents.pop(name, None)
            if new is not None:
                self._incidents[name] = new
        for node in {one.spec.node for one in (old, new) if one is not None}:
            self._mark(node)

    def claim(self, key: str, old: Claim | None, new: Claim | None) -> None:
        before, after = _pools(old), _pools(new)
        with self._lock:
            self.census.claimed(old, new)
            for pool in before - after:
                self._claims[pool].pop(key, None)
            if new is not None:
                for pool in after:
                    self._claims[pool][key] = new
            touched = before | after
            dirty = {
                rule.node for rule in self._rules.values() if _key_of_rule(rule) in touched
            } | {
                one.spec.node
                for one in self._incidents.values()
                if one.open and not touched.isdisjoint(_scope_pools(one))
            }
        for node in dirty:
            self._mark(node)


def _uuids(devices: tuple[SliceDevice, ...]) -> set[str]:
    return {uuid for one in devices for uuid in (one.parent_uuid or one.uuid,) if uuid}


def _key(pool: tuple[str, str]) -> str:
    return f"{pool[0]}/{pool[1]}"


def _key_of_rule(rule: Rule) -> str:
    return _key((rule.device.driver, rule.device.pool))


def _pools(claim: Claim | None) -> set[str]:
    if claim is None or claim.status is None or claim.status.allocation is None:
        return set()
    return {_key((one.driver, one.pool)) for one in claim.status.allocation.devices.results}


def _scope_pools(incident: Incident) -> set[str]:
    return {_key((one.driver, one.pool)) for one in incident.spec.scope.devices}


def _overtaken(stored: Incident, heard: Incident) -> bool:
    mine, theirs = stored.metadata, heard.metadata
    same = mine.uid == theirs.uid
    return same and _version(mine.resource_version) >= _version(theirs.resource_version)


def _newer(stored: Rule, heard: Rule) -> bool:
    return _version(stored.resource_version) >= _version(heard.resource_version)


def _version(text: str) -> int:
    """Resource versions of one object may be compared as numbers (API convention since 1.35)."""
    return int(text) if text.isdecimal() else 0
