"""The cluster as last reported, indexed by node: changes in, a `NodeView` out.

The watches (`informers`) and the answers to our own writes feed it, so a decision sees the writes
of the one before it. Any thread may feed or read: there is one lock.
"""

import threading
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime

from exporter.model.device import GPU_DRIVER, NVIDIAS, Device, GpuDrivers
from exporter.model.last_published import last_published
from exporter.model.node_health import NodeDeviceHealth
from exporter.model.resource_slices import PoolKey, ResourceSlice, SliceDevice
from kubeapi import clock
from remediator.controller.budgeted_incidents import BudgetedIncidents
from remediator.controller.claimants import Claimants
from remediator.controller.gpu_index import GpuIndex
from remediator.controller.index import Buckets, Index, Key
from remediator.controller.left_reports import LeftReports
from remediator.controller.rule_index import RuleIndex, pool_key, version
from remediator.controller.slice_index import SliceIndex
from remediator.metrics.devices import PoolCount, Totals, pool_count
from remediator.metrics.mig import MigRequest
from remediator.metrics.stock import Stock, selection_of
from remediator.model.claim import Claim, compute_domain
from remediator.model.incident import Incident
from remediator.model.node import NodeFacts
from remediator.model.taint_rule import RawRule, Rule
from remediator.plan.view import AgentView, Fleet, NodeView, SliceView, StoreView, UsageView

MarkDirty = Callable[[str], None]


