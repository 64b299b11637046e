"""Raw ResourceSlices into the devices that a cluster (or a node) publishes now.

Takes the JSON of `resource.k8s.io` v1, v1beta2 and v1beta1 (which keeps a device's
content one level deeper) and knows the attribute names of NVIDIA's driver.
This is the one door for what a slice says: a device of a driver that is none of GPUs
is *foreign*, and nothing that would bind it to a GPU is kept of it.
Nothing here is about one node: the remediator reads it too. Pure: no client, no
clock, no OS.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, cast

import msgspec

from exporter.model.device import Device, GpuDrivers, normal_bus_id
from exporter.model.mig_names import placement_of
from exporter.model.quantity import whole
from kubeapi.types import ObjectMeta

Kind = Literal["gpu", "mig", "vfio", ""]
"""Attribute `type`; "" for anything else, and for a foreign device, whatever it writes there."""

_KINDS = ("gpu", "mig", "vfio")


class Taint(msgspec.Struct, frozen=True, order=True, gc=False):
    """A taint in the slice itself: the driver's own, never one of a DeviceTaintRule."""

    key: str
    value: str = ""
    effect: str = ""


class Attribute(msgspec.Struct, frozen=True, gc=False):
    """One device attribute; only texts are read."""

    string: str | None = None


ATTRIBUTES = frozenset(
    {"type", "uuid", "parentUUID", "profile", "productName", "pciBusID", "pcieBusID"}
)
"""The attributes that are read, without their domain; others (up to 32 a device) are not kept."""


class Capacity(msgspec.Struct, frozen=True, gc=False):
    """A quantity of something that a device has, such as `{"value": "80Gi"}`."""

    value: str | int | float | None = None


_Amount = Capacity | str | int | float | None
"""The shortest form, a bare quantity, is that of the API's first versions."""


AMOUNTS = ("memory", "addressableMemory")
"""The capacities that are read, the best first; others (up to fifteen a device) are not kept."""


class Taken(msgspec.Struct, frozen=True, gc=False):
    """Any amount of a counter."""


_Taken = Taken | str | int | float | None


