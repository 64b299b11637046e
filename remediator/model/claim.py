"""Which pods hold a device: ResourceClaims into holds. Pure.

A large cluster has a claim for each of its GPUs, so the structs keep what is read and nothing else,
and the garbage collector leaves them alone.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import force_setattr

from exporter.model.claim_objects import EXTENDED
from exporter.model.device import Device
from kubeapi.types import kubernetes_case
from remediator.model.incident import AffectedPod
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import DOMAIN

COMPUTE_DOMAIN_DRIVER = "compute-domain.nvidia.com"
"""DRA driver of NVIDIA's ComputeDomains, whose claims carry the domain's UID."""
LONGEST_SECONDS = 10**9
"""Of a toleration; a longer one is one for ever."""
POD_GROUPS = "podgroups"
"""Resource of a consumer that is a group of pods."""
ADMIN = "AdminAccess"
EXTENDED_RESOURCE = "ExtendedResource"
GANG = "Gang"
"""Values of `AffectedPod.via`."""


class ConsumerReference(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    """An entry of `reservedFor`: `pods`, or `podgroups` of scheduling.k8s.io."""

    name: str
    resource: str = ""
    uid: str = ""


class Toleration(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    """As copied into an allocation result, which is what the eviction controller reads."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class DeviceResult(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    request: str = ""
    """`main`, or `main/sub` of a list of alternatives."""
    tolerations: tuple[Toleration, ...] = ()

    @property
    def name(self) -> Device:
        return Device(self.driver, self.pool, self.device)

    @property
    def allocates(self) -> bool:
        """Whether the device is in use by it: admin access only looks, and may stay for ever."""
        return not self.admin_access