class Cache:
    """Everything that a decision about a node may rest on."""

    def __init__(
        self,
        mark: MarkDirty,
        now: Callable[[], datetime] = clock.now,
        drivers: GpuDrivers = NVIDIAS,
    ) -> None:
        self._mark = mark
        self._lock = threading.RLock()
        self._reports: dict[str, NodeDeviceHealth] = {}
        self.drivers = drivers
        self._slices = SliceIndex(drivers)
        self._rule_index = RuleIndex(self._slices.find_device)
        self._incidents: Index[Incident] = Index(_incident_keys)
        self._claims: Buckets[Claim] = Buckets(_claim_keys)
        self._reporters: dict[str, set[str]] = defaultdict(set)
        self._publishers: dict[str, set[str]] = defaultdict(set)
        self._promised: dict[str, Rule] = {}
        """By name: ours that are being written now. Only budgets count them."""
        self._nodes: dict[str, NodeFacts] = {}
        self.nodes_known = False
        """Whether Nodes were listed, so that one that is not here is gone."""
        self._left = LeftReports(now)
        self.gpu_index = GpuIndex(now)
        self._counted = BudgetedIncidents(now)
        self._stock = Stock()

    def nodes(self) -> frozenset[str]:
        """Return every node that a report, a rule or an incident names, gone or not."""
        with self._lock:
            ruled = self._rule_index.nodes_with_rules()
            # Closed ones too: they are pruned where no agent reports any more.
            remembered = {incident.node for incident in self._incidents.all()}
            return frozenset({*self._reports, *ruled, *remembered} - {""})

    def choose_nodes(self) -> frozenset[str]:
        """Return the nodes to look at on a timer: all but those that are gone, with silent agents.

        For those, time changes only that their reports are pruned, a few at each call. Each is
        still looked at as soon as anything about it is written.
        """
        with self._lock:
            incidents, nodes = self._incidents.all(), self.nodes()
            busy = self._rule_index.nodes_with_rules()
            busy |= {incident.node for incident in incidents if incident.open}
            waiting = self._left.choose(busy if self.nodes_known else nodes)
            return nodes - (waiting - {incident.node for incident in incidents})

    def rules(self) -> tuple[Rule, ...]:
        """Return our rules, one for each device."""
        with self._lock:
            return self._rule_index.standing_rules()

    def published_device(self, device: Device) -> SliceDevice | None:
        """Return the device that is published under a name now."""
        with self._lock:
            return self._slices.find_device(device)

    def incidents(self) -> tuple[Incident, ...]:
        with self._lock:
            return self._incidents.all()

    def reporting_nodes(self) -> tuple[str, ...]:
        """Return the nodes of which a report is stored and that are still there.

        The report of a node that is gone stays for a week, and its agent needs no repair.
        """
        with self._lock:
            return tuple(node for node in self._reports if node in self._nodes)

    def mig_requests(self) -> tuple[MigRequest, ...]:
        """Return the nodes with a label for a MIG geometry, with what is reported."""
        with self._lock:
            labelled = [facts for facts in self._nodes.values() if facts.mig_config]
            return tuple(MigRequest(facts, self._reports.get(facts.name)) for facts in labelled)

    def has_incident(self, node: str) -> bool:
        """Whether an incident of a node is open."""
        with self._lock:
            return any(known.open for known in self._incidents.under([("node", node)]).values())

    def stock(self) -> Totals:
        """Return the published devices by group; counts what changed, in small bites.

        The lock is released after each pool: a decision must not wait for a page.
        """
        with self._lock:
            stale = self._stock.stale_pools()
        for pool in stale:
            with self._lock:
                self._stock.count(pool, self._pool_count)
        with self._lock:
            return self._stock.totals()

    def _pool_count(self, node: str, pool: PoolKey) -> PoolCount:
        mine = self._slices.devices_of(node)
        devices = [device for device in mine if (device.device.driver, device.device.pool) == pool]
        key = pool_key(*pool)
        return pool_count(
            devices,
            self._rule_index.rules_on_pools([key]),
            self._rule_index.foreign_rules(device.device for device in devices),
            self._claims.under([key]).values(),
        )

    def view(self, node: str, why_stale: Callable[[str], str]) -> NodeView:
        """Return one node as it is known now.

        `why_stale` returns why a node's report is not trusted, "" when it is.
        """
        with self._lock:
            report = self._reports.get(node)
            devices = self._slices.devices_of(node)
            pools = {(part.device.driver, part.device.pool) for part in devices}
            # Slices that are published now win over those that the report remembers.
            away = tuple(
                part
                for part in (last_published(report.status, node) if report else ())
                if (part.device.driver, part.device.pool) not in pools
            )
            reported = {gpu.uuid for gpu in report.status.gpus} if report else set[str]()
            rules, leftovers = self._rule_index.rules_of(node, reported)
            # An incident that is not looked up is opened again, under a name that is taken.
            known = reported | {rule.gpu for rule in (*rules, *leftovers)} | _uuids(devices)
            about = [("node", node), *(("gpu", uuid) for uuid in known)]
            incidents = tuple(self._incidents.under(about).values())
            names = {part.device for part in (*devices, *away)} | {rule.device for rule in rules}
            scopes = (incident.status.scope.devices for incident in incidents if incident.open)
            named = names | {target.name for scope in scopes for target in scope}
            claims = _claims_on(
                self._claims, node, named, gangs=any(incident.open for incident in incidents)
            )
            uuids = {rule.gpu for rule in rules} | {incident.spec.uuid for incident in incidents}
            handled = {rule.gpu for rule in rules if rule.node != node}
            handled |= {known.spec.uuid for known in incidents if known.open and known.node != node}
            places = self.gpu_index.places
            named_by = {uuid: self._claimants(uuid, why_stale) for uuid in known | uuids}
            doubts = {uuid: each.doubts(node) for uuid, each in named_by.items()}
            return NodeView(
                node=node,
                agent=AgentView(
                    report=report.status if report else None,
                    stale=why_stale(node),
                    left=self._left.find(report),
                ),
                slices=SliceView(
                    inventory=devices,
                    last_published=away,
                    unbound=self._slices.why_unbound(node, reported - _uuids(devices)),
                    contested=self._slices.contested_pools(node, (rule.device for rule in rules)),
                    elsewhere={
                        uuid: tuple(sorted(others | silent))
                        for uuid, (others, silent) in doubts.items()
                        if others
                    },
                    # A lie must end no rules and no incident that another node has.
                    also_at={
                        uuid: tuple(sorted(silent))
                        for uuid, (others, silent) in doubts.items()
                        if silent and not others and uuid in handled
                    },
                    decided_by={
                        uuid: each.deciding
                        for uuid, each in named_by.items()
                        if each.deciding not in {node, ""}
                    },
                ),
                stored=StoreView(
                    incidents=incidents,
                    rules=rules,
                    leftovers=leftovers,
                    edited=self._rule_index.edited_rules(node),
                    foreign=self._rule_index.foreign_rules(names),
                ),
                usage=UsageView(
                    claims=claims,
                ),
                facts=self._nodes.get(node),
                nodes_known=self.nodes_known,
                places={uuid: places[uuid] for uuid in reported | uuids if uuid in places},
                domains={uuid: self.gpu_index.peers(uuid) for uuid in uuids},
            )

    def fleet(self) -> Fleet:
        """Return what budgets are counted against."""
        with self._lock:
            self.gpu_index.forget_old()
            rules = self._rule_index.standing_rules()
            return Fleet(
                rules=(*rules, *self._promised.values()) if self._promised else rules,
                incidents=self._counted.all(),
                places=self.gpu_index.places,  # as it lives: a copy of 80,000 would cost each tick
                totals=self.gpu_index.totals,
                changes=self.gpu_index.changes,
            )

    def _claimants(self, uuid: str, why_stale: Callable[[str], str]) -> Claimants:
        incidents = self._incidents.under([("gpu", uuid)]).values()
        handling = {incident.node for incident in incidents if incident.open}
        handling = handling or {rule.node for rule in self._rule_index.rules_of_gpu(uuid)}
        return Claimants(
            reporting=self._reporters.get(uuid, frozenset[str]()),
            publishing=self._publishers.get(uuid, frozenset[str]()),
            published_last=self.gpu_index.last_publishers(uuid),
            handling=handling,
            known=handling & self._reports.keys(),
            why_stale=why_stale,
        )

    def put_report(self, name: str, new: NodeDeviceHealth | None, *, listed: bool = False) -> None:
        """Take in a report, None when it is gone; one that is `listed` may be an old one."""
        with self._lock:
            old = self._reports.pop(name, None)
            before = {gpu.uuid for gpu in old.status.gpus} if old else set[str]()
            after = {gpu.uuid for gpu in new.status.gpus} if new else set[str]()
            if new is not None:
                self._reports[name] = new
            self._left.note(name, new, gone=name not in self._nodes, listed=listed)
            self.gpu_index.put_report(name, new.status if new else None)
            rivals = self._update_owners(self._reporters, name, before, after)
        # Other nodes that name these GPUs decide again: a contest may have begun or ended.
        for node in {name, *rivals}:
            self._mark(node)

    def put_slice(self, name: str, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        with self._lock:
            dirty = self._slices.put(name, old, new)
            placed = {old.spec.node_name: None} if old else dict[str, ResourceSlice | None]()
            placed |= {new.spec.node_name: new} if new else {}
            for node, part in placed.items():
                if not node:
                    continue
                before, after = self._slices.publish(node, name, part)
                self.gpu_index.put_devices(node, after)
                self._stock.put_devices(node, before, after)
                dirty |= self._update_owners(self._publishers, node, _uuids(before), _uuids(after))
                dirty |= {node, *self._rule_index.retry_nameless()}
            # A rule in a pool that another node begins to publish may evict that node's pods.
            pools = {(each.spec.driver, each.spec.pool.name) for each in (old, new) if each}
            ruled = self._rule_index.rules_on_pools(pool_key(*pool) for pool in pools)
            dirty |= {rule.node for rule in ruled}
        for node in dirty:
            self._mark(node)

    def _update_owners(
        self, owners: dict[str, set[str]], node: str, before: set[str], after: set[str]
    ) -> set[str]:
        """Note which node names which GPU now; return the nodes whose contest began or ended."""
        for uuid in before - after:
            owners[uuid].discard(node)
            if not owners[uuid]:
                del owners[uuid]
        for uuid in after - before:
            owners[uuid].add(node)
        both = (self._reporters, self._publishers)
        return {name for uuid in before ^ after for known in both for name in known.get(uuid, ())}

    def promise(self, rule: Rule) -> None:
        """Count a rule as stored while it is being written."""
        with self._lock:
            self._promised[rule.name] = rule

    def settle(self, rule: Rule, node: str) -> None:
        """End a promise, and look at the node again.

        The rule is stored and in the cache by now, or it could not be written.
        """
        with self._lock:
            self._promised.pop(rule.name, None)
        self._mark(node)

    def put_rule(
        self, name: str, new: RawRule | None, *, listed: bool = False, gone: str = ""
    ) -> None:
        """Take in any DeviceTaintRule, ours or not; `listed` and `gone` as in `RuleIndex.put`."""
        with self._lock:
            touched = self._rule_index.put(name, new, listed=listed, gone=gone)
            self._stock.put_rule(name, selection_of(new))
        for node in touched:
            self._mark(node)

    def put_incident(
        self, name: str, new: Incident | None, *, listed: bool = False, gone: str = ""
    ) -> None:
        """Take in an incident, None when it is gone; `listed` and `gone` as in `RuleIndex.put`."""
        with self._lock:
            old = self._incidents.get(name)
            if new and old and not listed and _is_overtaken(old, new):
                return
            # The one that was deleted had this name before the one that we wrote since.
            if new is None and old and gone and old.metadata.uid != gone:
                return
            self._incidents.put(name, new)
            self._counted.put(name, new)
        for node in {incident.node for incident in (old, new) if incident is not None}:
            self._mark(node)

    def put_node(self, name: str, new: NodeFacts | None) -> None:
        """Take in a Node, None when it is gone; mark it for a decision where that matters."""
        with self._lock:
            old = self._nodes.pop(name, None)
            if new is not None:
                self._nodes[name] = new
            self._left.note(name, self._reports.get(name), gone=new is None)
            came_or_went = (old is None) != (new is None) or (old and new and old.uid != new.uid)
            # Kubelets and others write Nodes all the time: only an open incident has a use for it.
            about = self._incidents.under([("node", name)]).values()
            changed = old != new and any(incident.open for incident in about)
        if came_or_went or changed:
            self._mark(name)

    def put_claim(self, key: str, old: Claim | None, new: Claim | None) -> None:
        touched, pools = _pools(old) | _pools(new), _pool_names(old) | _pool_names(new)
        with self._lock:
            self.gpu_index.put_claim(old, new)
            self._stock.mark_stale(pools)
            self._claims.move(key, old, new)
            dirty = {rule.node for rule in self._rule_index.rules_on_pools(touched)}
            dirty |= {incident.node for incident in self._incidents.under(touched).values()}
            # A GPU that is not published is in no pool, and its node may wait for these pods.
            nodes = {self._slices.node_of(pool) for pool in pools}
            dirty |= {node for node in nodes if self.has_incident(node)}
        for node in dirty:
            self._mark(node)


def _uuids(devices: tuple[SliceDevice, ...]) -> set[str]:
    """Return the GPUs behind devices; a VFIO device's UUID is its PCI address's, on any node."""
    named = (device.parent_uuid or device.uuid for device in devices if device.kind != "vfio")
    return {uuid for uuid in named if uuid}


def _pools(claim: Claim | None) -> set[Key]:
    return {pool_key(result.driver, result.pool) for result in claim.results} if claim else set()


def _pool_names(claim: Claim | None) -> set[PoolKey]:
    return {(result.driver, result.pool) for result in claim.results} if claim else set()


def _claim_keys(claim: Claim) -> set[Key]:
    domain = compute_domain(claim)
    return _pools(claim) | ({("domain", domain)} if domain else set())


def _incident_keys(incident: Incident) -> set[Key]:
    """Only an open one is looked at again when a claim of its pools changes."""
    keys = {("node", incident.node), ("gpu", incident.spec.uuid)}
    devices = incident.status.scope.devices if incident.open else ()
    return keys | {pool_key(device.driver, device.pool) for device in devices}


def _claims_on(
    claims: Buckets[Claim], node: str, devices: set[Device], *, gangs: bool
) -> tuple[Claim, ...]:
    """Return the claims in the devices' pools; and those in one ComputeDomain with them.

    Also those in the pool of NVIDIA's driver: it may be unpublished while pods hold it.
    """
    keys = {pool_key(part.driver, part.pool) for part in devices} | {pool_key(GPU_DRIVER, node)}
    found = claims.under(keys)
    if gangs:
        domains = {compute_domain(claim) for claim in found.values()} - {""}
        found |= claims.under(("domain", domain) for domain in domains)
    return tuple(found.values())


def _is_overtaken(stored: Incident, received: Incident) -> bool:
    mine, theirs = stored.metadata, received.metadata
    have, new = version(mine.resource_version), version(theirs.resource_version)
    # In one version only what could not be stored differs (`rejected_fields`).
    return mine.uid == theirs.uid and (have > new or (have == new and stored == received))