class MemoryCounters(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The memory slices that a partition takes; other counters (up to 24) are not kept."""

    slice_0: _Taken = msgspec.field(name="memory-slice-0", default=None)
    slice_1: _Taken = msgspec.field(name="memory-slice-1", default=None)
    slice_2: _Taken = msgspec.field(name="memory-slice-2", default=None)
    slice_3: _Taken = msgspec.field(name="memory-slice-3", default=None)
    slice_4: _Taken = msgspec.field(name="memory-slice-4", default=None)
    slice_5: _Taken = msgspec.field(name="memory-slice-5", default=None)
    slice_6: _Taken = msgspec.field(name="memory-slice-6", default=None)
    slice_7: _Taken = msgspec.field(name="memory-slice-7", default=None)

    def numbers(self) -> list[int]:
        return [number for number, taken in enumerate(msgspec.structs.astuple(self)) if taken]


class CounterConsumption(msgspec.Struct, frozen=True, gc=False):
    """What a device takes of a counter set that it shares with others."""

    counters: MemoryCounters | None = None


class Content(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """What a device is made of."""

    attributes: dict[str, Attribute] | None = None
    """Cut to ATTRIBUTES."""
    capacity: dict[str, _Amount] | None = None
    """Cut to AMOUNTS."""
    taints: tuple[Taint, ...] | None = None
    allow_multiple_allocations: bool | None = None
    consumes_counters: tuple[CounterConsumption, ...] | None = None

    def __post_init__(self) -> None:
        # A large cluster has a hundred thousand devices, each with up to 32 attributes.
        if self.attributes:
            read = {
                name: value
                for name, value in self.attributes.items()
                if value.string and name.rpartition("/")[2] in ATTRIBUTES
            }
            msgspec.structs.force_setattr(self, "attributes", read)
        if self.capacity:
            amounts = {
                name: amount
                for name, amount in self.capacity.items()
                if name.rpartition("/")[2] in AMOUNTS
            }
            msgspec.structs.force_setattr(self, "capacity", amounts or None)


class RawDevice(Content, frozen=True, rename="camel", kw_only=True):
    """A device as v1 and v1beta2 write it; v1beta1 puts all but the name into `basic`."""

    name: str
    basic: Content | None = None

    def content(self) -> Content:
        return self.basic or self


class Pool(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    driver: str
    pool: Pool
    node_name: str = ""
    devices: tuple[RawDevice, ...] | None = None
    all_nodes: bool | None = None
    node_selector: object = None
    per_device_node_selection: bool | None = None


class ResourceSlice(msgspec.Struct, frozen=True, gc=False):
    """The object as the API server stores it, cut to what is read."""

    metadata: ObjectMeta
    spec: ResourceSliceSpec

    def gpus(self, drivers: GpuDrivers) -> frozenset[str]:
        """Return the UUIDs of the GPUs behind its devices."""
        found = _devices([self], drivers)
        return frozenset(device.parent_uuid or device.uuid or "" for device in found) - {""}

    @property
    def node_by(self) -> str:
        """The field that says which nodes have its devices."""
        spec = self.spec
        fields = {
            "nodeName": spec.node_name,
            "perDeviceNodeSelection": spec.per_device_node_selection,
            "allNodes": spec.all_nodes,
            "nodeSelector": spec.node_selector,
        }
        return next((name for name, value in fields.items() if value), "")


class SliceDevice(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One published device. `uuid` is None on a slice of dynamic MIG, which is no hardware yet."""

    device: Device
    kind: Kind = ""
    uuid: str | None = None
    parent_uuid: str | None = None
    """UUID of the physical GPU, on a MIG slice."""
    profile: str = ""
    pci_bus_id: str = ""
    """In the form of `device.normal_bus_id`, "" when not published."""
    node: str = ""
    taints: tuple[Taint, ...] = ()
    memory: int | None = None
    """Bytes: capacity `memory`, and `addressableMemory` of a VFIO device."""
    gi_profile_id: int | None = None
    """Of a MIG slice, by its name (`exporter.model.mig_names`)."""
    placement_start: int | None = None
    """First memory slice of a MIG slice, by the counters that it takes, else by its name."""
    placement_size: int | None = None
    """Memory slices of a MIG slice, likewise."""
    shareable: bool = False
    """allowMultipleAllocations: several claims may hold shares of it."""
    product: str = ""
    """Attribute `productName`; a slice has its GPU's."""
    foreign: bool = False
    """Of a driver that is none of GPUs: it has a name, taints and a product, and no more."""


PoolKey = tuple[str, str]
"""(driver, pool name)."""


def inventory(
    slices: Iterable[ResourceSlice], drivers: GpuDrivers, previous: Iterable[SliceDevice] = ()
) -> tuple[SliceDevice, ...]:
    """Return the devices of each pool's newest complete generation, sorted by name.

    A driver updates its slices one by one, so for a moment no generation of a
    pool may be complete: such a pool keeps the devices it had in `previous`.
    """
    pools: dict[PoolKey, list[ResourceSlice]] = {}
    for resource_slice in slices:
        pools.setdefault((resource_slice.spec.driver, resource_slice.spec.pool.name), []).append(
            resource_slice
        )
    kept: dict[PoolKey, list[SliceDevice]] = {}
    for device in previous:
        kept.setdefault((device.device.driver, device.device.pool), []).append(device)
    found: dict[Device, SliceDevice] = {}
    for key, members in pools.items():
        generations: dict[int, list[ResourceSlice]] = {}
        for member in members:
            generations.setdefault(member.spec.pool.generation, []).append(member)
        complete = [number for number, parts in generations.items() if _whole(parts)]
        published = _devices(generations[max(complete)], drivers) if complete else kept.get(key, [])
        found.update((device.device, device) for device in published)
    return tuple(found[name] for name in sorted(found))


def incomplete(slices: Iterable[ResourceSlice]) -> dict[PoolKey, frozenset[tuple[str, str]]]:
    """Return the pools whose newest generation is not there as a whole, with what there is of it.

    That is the name and the resource version of each slice: they stay while the driver is away.
    """
    pools: dict[PoolKey, list[ResourceSlice]] = {}
    for resource_slice in slices:
        pools.setdefault((resource_slice.spec.driver, resource_slice.spec.pool.name), []).append(
            resource_slice
        )
    found: dict[PoolKey, frozenset[tuple[str, str]]] = {}
    for key, members in pools.items():
        newest = max(member.spec.pool.generation for member in members)
        there = [member for member in members if member.spec.pool.generation == newest]
        if not _whole(there):
            names = (member.metadata for member in there)
            found[key] = frozenset((name.name, name.resource_version) for name in names)
    return found


def _whole(generation: list[ResourceSlice]) -> bool:
    return len(generation) >= max(member.spec.pool.resource_slice_count for member in generation)


def _devices(slices: list[ResourceSlice], drivers: GpuDrivers) -> list[SliceDevice]:
    return [
        (_device if member.spec.driver in drivers else _foreign_device)(member.spec, raw)
        for member in slices
        for raw in member.spec.devices or ()
    ]


def _foreign_device(spec: ResourceSliceSpec, raw: RawDevice) -> SliceDevice:
    full = _device(spec, raw)
    return SliceDevice(
        device=full.device,
        node=full.node,
        taints=full.taints,
        product=full.product,
        foreign=True,
    )


def _device(spec: ResourceSliceSpec, raw: RawDevice) -> SliceDevice:
    content = raw.content()
    attributes: Mapping[str, Attribute] = content.attributes or {}

    def text(*names: str) -> str:
        for name in names:
            found = attributes.get(name) or attributes.get(f"{spec.driver}/{name}")
            if found is not None and found.string:
                return found.string
        return ""

    kind = text("type")
    bus = normal_bus_id(text("resource.kubernetes.io/pciBusID", "pcieBusID"))
    place = placement_of(raw.name) if kind == "mig" else None
    start, size = (place.start, place.size) if place else (None, None)
    if kind == "mig":
        shared = (consumed.counters for consumed in content.consumes_counters or ())
        # The memory slices that the partition takes, lowest first.
        taken = sorted(number for counters in shared if counters for number in counters.numbers())
        if taken:
            start, size = taken[0], taken[-1] - taken[0] + 1
    return SliceDevice(
        device=Device(spec.driver, spec.pool.name, raw.name),
        kind=cast("Kind", kind) if kind in _KINDS else "",
        uuid=text("uuid") or None,
        parent_uuid=text("parentUUID") or None,
        profile=text("profile"),
        pci_bus_id=bus or "",
        node=spec.node_name,
        taints=content.taints or (),
        memory=_bytes(content.capacity or {}, spec.driver),
        gi_profile_id=place.gi_profile_id if place else None,
        placement_start=start,
        placement_size=size,
        shareable=content.allow_multiple_allocations is True,
        product=text("productName"),
    )


def _bytes(capacity: Mapping[str, _Amount], driver: str) -> int | None:
    for name in AMOUNTS:
        for written in (name, f"{driver}/{name}"):
            given = capacity.get(written)
            if given is not None:
                return whole(given.value if isinstance(given, Capacity) else given)
    return None
