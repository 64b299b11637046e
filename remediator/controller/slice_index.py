"""Every ResourceSlice of the cluster: by the node that publishes it, and by pool."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from exporter.model.device import Device, GpuDrivers
from exporter.model.resource_slices import PoolKey, ResourceSlice, SliceDevice, inventory


class SliceIndex:
    """Not safe by itself: `Cache` holds its lock."""

    def __init__(self, drivers: GpuDrivers) -> None:
        self._drivers = drivers
        self._slices: dict[str, dict[str, ResourceSlice]] = defaultdict(dict)
        """By node and name."""
        self._inventory: dict[str, tuple[SliceDevice, ...]] = {}
        self._pools: dict[PoolKey, dict[str, str]] = defaultdict(dict)
        """By slice, the node that publishes it; "" where none does by its name."""
        self._floating: dict[str, ResourceSlice] = {}
        """Slices by name that no node publishes by its name, such as network-attached ones."""

    def devices_of(self, node: str) -> tuple[SliceDevice, ...]:
        """Return the devices that a node publishes."""
        return self._inventory.get(node, ())

    def find_device(self, device: Device) -> SliceDevice | None:
        """Return the device of a name, by its pool's only publisher or the node of that name."""
        # NVIDIA's driver names a pool after its node: of several publishers only that one counts.
        publishers = {*self._pools.get((device.driver, device.pool), {}).values()}
        mine = self.devices_of(publishers.pop() if len(publishers) == 1 else device.pool)
        return next((candidate for candidate in mine if candidate.device == device), None)

    def contested_pools(self, node: str, ruled: Iterable[Device]) -> frozenset[PoolKey]:
        """Return the pools of a node and its rules into which others publish, too."""
        names = (*(part.device for part in self.devices_of(node)), *ruled)
        pools = {(name.driver, name.pool) for name in names}
        return frozenset(pool for pool in pools if {*self._pools.get(pool, {}).values()} - {node})

    def node_of(self, pool: PoolKey) -> str:
        """Return a node that publishes a pool, or else the one that it is named after."""
        return next(iter(self._pools.get(pool, {}).values()), "") or pool[1]

    def why_unbound(self, node: str, gpus: set[str]) -> Mapping[str, str]:
        """Return by GPU how it is published otherwise: the node reports and does not publish it."""
        if not gpus:
            return {}
        found: dict[str, str] = {}
        for slice_ in self._floating.values():
            where = f"{slice_.spec.driver}/{slice_.spec.pool.name}"
            why = f"pool {where} says by {slice_.node_by or 'nothing'} where it is, not by nodeName"
            found |= dict.fromkeys(slice_.gpus(self._drivers) & gpus, why)
        for slice_ in self._slices.get(node, {}).values():
            where = f"{slice_.spec.driver}/{slice_.spec.pool.name}"
            why = f"pool {where} is not published by this node as a whole"
            found |= dict.fromkeys(slice_.gpus(self._drivers) & gpus, why)
        return found

    def put(self, name: str, old: ResourceSlice | None, new: ResourceSlice | None) -> set[str]:
        """Take in a slice's pool; return the nodes that publish beside others.

        What its nodes publish now is taken in by `publish`, node by node.
        """
        beside = self._share(name, old, None) | self._share(name, None, new)
        self._floating.pop(name, None)
        if new is not None and not new.spec.node_name:
            self._floating[name] = new
        return beside

    def _share(self, name: str, old: ResourceSlice | None, new: ResourceSlice | None) -> set[str]:
        current = new or old
        if current is None:
            return set()
        key = (current.spec.driver, current.spec.pool.name)
        members = self._pools[key]
        members.pop(name, None)
        if new is not None:
            members[name] = new.spec.node_name
        nodes = {*members.values(), current.spec.node_name}
        if not members:
            del self._pools[key]
        return nodes - {""} if len(nodes) > 1 else set()

    def publish(
        self, node: str, name: str, part: ResourceSlice | None
    ) -> tuple[tuple[SliceDevice, ...], tuple[SliceDevice, ...]]:
        """Take in one slice of a node; return the node's devices before and after."""
        mine = self._slices[node]
        mine.pop(name, None)
        if part is not None:
            mine[name] = part
        before = self.devices_of(node)
        after = inventory(mine.values(), self._drivers, before)
        self._inventory[node] = after
        if not mine:
            del self._slices[node], self._inventory[node]
        return before, after
