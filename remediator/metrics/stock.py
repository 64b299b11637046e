"""Published devices by group, counted again pool by pool where something changed.

Counting 80,000 devices takes a while, and the cluster changes in few places at once: a change is
noted when it arrives, and counted when a page is read. Pure but for its memory; the caller holds a
lock.
"""

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from exporter.model.device import GPU_DRIVER
from exporter.model.resource_slices import PoolKey, SliceDevice
from remediator.metrics.devices import Group, PoolCount, Totals
from remediator.model.taint_rule import RawRule, Selector, is_ours

DeviceCounts = tuple[Totals, tuple[PoolCount, ...]]
SHAPES = 1024
"""Different counts that are remembered in order to be shared."""


class Selected(msgspec.Struct, frozen=True):
    """A DeviceTaintRule, as far as it decides by whom a device is tainted."""

    driver: str
    """"" where the rule has none, which means any; so with `pool` and `device`."""
    pool: str
    device: str
    effect: str
    ours: bool
    narrowed: bool


def selected(rule: RawRule | None) -> Selected | None:
    """Return what a stored rule selects."""
    if rule is None:
        return None
    where, effect = rule.spec.device_selector or Selector(), rule.spec.taint.effect
    return Selected(where.driver, where.pool, where.device, effect, is_ours(rule), where.narrowed)


class Stock:
    """An index over pools."""

    def __init__(self) -> None:
        self._publishers: dict[PoolKey, tuple[str, ...]] = {}
        """A pool is counted of the first node to publish it, while it does."""
        self._stale: set[PoolKey] = set()
        self._rules: dict[str, Selected] = {}
        self._counts: dict[PoolKey, PoolCount] = {}
        self._shapes: dict[PoolCount, PoolCount] = {}
        """Counts that are there already: most nodes look like another one, and all are kept."""
        self._totals: Counter[Group] = Counter()

    def published(
        self, node: str, before: Iterable[SliceDevice], after: Iterable[SliceDevice]
    ) -> None:
        """Take in what a node publishes now."""
        old, new = _pools(node, before), _pools(node, after)
        for pool in old ^ new:
            others = tuple(
                publisher for publisher in self._publishers.pop(pool, ()) if publisher != node
            )
            publishers = (*others, node) if pool in new else others
            if publishers:
                self._publishers[pool] = publishers
        self._stale |= old | new

    def claimed(self, pools: Iterable[PoolKey]) -> None:
        """Note pools of which a claim changed."""
        self._stale.update(pools)

    def ruled(self, name: str, new: Selected | None) -> None:
        """Take in any rule; None when it is gone.

        A rule without a driver or pool may select in any of them. Its status is written again and
        again while pods are evicted, which is no reason to count everything.
        """
        before = self._rules.pop(name, None)
        if new is not None:
            self._rules[name] = new
        for selection in (before, new):
            if selection is not None and selection.driver and selection.pool:
                self._stale.add((selection.driver, selection.pool))
            elif selection is not None and before != new:
                self._stale.update(self._publishers)

    def stale(self) -> tuple[PoolKey, ...]:
        return tuple(self._stale)

    def count(self, pool: PoolKey, counted: Callable[[str, PoolKey], PoolCount]) -> None:
        """Count a pool again; `counted` returns the count of its node's devices."""
        self._stale.discard(pool)
        publishers = self._publishers.get(pool)
        new = counted(publishers[0], pool) if publishers else PoolCount()
        old = self._counts.pop(pool, PoolCount())
        for group, number in old.groups:
            self._totals[group] -= number
            if not self._totals[group]:
                del self._totals[group]
        for group, number in new.groups:
            self._totals[group] += number
        if new != PoolCount():
            if len(self._shapes) > SHAPES:
                self._shapes.clear()
            self._counts[pool] = self._shapes.setdefault(new, new)

    def counted(self) -> DeviceCounts:
        """Return all published devices by group, and by pool."""
        return dict(self._totals), tuple(self._counts.values())


def _pools(node: str, devices: Iterable[SliceDevice]) -> set[PoolKey]:
    """Return the pools of devices; NVIDIA's driver names a pool after its node."""
    found = {(device.device.driver, device.device.pool) for device in devices}
    return {(driver, pool) for driver, pool in found if driver != GPU_DRIVER or pool == node}
