"""The pools of devices that one node can use, and whether the scheduler takes devices from them.

A driver replaces the slices of a pool one by one under a new generation. Until all of a generation
are there, none of its devices is given away; nor while two devices have one name, or a partition
consumes counters that nothing publishes. As `pools_incubating.go` of
k8s.io/dynamic-resource-allocation v0.37.1, with the default gates of 1.37. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal, Self

import msgspec

from allocation.by_label import ByLabel
from allocation.capacity import amount, suffices
from allocation.model.nodes import Node
from allocation.model.slices import PublishedDevice, ResourceSlice
from allocation.usage import PoolName, Usage
from exporter.model.device import Device

State = Literal["Complete", "Incomplete", "Replaced", "Invalid"]
"""`Replaced`: a newer generation has begun, with no slice for this node yet."""
Counters = dict[tuple[str, str], int]
"""By counter set and counter."""


class Spot(msgspec.Struct, frozen=True, gc=False):
    """A device where it is published."""

    given: ResourceSlice
    device: PublishedDevice
    name: Device
    suffices: bool
    """See `capacity.suffices`."""


class Pool(msgspec.Struct, frozen=True, dict=True):
    driver: str
    name: str
    state: State
    slices: tuple[ResourceSlice, ...]
    """Those that have devices for the node, by name."""
    elsewhere: tuple[ResourceSlice, ...] = ()
    """Those with devices for other nodes, which consume the same counters."""
    counters: Counters = {}
    """What its counter sets have in all."""
    why: str = ""
    """Of a state that is not Complete."""

    @cached_property
    def spots(self) -> tuple[Spot, ...]:
        """The devices of its slices, slice by slice."""
        return tuple(
            Spot(given, device, given.device(device), suffices(device))
            for given in self.slices
            for device in given.spec.devices
        )

    @property
    def binds_late(self) -> bool:
        """Whether a device of it needs a condition before its pod is bound: it is taken last."""
        devices = (device for given in self.slices for device in given.spec.devices)
        return self.state == "Complete" and any(device.binding_conditions for device in devices)

    def counters_left(self, usage: Usage) -> Counters:
        """Return what allocated devices leave of its counters; it may be negative."""
        left = dict(self.counters)
        for given in (*self.slices, *self.elsewhere) if left else ():
            for device in given.spec.devices:
                if device.consumes_counters and usage.is_used(given.device(device)):
                    for key, consumed in counters_of(device).items():
                        if key in left:
                            left[key] -= consumed
        return left

    def holders_of_counters(self, usage: Usage, keys: Iterable[tuple[str, str]]) -> list[Device]:
        """Return the allocated devices that consume any of these counters."""
        names = set(keys)
        return [
            given.device(device)
            for given in (*self.slices, *self.elsewhere)
            for device in given.spec.devices
            if names & counters_of(device).keys() and usage.is_used(given.device(device))
        ]


class _Generation(msgspec.Struct, frozen=True):
    """What is published of one generation of a pool for all nodes."""

    newest: int
    """Generation that the pool has."""
    size: int
    sharing: tuple[ResourceSlice, ...]
    """Those that matter to every node: with counters, or with devices that consume some."""

    @classmethod
    def of(cls, slices: Sequence[ResourceSlice], generation: int) -> Self:
        found = [
            each
            for each in slices
            if each.spec.pool.generation == generation and not _uses_groups(each)
        ]
        sharing = (each for each in found if each.spec.shared_counters or _consumers(each))
        newest = max(each.spec.pool.generation for each in slices)
        return cls(newest, len(found), tuple(sharing))


class Published:
    """All slices of a cluster by node and by pool."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self._on_node: dict[str, list[ResourceSlice]] = {}
        self._by_pool: dict[PoolName, list[ResourceSlice]] = {}
        self._generations: dict[tuple[PoolName, int], _Generation] = {}
        self._pools: dict[str, list[Pool]] = {}
        self._devices: dict[Device, PublishedDevice] = {}
        shared: list[ResourceSlice] = []
        for each in slices:
            self._by_pool.setdefault(_pool_of(each), []).append(each)
            if not _uses_groups(each):
                node = each.spec.node_name
                (self._on_node.setdefault(node, []) if node else shared).append(each)
        self._shared = ByLabel(shared)

    def pools_of(self, node: Node) -> list[Pool]:
        """Return the pools with devices for a node, in the scheduler's order.

        Raises NodeSelectorError and CapacityError.
        """
        known = self._pools.get(node.name)
        if known is not None:
            return known
        found: dict[PoolName, list[ResourceSlice]] = {}
        for each in (*self._on_node.get(node.name, ()), *self._shared.near(node)):
            if each.is_for(node):
                found.setdefault(_pool_of(each), []).append(each)
        pools = [self._pool(name, slices) for name, slices in found.items()]
        if len(pools) > 1:
            pools.sort(key=lambda pool: (pool.binds_late, pool.driver, pool.name))
        self._pools[node.name] = pools
        return pools

    def around(self, node: Node) -> dict[PoolName, list[ResourceSlice]]:
        """Return all slices of the pools that a node can use: nothing else matters to it.

        Raises NodeSelectorError and CapacityError.
        """
        names = [(pool.driver, pool.name) for pool in self.pools_of(node)]
        return {name: self._by_pool[name] for name in names}

    def drivers(self) -> Counter[str]:
        """Return how many devices each driver publishes."""
        found = Counter[str]()
        for (driver, _), slices in self._by_pool.items():
            found[driver] += sum(len(each.spec.devices) for each in slices)
        return found

    def newest(self) -> Iterator[ResourceSlice]:
        """Yield the slices of the newest generation of each pool, for whichever nodes they are."""
        for slices in self._by_pool.values():
            newest = max(each.spec.pool.generation for each in slices)
            yield from (
                each
                for each in slices
                if each.spec.pool.generation == newest and not _uses_groups(each)
            )

    def device(self, name: Device) -> PublishedDevice | None:
        if not self._devices:
            self._devices = {
                given.device(each): each
                for slices in self._by_pool.values()
                for given in slices
                for each in given.spec.devices
            }
        return self._devices.get(name)

    def _pool(self, name: PoolName, slices: Sequence[ResourceSlice]) -> Pool:
        generation = max(each.spec.pool.generation for each in slices)
        here = [each for each in slices if each.spec.pool.generation == generation]
        here.sort(key=lambda each: each.metadata.name)
        expected = here[0].spec.pool.resource_slice_count
        if len(here) == expected:
            return _built(name, here, ())
        whole = self._generations.get((name, generation))
        if whole is None:
            whole = _Generation.of(self._by_pool[name], generation)
            self._generations[name, generation] = whole
        if (newest := whole.newest) > generation:
            why = f"generation {newest} replaces {generation}, and has nothing for this node yet"
            return Pool(*name, "Replaced", tuple(here), why=why)
        if whole.size != expected:
            why = f"{whole.size} of {expected} slices of generation {generation} are published"
            return Pool(*name, "Incomplete", tuple(here), why=why)
        names = {each.metadata.name for each in here}
        others = [each for each in whole.sharing if each.metadata.name not in names]
        return _built(name, here, others)


