"""ResourceSlices with all that the scheduler's allocator reads of them (resource.k8s.io/v1). Pure.

`exporter.model.resource_slices` is the cut for those who look for GPUs; this one leaves out only
what no allocation depends on.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from allocation.model.nodes import Node, NodeSelector
from allocation.selectors.device import Attribute as Value
from allocation.selectors.device import SelectedDevice
from exporter.model.device import Device
from kubeapi.types import ObjectMeta

_KINDS = {
    "text": "string",
    "number": "int",
    "flag": "bool",
    "texts": "strings",
    "numbers": "ints",
    "flags": "bools",
}


class Attribute(msgspec.Struct, frozen=True, gc=False, rename=_KINDS):
    """One of these is set; none: a type of a later Kubernetes."""

    text: str | None = None
    number: int | None = None
    flag: bool | None = None
    version: str | None = None
    texts: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    flags: tuple[bool, ...] = ()
    versions: tuple[str, ...] = ()

    def in_words(self) -> str:
        values = (self.text, self.number, self.flag, self.version)
        several = (*self.texts, *self.numbers, *self.flags, *self.versions)
        return ", ".join(str(each) for each in (*values, *several) if each is not None)


class ValidRange(msgspec.Struct, frozen=True, gc=False):
    """Quantities that may be consumed: from `min` in steps to `max`."""

    min: str | None = None
    max: str | None = None
    step: str | None = None


class RequestPolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a request may consume of a capacity of a shared device."""

    default: str | None = None
    """Consumed by a request that does not name the capacity."""
    valid_values: tuple[str, ...] | None = None
    valid_range: ValidRange | None = None


class Capacity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    value: str
    request_policy: RequestPolicy | None = None


class Counter(msgspec.Struct, frozen=True, gc=False):
    value: str


class CounterSet(msgspec.Struct, frozen=True, gc=False):
    """What partitions of one device share, such as the memory slices of a GPU."""

    name: str
    counters: dict[str, Counter] = {}


class CounterConsumption(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    counter_set: str
    counters: dict[str, Counter] = {}
    compatibility_groups: tuple[str, ...] | None = None


class Taint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    key: str
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None
    rule: str = ""
    """DeviceTaintRule that sets it; "": the driver, in its slice."""
    doubt: str = ""
    """Criteria of its rule that are not known here: whether the device has it is open."""


class PublishedDevice(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    name: str
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Capacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[Taint, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False

    def attribute(self, name: str, driver: str) -> Attribute | None:
        """Return the attribute of a fully qualified name."""
        domain, _, identifier = name.partition("/")
        found = self.attributes.get(name)
        return self.attributes.get(identifier) if found is None and domain == driver else found

    def values(self, names: frozenset[str]) -> dict[str, str]:
        """Return the attributes and capacities of these names without domain, in words."""
        found = {name: each.in_words() for name, each in self.attributes.items()}
        found |= {name: each.value for name, each in self.capacity.items()}
        return {name: text for name, text in found.items() if name.rpartition("/")[2] in names}


class Pool(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    driver: str
    pool: Pool
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[PublishedDevice, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta
    spec: ResourceSliceSpec

    def device(self, published: PublishedDevice) -> Device:
        return Device(self.spec.driver, self.spec.pool.name, published.name)

    def is_for(self, node: Node) -> bool:
        """Whether a device in it is for that node. Raises NodeSelectorError."""
        spec = self.spec
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return node.is_chosen(spec.node_name, spec.node_selector, everywhere=spec.all_nodes)
        return spec.per_device_node_selection and any(
            self.has_for(device, node) for device in spec.devices
        )

    def has_for(self, device: PublishedDevice, node: Node) -> bool:
        """Whether a device of a slice that is for a node is so itself. Raises NodeSelectorError."""
        return not self.spec.per_device_node_selection or node.is_chosen(
            device.node_name, device.node_selector, everywhere=device.all_nodes
        )


class TaintRuleSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    taint: Taint
    device_selector: dict[str, object] | None = None
    """Criteria, all of which a device has to meet. None matches each device for the scheduler, and
    none for the eviction controller."""


class TaintRule(msgspec.Struct, frozen=True, gc=False):
    """A DeviceTaintRule."""

    metadata: ObjectMeta
    spec: TaintRuleSpec

    @property
    def place(self) -> tuple[object, object, object]:
        """Driver, pool and device that it is for; what is None is not looked at."""
        criteria = self.spec.device_selector or {}
        return criteria.get("driver"), criteria.get("pool"), criteria.get("device")

    @property
    def taint(self) -> Taint:
        """Return what it sets on a device of its place.

        Until Kubernetes 1.34 rules also selected by class and expression, and later ones may again
        select by more.
        """
        criteria = self.spec.device_selector or {}
        others = {name for name, value in criteria.items() if value} - {"driver", "pool", "device"}
        name, doubt = self.metadata.name, ", ".join(sorted(others))
        return msgspec.structs.replace(self.spec.taint, rule=name, doubt=doubt)

    def is_for(self, device: Device) -> bool:
        """Whether a device is at its place."""
        found = (device.driver, device.pool, device.device)
        return all(given in (None, each) for given, each in zip(self.place, found, strict=True))


def with_rules(slices: Iterable[ResourceSlice], rules: Iterable[TaintRule]) -> list[ResourceSlice]:
    """Return the slices with the taints of rules, as the scheduler sees them."""
    exact: dict[Device, list[TaintRule]] = {}
    wide: list[TaintRule] = []
    for rule in rules:
        if None in rule.place:
            wide.append(rule)
        else:
            exact.setdefault(Device(*map(str, rule.place)), []).append(rule)
    return [_tainted(each, exact, wide) for each in slices]


def _tainted(
    given: ResourceSlice, exact: dict[Device, list[TaintRule]], wide: list[TaintRule]
) -> ResourceSlice:
    devices: list[PublishedDevice] = []
    for published in given.spec.devices:
        name = given.device(published)
        rules = [*(rule for rule in wide if rule.is_for(name)), *exact.get(name, ())]
        taints = tuple(rule.taint for rule in rules)
        devices.append(
            msgspec.structs.replace(published, taints=published.taints + taints)
            if taints
            else published
        )
    spec = msgspec.structs.replace(given.spec, devices=tuple(devices))
    return msgspec.structs.replace(given, spec=spec)


def selected_device(driver: str, published: PublishedDevice) -> SelectedDevice | str:
    """Return a device as a selector sees it; a text says why this version cannot."""
    attributes: dict[str, Value] = {}
    versions: dict[str, str | tuple[str, ...]] = {}
    for name, given in published.attributes.items():
        if (version := given.versions or given.version) is not None:
            versions[name] = version
            continue
        single = next((x for x in (given.text, given.number, given.flag) if x is not None), None)
        several = given.texts or given.numbers or given.flags
        if single is None and not several:
            return f"attribute {name} has a type that this version of Draguard does not know"
        attributes[name] = several if single is None else single
    return SelectedDevice(
        driver=driver,
        shared=published.allow_multiple_allocations,
        attributes=attributes,
        versions=versions,
        capacity={name: each.value for name, each in published.capacity.items()},
    )
