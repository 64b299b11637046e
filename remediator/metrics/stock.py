"""Published devices by group, counted again pool by pool where something changed.

Counting 80,000 devices takes a while, and most changes concern a few pools. So a change only marks
its pool, which is counted again at the next scrape. Pure but for its memory; the caller holds a
lock.
"""

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from exporter.model.device import GPU_DRIVER
from exporter.model.resource_slices import PoolKey, SliceDevice
from remediator.metrics.devices import Group, PoolCount, Totals
from remediator.model.taint_rule import RawRule, Selector, is_ours

SHAPES = 1024
"""Different counts that are remembered, so that equal ones share memory."""


class Selection(msgspec.Struct, frozen=True):
    """The parts of a DeviceTaintRule that decide who taints a device."""

    driver: str
    """"" where the rule has none, which means any; so with `pool` and `device`."""
    pool: str
    device: str
    effect: str
    ours: bool
    narrowed: bool


def selection_of(rule: RawRule | None) -> Selection | None:
    """Return what a stored rule selects."""
    if rule is None:
        return None
    where, effect = rule.spec.device_selector or Selector(), rule.spec.taint.effect
    return Selection(where.driver, where.pool, where.device, effect, is_ours(rule), where.narrowed)


class Stock:
    """An index over pools."""

    def __init__(self) -> None:
        self._publishers: dict[PoolKey, tuple[str, ...]] = {}
        """The nodes that publish a pool. It is counted once, for the first of them."""
        self._stale: set[PoolKey] = set()
        self._rules: dict[str, Selection] = {}
        self._counts: dict[PoolKey, PoolCount] = {}
        self._shapes: dict[PoolCount, PoolCount] = {}
        """One object for equal counts: most nodes look like another one."""
        self._totals: Counter[Group] = Counter()

    def put_devices(
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

    def mark_stale(self, pools: Iterable[PoolKey]) -> None:
        """Mark pools of which a claim changed."""
        self._stale.update(pools)

    def put_rule(self, name: str, new: Selection | None) -> None:
        """Take in any rule; None when it is gone.

        A rule without a driver or pool may select in any pool, so all are counted again. Not for a
        mere change of its status, which is written again and again while pods are evicted.
        """
        before = self._rules.pop(name, None)
        if new is not None:
            self._rules[name] = new
        for selection in (before, new):
            if selection is not None and selection.driver and selection.pool:
                self._stale.add((selection.driver, selection.pool))
            elif selection is not None and before != new:
                self._stale.update(self._publishers)

    def stale_pools(self) -> tuple[PoolKey, ...]:
        return tuple(self._stale)

    def count(self, pool: PoolKey, count_pool: Callable[[str, PoolKey], PoolCount]) -> None:
        """Count a pool again; `count_pool` returns the count of its node's devices."""
        self._stale.discard(pool)
        publishers = self._publishers.get(pool)
        new = count_pool(publishers[0], pool) if publishers else ()
        old = self._counts.pop(pool, ())
        for group, number in old:
            self._totals[group] -= number
            if not self._totals[group]:
                del self._totals[group]
        for group, number in new:
            self._totals[group] += number
        if new:
            # A driver may publish ever new devices, so there is a limit.
            if len(self._shapes) > SHAPES:
                self._shapes.clear()
            self._counts[pool] = self._shapes.setdefault(new, new)

    def totals(self) -> Totals:
        """Return all published devices by group."""
        return dict(self._totals)


def _pools(node: str, devices: Iterable[SliceDevice]) -> set[PoolKey]:
    """Return the pools of devices; NVIDIA's driver names a pool after its node."""
    found = {(device.device.driver, device.device.pool) for device in devices}
    return {(driver, pool) for driver, pool in found if driver != GPU_DRIVER or pool == node}