class Countdown:
    """What is left of a pool's counters in one attempt to allocate."""

    def __init__(self, left: Counters) -> None:
        self._left = left

    @classmethod
    def begin(cls, pool: Pool, usage: Usage) -> Self:
        return cls(pool.counters_left(usage))

    def short(self, device: PublishedDevice) -> list[tuple[str, str]]:
        """Return the counters that do not suffice for a device.

        One that allocated devices have overdrawn keeps every partition of the pool back.
        """
        needed = counters_of(device)
        return [key for key, left in self._left.items() if left < needed.get(key, 0)]

    def take(self, device: PublishedDevice, sign: int = 1) -> None:
        """Take what a device consumes; `sign` -1 gives it back."""
        for key, consumed in counters_of(device).items():
            self._left[key] -= sign * consumed


def counters_of(device: PublishedDevice) -> Counters:
    """Return what a device consumes. Raises CapacityError."""
    found: Counters = {}
    for consumption in device.consumes_counters:
        for name, counter in consumption.counters.items():
            key = (consumption.counter_set, name)
            found[key] = found.get(key, 0) + amount(counter.value)
    return found


def _pool_of(given: ResourceSlice) -> PoolName:
    return given.spec.driver, given.spec.pool.name


def _uses_groups(given: ResourceSlice) -> bool:
    """Whether it needs DRADeviceCompatibilityGroups, an alpha gate of 1.37."""
    return any(
        consumption.compatibility_groups
        for device in given.spec.devices
        for consumption in device.consumes_counters
    )


def _built(name: PoolName, here: Sequence[ResourceSlice], others: Sequence[ResourceSlice]) -> Pool:
    """Return a pool of which all slices are there."""
    with_devices = tuple(each for each in here if not each.spec.shared_counters)
    elsewhere = tuple(each for each in others if not each.spec.shared_counters)
    sets = [each for given in (*here, *others) for each in given.spec.shared_counters]
    consumers = [device for given in (*with_devices, *elsewhere) for device in _consumers(given)]
    why = _what_is_invalid(with_devices, consumers, [each.name for each in sets]) or ""
    counters = {
        (each.name, counter): amount(given.value)
        for each in sets
        for counter, given in each.counters.items()
    }
    for device in consumers if not why else ():
        if unknown := [key for key in counters_of(device) if key not in counters]:
            why = f"{device.name} consumes a counter that no set has: {'/'.join(unknown[0])}"
    if why:
        return Pool(*name, "Invalid", with_devices, why=why)
    return Pool(*name, "Complete", with_devices, elsewhere, counters)


def _consumers(given: ResourceSlice) -> list[PublishedDevice]:
    return [device for device in given.spec.devices if device.consumes_counters]


def _what_is_invalid(
    here: Sequence[ResourceSlice], consumers: Iterable[PublishedDevice], sets: Sequence[str]
) -> str | None:
    names = [device.name for given in here for device in given.spec.devices]
    if twice := _twice(names):
        return f"two of its devices are called {twice[0]}"
    if twice := _twice(sets):
        return f"two of its counter sets are called {twice[0]}"
    known = set(sets)
    for device in consumers:
        for consumption in device.consumes_counters:
            if consumption.counter_set not in known:
                return f"{device.name} consumes of {consumption.counter_set}, which no slice has"
    return None


def _twice(names: Sequence[str]) -> list[str]:
    """Return the names that come more than once."""
    if len({*names}) == len(names):
        return []
    return [name for name, number in Counter(names).items() if number > 1]