class Parameters(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    """A driver's own parameters, of which one word of the compute-domain driver is read."""

    domain_id: object = ""
    """UID of a ComputeDomain; anything else in a claim that a user wrote."""


class Opaque(msgspec.Struct, frozen=True, gc=False):
    driver: str
    parameters: Parameters = Parameters()


class Configuration(msgspec.Struct, frozen=True, gc=False):
    opaque: Opaque | None = None


class DeviceAllocation(msgspec.Struct, frozen=True, gc=False):
    results: tuple[DeviceResult, ...] = ()
    config: tuple[Configuration, ...] = ()


class Allocation(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    devices: DeviceAllocation = DeviceAllocation()
    allocation_timestamp: datetime | None = None
    """When the scheduler allocated it; not every release writes that."""


class ClaimStatus(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    allocation: Allocation | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()


class Choice(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    """What names a DeviceClass: the `exactly` of a request, or one of its alternatives."""

    device_class_name: str = ""
    name: str = ""
    count: int = 0
    """Devices; 0 where all are requested (`allocationMode: All`)."""


class Request(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    name: str
    exactly: Choice | None = None
    first_available: tuple[Choice, ...] = ()


class Requests(msgspec.Struct, frozen=True, gc=False):
    requests: tuple[Request, ...] = ()


class ClaimSpec(msgspec.Struct, frozen=True, gc=False):
    devices: Requests = Requests()


class ClaimMarks(msgspec.Struct, frozen=True, gc=False):
    """The one annotation that is read."""

    extended: str = msgspec.field(name=EXTENDED, default="")


class Owner(msgspec.Struct, frozen=True, gc=False):
    """An owner reference; a claim that was made from a template has its pod or pod group."""

    kind: str


class ClaimMeta(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    """Less than `ObjectMeta`, which would be a third of all memory for claims."""

    name: str
    namespace: str = ""
    annotations: ClaimMarks = ClaimMarks()
    creation_timestamp: datetime | None = None
    """None on an allocated claim, and `owner_references` are () there."""
    owner_references: tuple[Owner, ...] = ()


class Absent(msgspec.Struct, frozen=True, order=True):
    """For what a claim is reserved that holds a device, and of which no pod is listed."""

    namespace: str
    name: str
    uid: str
    device: str
    group: bool = False
    """It is a PodGroup, not a pod."""


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A ResourceClaim as the API server stores it, cut to what is read."""

    metadata: ClaimMeta
    status: ClaimStatus | None = None
    spec: ClaimSpec = ClaimSpec()

    def __post_init__(self) -> None:
        """Drop what only a waiting claim needs: most are allocated, and all are kept."""
        meta = self.metadata
        if self.allocated and meta.creation_timestamp:
            slim = ClaimMeta(meta.name, meta.namespace, meta.annotations)
            force_setattr(self, "metadata", slim)

    @property
    def allocated(self) -> bool:
        return self.status is not None and self.status.allocation is not None

    @property
    def results(self) -> tuple[DeviceResult, ...]:
        """What it was given; () while it is not allocated."""
        allocation = self.status.allocation if self.status else None
        return allocation.devices.results if allocation else ()

    @property
    def consumers(self) -> tuple[ConsumerReference, ...]:
        return self.status.reserved_for if self.status else ()

    @property
    def extended(self) -> bool:
        """Whether the scheduler made it for a pod that requests by resource name."""
        return self.metadata.annotations.extended == "true"


def device_classes(claim: Claim) -> frozenset[str]:
    """Return the DeviceClasses through which a claim was given its devices.

    Of a list of alternatives only the one that was taken counts.
    """
    classes: dict[str, str] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            classes[request.name] = request.exactly.device_class_name
        for part in request.first_available:
            classes[f"{request.name}/{part.name}"] = part.device_class_name
    return frozenset(classes.get(result.request, "") for result in claim.results) - {""}


def compute_domain(claim: Claim) -> str:
    """Return the UID of the ComputeDomain of which a claim was given a channel, "" for none.

    Parameters alone bind no claim, and the claims of the domain's own daemons are no workload's.
    """
    if not any(
        result.driver == COMPUTE_DOMAIN_DRIVER and result.device.startswith("channel-")
        for result in claim.results
    ):
        return ""
    allocation = claim.status.allocation if claim.status else None
    for config in allocation.devices.config if allocation else ():
        if config.opaque is not None and config.opaque.driver == COMPUTE_DOMAIN_DRIVER:
            domain = config.opaque.parameters.domain_id
            return domain if isinstance(domain, str) else ""
    return ""


def affected_pods(
    claims: Iterable[Claim], devices: frozenset[Device], pods: Iterable[PodFacts] | None = None
) -> tuple[AffectedPod, ...]:
    """Return the holds of any of the devices, sorted.

    A claim that is allocated but reserved for no pod still holds its device: it is listed with an
    empty pod name, and so is one that is reserved for a PodGroup without a known pod here. Admin
    access is listed too, because NoExecute evicts those pods like any other.
    """
    here = tuple(pods or ())
    found = {
        AffectedPod(
            claim.metadata.namespace,
            pod,
            claim.metadata.name,
            str(result.name),
            uid,
            _via(claim, result, uid, here),
            tolerations_in_words(result.tolerations),
        )
        for claim in claims
        for result in claim.results
        if result.name in devices
        for pod, uid in pods_reserved_for(claim, here)
    }
    return tuple(sorted(found))


def absent_consumers(
    claims: Iterable[Claim],
    devices: Collection[Device],
    pods: Iterable[PodFacts] | None,
    gone: Collection[str] = (),
) -> tuple[Absent, ...]:
    """Return for what any of the devices is reserved without a pod that is listed, sorted.

    `gone` has the UIDs of what is known not to exist any more. While no pods can be listed nothing
    is.
    """
    gone = () if pods is None else gone
    here = tuple(pods or ())
    uids = {pod.uid for pod in here}
    groups = {(pod.namespace, pod.pod_group) for pod in here}
    found = {
        Absent(space, consumer.name, consumer.uid, str(result.name), group)
        for claim in claims
        for result in claim.results
        if result.name in devices
        for consumer in claim.consumers
        if consumer.uid not in gone
        for space, group in ((claim.metadata.namespace, consumer.resource == POD_GROUPS),)
        if not ((space, consumer.name) in groups if group else consumer.uid in uids)
    }
    return tuple(sorted(found))


def unreported_claims(
    claims: Iterable[Claim], pods: Iterable[PodFacts]
) -> tuple[tuple[str, str], ...]:
    """Return (namespace, name) of the claims that running pods name and no claim here shows.

    The namespaces take turns, so that those of one tenant hide none of another's.
    """
    here = tuple(pods)
    shown = {
        (claim.metadata.namespace, claim.metadata.name, uid)
        for claim in claims
        for _, uid in pods_reserved_for(claim, here)
    }
    found: dict[str, set[str]] = {}
    for pod in here:
        for name in {*pod.claims, pod.extended_claim} - {""} if pod.running else ():
            if (pod.namespace, name, pod.uid) not in shown:
                found.setdefault(pod.namespace, set()).add(name)
    turns = sorted(
        (turn, space, name)
        for space, names in found.items()
        for turn, name in enumerate(sorted(names))
    )
    return tuple((space, name) for _, space, name in turns)


def pods_reserved_for(claim: Claim, pods: tuple[PodFacts, ...]) -> list[tuple[str, str]]:
    """Return (name, uid) of the pods that a claim is reserved for, at least one."""
    found: list[tuple[str, str]] = []
    for consumer in claim.consumers:
        if consumer.resource != POD_GROUPS:
            found.append((consumer.name, consumer.uid))
            continue
        group = (claim.metadata.namespace, consumer.name)
        found += [(pod.name, pod.uid) for pod in pods if (pod.namespace, pod.pod_group) == group]
    return found or [("", "")]


def _via(claim: Claim, result: DeviceResult, uid: str, pods: tuple[PodFacts, ...]) -> str:
    if not result.allocates:
        return ADMIN
    made_for = any(
        pod.uid == uid
        and pod.extended_claim == claim.metadata.name
        and pod.namespace == claim.metadata.namespace
        for pod in pods
    )
    return EXTENDED_RESOURCE if claim.extended or made_for else ""


def tolerations_in_words(tolerations: tuple[Toleration, ...]) -> str:
    """Return which of our taints are tolerated, such as `NoExecute for 300s, NoSchedule`."""
    ours = [toleration for toleration in tolerations if _concerns_us(toleration)]
    return ", ".join(sorted({_in_words(toleration) for toleration in ours}))


def may_stay(pod: AffectedPod, fault: str) -> bool:
    """Whether a pod tolerates our NoExecute without an end: if it is gone, it went by itself."""
    key = f"NoExecute of {DOMAIN}/{fault}"
    tolerations = pod.tolerates.split(", ")
    return any(
        toleration in ("NoExecute", key) or toleration.startswith(f"{key}=")
        for toleration in tolerations
    )


def toleration_time(tolerations: Iterable[Toleration], key: str, value: str) -> timedelta | None:
    """Return for how long a taint of effect NoExecute is tolerated, None where it is not.

    As the eviction controller reads it: an effect that is left out counts for scheduling only.
    """
    found = [
        timedelta.max
        if toleration.toleration_seconds is None
        else timedelta(seconds=min(max(toleration.toleration_seconds, 0), LONGEST_SECONDS))
        for toleration in tolerations
        if toleration.effect == "NoExecute" and _matches(toleration, key, value)
    ]
    return min(found, default=None)


def _matches(toleration: Toleration, key: str, value: str) -> bool:
    if toleration.operator == "Exists":
        return toleration.key in ("", key)
    return toleration.key == key and toleration.value == value


def _concerns_us(toleration: Toleration) -> bool:
    if not toleration.key:
        return toleration.operator == "Exists"
    return toleration.key.startswith(f"{DOMAIN}/")


def _in_words(toleration: Toleration) -> str:
    """Describe a toleration: without an effect it counts for scheduling, not for eviction."""
    effect = toleration.effect or "NoSchedule"
    seconds = toleration.toleration_seconds if effect == "NoExecute" else None
    lasting = "" if seconds is None else f" for {max(seconds, 0)}s"
    value = f"={toleration.value}" if toleration.value and toleration.operator != "Exists" else ""
    return f"{effect}{lasting}" + (f" of {toleration.key}{value}" if toleration.key else "")
