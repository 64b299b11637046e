"""Every DeviceTaintRule of the cluster: ours by node, GPU and pool, those of others by pool."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable

from exporter.model.device import Device
from exporter.model.resource_slices import SliceDevice
from remediator.controller.index import Index, Key
from remediator.model.taint_rule import (
    EditedRule,
    ForeignRule,
    RawRule,
    Rule,
    foreign_rule,
    is_ours,
    parse,
    parse_edited,
    split_duplicates,
)

ANY = ""
"""Pool of a foreign rule that does not name driver and pool: it may select a device anywhere."""


def pool_key(driver: str, pool: str) -> Key:
    return ("pool", f"{driver}/{pool}")


class RuleIndex:
    """Not safe by itself: `Cache` holds its lock."""

    def __init__(self, find_device: Callable[[Device], SliceDevice | None]) -> None:
        self._find_device = find_device
        self._ours: Index[Rule] = Index(_keys)
        self._edited: Index[EditedRule] = Index(lambda rule: (("node", rule.node),))
        self._foreign: Index[ForeignRule] = Index(_foreign_keys)
        self._nameless: dict[str, RawRule] = {}
        """Ours that name no hardware, until a slice does."""
        self._first: dict[Device, Rule] = {}
        """The rule that counts on each device. Kept up rule by rule: each decision reads it."""
        self._ruled: list[Device] = []
        """Its keys, sorted."""
        self._standing: tuple[Rule, ...] | None = None

    def put(
        self, name: str, new: RawRule | None, *, listed: bool = False, gone: str = ""
    ) -> frozenset[str]:
        """Take in any rule; return the nodes that it concerns.

        An event that is older than the answer to a write of ours is ignored. A list always counts:
        after a restore of etcd, versions fall. `gone` is the UID of the rule that was deleted: a
        rule that was made since under its name stays.
        """
        selector = new.spec.device_selector if new else None
        there: SliceDevice | None = None
        if selector is not None:
            there = self._find_device(Device(selector.driver, selector.pool, selector.device))
        mine = parse(new, there) if new else None
        edited = parse_edited(new) if new else None
        old = self._ours.get(name)
        if (
            mine
            and old
            and old.uid == mine.uid
            and not listed
            and version(old.resource_version) >= version(mine.resource_version)
        ):
            return frozenset()
        if new is None and old and gone and old.uid != gone:
            return frozenset()
        self._nameless.pop(name, None)
        if new is not None and not (mine or edited) and is_ours(new):
            self._nameless[name] = new
        self._ours.put(name, mine)
        known = self._edited.put(name, edited)
        for device in {rule.device for rule in (old, mine) if rule is not None}:
            self._settle(device)
        # What an edited rule taints is shown as any taint that is not ours.
        theirs = foreign_rule(new) if new is not None and mine is None else None
        self._foreign.put(name, theirs)
        return frozenset(rule.node for rule in (old, mine, known, edited) if rule is not None)

    def retry_nameless(self) -> frozenset[str]:
        """Read rules that name no hardware again, because slices changed; return as `put` does."""
        found: frozenset[str] = frozenset()
        for name, raw in list(self._nameless.items()):
            found |= self.put(name, raw)
        return found

    def rules_of(self, node: str, gpus: Iterable[str]) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
        """Return our rules for a node and for GPUs, one for each device; and the leftovers."""
        keys = [("node", node), *(("gpu", gpu) for gpu in gpus)]
        return split_duplicates(self._ours.under(keys).values())

    def edited_rules(self, node: str) -> tuple[EditedRule, ...]:
        """Return our rules for devices of a node whose selector was changed."""
        return tuple(self._edited.under([("node", node)]).values())

    def rules_of_gpu(self, gpu: str) -> Iterable[Rule]:
        return self._ours.under([("gpu", gpu)]).values()

    def rules_on_pools(self, pools: Iterable[Key]) -> Iterable[Rule]:
        return self._ours.under(pools).values()

    def foreign_rules(self, devices: Iterable[Device]) -> tuple[ForeignRule, ...]:
        """Return rules of others that select any of the devices, by name."""
        mine = frozenset(devices)
        keys = {pool_key(device.driver, device.pool) for device in mine} | {("pool", ANY)}
        found = sorted(self._foreign.under(keys).items())
        return tuple(rule for _, rule in found if any(rule.selects(device) for device in mine))

    def standing_rules(self) -> tuple[Rule, ...]:
        """Return our rules of all nodes, one for each device."""
        if self._standing is None:
            self._standing = tuple(self._first[device] for device in self._ruled)
        return self._standing

    def nodes_with_rules(self) -> set[str]:
        """Return the nodes for which one of our rules stands, edited or not."""
        return {rule.node for rule in (*self.standing_rules(), *self._edited.all())}

    def _settle(self, device: Device) -> None:
        """Find again which rule counts on a device."""
        near = self.rules_on_pools([pool_key(device.driver, device.pool)])
        kept, _ = split_duplicates(rule for rule in near if rule.device == device)
        known = device in self._first
        if kept:
            self._first[device] = kept[0]
        elif known:
            del self._first[device]
        if kept and not known:
            insort(self._ruled, device)
        elif known and not kept:
            del self._ruled[bisect_left(self._ruled, device)]
        self._standing = None


def _keys(rule: Rule) -> tuple[Key, ...]:
    pool = pool_key(rule.device.driver, rule.device.pool)
    return ("node", rule.node), ("gpu", rule.gpu), pool


def _foreign_keys(rule: ForeignRule) -> tuple[Key, ...]:
    whole = rule.driver and rule.pool
    return (pool_key(rule.driver, rule.pool) if whole else ("pool", ANY),)


def version(text: str) -> int:
    """Resource versions of one object may be compared as numbers (API convention since 1.35)."""
    return int(text) if text.isdecimal() else 0
