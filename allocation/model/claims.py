"""ResourceClaims and DeviceClasses with all that the scheduler's allocator reads of them. Pure.

`remediator.model.claim` is the cut for those who ask only who holds a device.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from allocation.model.nodes import NodeSelector, NodeTaint
from allocation.model.slices import Taint
from exporter.model.device import Device
from kubeapi.types import NamespacedMeta, ObjectMeta, kubernetes_case

BLOCKING = frozenset({"NoSchedule", "NoExecute"})
"""Effects that keep claims away. Others, `None` and those of a later Kubernetes, do not."""

MOST_CONSUMERS = 256
"""Pods that a claim may be reserved for (`ResourceClaimReservedForMaxSize`)."""


class CelSelector(msgspec.Struct, frozen=True, gc=False):
    expression: str


class Selector(msgspec.Struct, frozen=True, gc=False):
    cel: CelSelector | None = None
    """None: of a later Kubernetes."""


class ClassSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    selectors: tuple[Selector, ...] = ()
    extended_resource_name: str = ""


class DeviceClass(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta
    spec: ClassSpec = ClassSpec()


class Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Of a claim for device taints, or of a pod for those of nodes: they match alike."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint | NodeTaint) -> bool:
        """As ToleratesTaint of k8s.io/dynamic-resource-allocation: an empty effect is any."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


class CapacityRequests(msgspec.Struct, frozen=True, gc=False):
    requests: dict[str, str] = {}
    """Quantities by the name of the capacity."""


class Choice(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """`exactly` of a request, or one of its alternatives."""

    name: str = ""
    """Of an alternative."""
    device_class_name: str = ""
    selectors: tuple[Selector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequests = CapacityRequests()
    derived_attributes: tuple[object, ...] = ()

    def untolerated(self, taints: Iterable[Taint]) -> tuple[Taint, ...]:
        """Return the taints that keep a device from this request."""
        return tuple(
            taint
            for taint in taints
            if taint.effect in BLOCKING
            and not any(each.tolerates(taint) for each in self.tolerations)
        )


class Request(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    exactly: Choice | None = None
    first_available: tuple[Choice, ...] = ()
    """The first that can be had is taken."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Return what it accepts, the best first; () is a request of a later Kubernetes."""
        return self.first_available or ((self.exactly,) if self.exactly is not None else ())


class Constraint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the devices of some requests must have in common, or each for itself."""

    requests: tuple[str, ...] = ()
    """"": all."""
    match_attribute: str | None = None
    distinct_attribute: str | None = None

    def is_about(self, request: str, alternative: str) -> bool:
        return not self.requests or bool(
            {request, f"{request}/{alternative}" if alternative else request} & {*self.requests}
        )


class Devices(msgspec.Struct, frozen=True, gc=False):
    requests: tuple[Request, ...] = ()
    constraints: tuple[Constraint, ...] = ()


class ClaimSpec(msgspec.Struct, frozen=True, gc=False):
    devices: Devices = Devices()


class Result(msgspec.Struct, frozen=True, gc=False, rename=kubernetes_case, kw_only=True):
    """A device that was allocated."""

    driver: str
    pool: str
    device: str
    request: str = ""
    admin_access: bool = False
    share_id: str | None = msgspec.field(name="shareID", default=None)
    """Of a device that several claims share."""
    consumed_capacity: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    """Of its request, as they were at the allocation."""
    binding_conditions: tuple[str, ...] = ()
    """Conditions of the device that its pod waits for before it is bound to the node."""
    binding_failure_conditions: tuple[str, ...] = ()

    @property
    def name(self) -> Device:
        return Device(self.driver, self.pool, self.device)


class Results(msgspec.Struct, frozen=True, gc=False):
    results: tuple[Result, ...] = ()


class Allocation(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    devices: Results = Results()
    node_selector: NodeSelector | None = None
    allocation_timestamp: datetime | None = None


class Consumer(msgspec.Struct, frozen=True, gc=False):
    """An entry of `reservedFor`: a pod, or a PodGroup."""

    name: str
    resource: str = ""
    uid: str = ""


class Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Of a pod, or of a device in a claim."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class DeviceStatus(msgspec.Struct, frozen=True, gc=False, rename=kubernetes_case):
    """What a driver says of an allocated device (KEP-4817)."""

    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(name="shareID", default=None)
    conditions: tuple[Condition, ...] = ()


class ClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    devices: tuple[DeviceStatus, ...] = ()


class Claim(msgspec.Struct, frozen=True, gc=False):
    metadata: NamespacedMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def results(self) -> tuple[Result, ...]:
        """The allocated devices; () while it waits."""
        return self.status.allocation.devices.results if self.status.allocation else ()

    def is_reserved_for(self, uid: str) -> bool:
        """Whether it is for this pod."""
        return any(each.uid == uid for each in self.status.reserved_for)

    def is_full_for(self, uid: str) -> bool:
        """Whether as many pods use it as may, and this one is none of them."""
        return len(self.status.reserved_for) >= MOST_CONSUMERS and not self.is_reserved_for(uid)

    def conditions(self, result: Result) -> dict[str, Condition]:
        """Return what the driver says of an allocated device, by type."""
        return {
            condition.type: condition
            for each in self.status.devices
            if (Device(each.driver, each.pool, each.device), each.share_id)
            == (result.name, result.share_id)
            for condition in each.conditions
        }
