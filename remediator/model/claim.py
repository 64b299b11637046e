"""ResourceClaims: which pods hold which devices, and which of our taints they tolerate.

A large cluster has one claim per GPU, and all of them are kept in memory. So the structs have only
the fields that Draguard reads, and Python's garbage collector does not scan them (`gc=False`).
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import force_setattr

from exporter.model.claim_objects import EXTENDED
from exporter.model.device import Device
from kubeapi.types import kubernetes_case
from remediator.model.incident_status import AffectedPod
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import DOMAIN

COMPUTE_DOMAIN_DRIVER = "compute-domain.nvidia.com"
"""NVIDIA's DRA driver for ComputeDomains. Its claims carry the UID of the domain."""
LONGEST_SECONDS = 10**9
"""Upper limit for `tolerationSeconds`, about 31 years. The API allows any int64, and Python's dates
would overflow."""
POD_GROUPS = "podgroups"
"""`resource` of an entry of `reservedFor` that is a PodGroup."""
ADMIN = "AdminAccess"
EXTENDED_RESOURCE = "ExtendedResource"
GANG = "Gang"
"""Values of `AffectedPod.via`: how a pod uses a device without an ordinary claim of its own."""


class ConsumerReference(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    """An entry of `status.reservedFor`: a pod, or a PodGroup of scheduling.k8s.io."""

    name: str
    resource: str = ""
    uid: str = ""


class Toleration(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    """A toleration in an allocation result.

    The scheduler copies it there from the claim's spec, and Kubernetes' device taint eviction
    controller reads only this copy.
    """

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
    """Name of the request, or `request/subrequest` where `firstAvailable` lists alternatives."""
    tolerations: tuple[Toleration, ...] = ()

    @property
    def name(self) -> Device:
        return Device(self.driver, self.pool, self.device)

    @property
    def allocates(self) -> bool:
        """Whether the result uses the device. Admin access only monitors it, without an end."""
        return not self.admin_access


class Parameters(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    """Opaque parameters of a DRA driver. Only the compute-domain driver's `domainID` is read."""

    domain_id: object = ""
    """UID of a ComputeDomain. A user can write the claim, so it may be any JSON value."""


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
    """When the scheduler allocated it. Not every Kubernetes release sets it."""


class ClaimStatus(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    allocation: Allocation | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()


class Choice(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    """Devices of one DeviceClass in a request: its `exactly`, or an entry of `firstAvailable`."""

    device_class_name: str = ""
    name: str = ""


class Request(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    name: str
    exactly: Choice | None = None
    first_available: tuple[Choice, ...] = ()


class Requests(msgspec.Struct, frozen=True, gc=False):
    requests: tuple[Request, ...] = ()


class ClaimSpec(msgspec.Struct, frozen=True, gc=False):
    devices: Requests = Requests()


class ClaimMarks(msgspec.Struct, frozen=True, gc=False):
    """The annotations of a claim, cut to the one that is read."""

    extended: str = msgspec.field(name=EXTENDED, default="")


class Owner(msgspec.Struct, frozen=True, gc=False):
    """An owner reference. A claim from a template is owned by its pod or its PodGroup."""

    kind: str


class ClaimMeta(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    """A part of `ObjectMeta`. The whole would take a third of the memory that claims need."""

    name: str
    namespace: str = ""
    annotations: ClaimMarks = ClaimMarks()
    creation_timestamp: datetime | None = None
    """This and `owner_references` are dropped once the claim is allocated."""
    owner_references: tuple[Owner, ...] = ()


class Absent(msgspec.Struct, frozen=True, order=True):
    """A pod or PodGroup in `reservedFor` of a claim of a device, without a pod in the pod list."""

    namespace: str
    name: str
    uid: str
    device: str
    group: bool = False
    """Whether it is a PodGroup."""


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A ResourceClaim as the API server stores it, cut to the fields that are read."""

    metadata: ClaimMeta
    status: ClaimStatus | None = None
    spec: ClaimSpec = ClaimSpec()

    def __post_init__(self) -> None:
        """Drop metadata that is read of pending claims only: most claims are allocated."""
        meta = self.metadata
        if self.allocated and meta.creation_timestamp:
            # The struct is frozen, and this still belongs to its construction.
            slim = ClaimMeta(meta.name, meta.namespace, meta.annotations)
            force_setattr(self, "metadata", slim)

    @property
    def allocated(self) -> bool:
        return self.status is not None and self.status.allocation is not None

    @property
    def results(self) -> tuple[DeviceResult, ...]:
        """The allocated devices; () while the claim is pending."""
        allocation = self.status.allocation if self.status else None
        return allocation.devices.results if allocation else ()

    @property
    def consumers(self) -> tuple[ConsumerReference, ...]:
        return self.status.reserved_for if self.status else ()

    @property
    def extended(self) -> bool:
        """Whether the scheduler made it for a pod's extended resource, such as `nvidia.com/gpu`."""
        return self.metadata.annotations.extended == "true"


def device_classes(claim: Claim) -> frozenset[str]:
    """Return the DeviceClasses through which the devices of a claim were allocated.

    Of the alternatives in `firstAvailable`, only the one that the scheduler chose counts.
    """
    classes: dict[str, str] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            classes[request.name] = request.exactly.device_class_name
        for part in request.first_available:
            # The allocation names the alternative that was taken in this form.
            classes[f"{request.name}/{part.name}"] = part.device_class_name
    return frozenset(classes.get(result.request, "") for result in claim.results) - {""}


def compute_domain(claim: Claim) -> str:
    """Return the UID of the ComputeDomain of which a claim has a channel, "" for none."""
    # Anyone can write parameters, so an allocated channel is required. The daemons of a domain
    # claim a `daemon` device and no channel: they are not a workload.
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
    """Return the pods that hold any of the devices, one entry per pod, claim and device, sorted.

    An allocated claim holds its device even without a pod: while it is reserved for none, or for a
    PodGroup without a pod in `pods`, its entry has an empty pod name. Pods with admin access are
    included, because NoExecute evicts them too.
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
    """Return the consumers of the devices' claims that have no pod in `pods`, sorted.

    `gone` has the UIDs of consumers that no longer exist. It is ignored while the pods of the node
    cannot be listed (`pods` is None): every consumer is then returned.
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
        # One listed pod of a group shows whose all of them are.
        if not ((space, consumer.name) in groups if group else consumer.uid in uids)
    }
    return tuple(sorted(found))


def unreported_claims(
    claims: Iterable[Claim], pods: Iterable[PodFacts]
) -> tuple[tuple[str, str], ...]:
    """Return (namespace, name) of claims of running pods that `claims` does not reserve for them.

    The watch of claims may be behind the list of pods. Namespaces alternate in the result, because
    callers read only its first entries: one tenant's claims must not displace another's.
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
    """Return (name, uid) of the pods that a claim is reserved for; [("", "")] for no known pod."""
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
    """Return the tolerations of Draguard's taints as text: `NoExecute for 300s, NoSchedule`."""
    ours = [toleration for toleration in tolerations if _concerns_us(toleration)]
    return ", ".join(sorted({_in_words(toleration) for toleration in ours}))


def may_stay(pod: AffectedPod, fault: str) -> bool:
    """Whether a pod tolerates our NoExecute taint without a time limit.

    Kubernetes does not evict it for that taint. When it is gone, it ended for another reason.
    """
    key = f"NoExecute of {DOMAIN}/{fault}"
    tolerations = pod.tolerates.split(", ")
    return any(
        # With a time it reads `NoExecute for 300s`, which is none of these.
        toleration in ("NoExecute", key) or toleration.startswith(f"{key}=")
        for toleration in tolerations
    )


def toleration_time(tolerations: Iterable[Toleration], key: str, value: str) -> timedelta | None:
    """Return for how long a NoExecute taint is tolerated, None where it is not.

    This follows the code of Kubernetes' eviction controller, not its documentation: a toleration
    without an effect counts for scheduling only, and the shortest one that matches applies.
    """
    found = [
        timedelta.max
        if toleration.toleration_seconds is None
        # The eviction controller reads a negative time as 0.
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
    """Describe a toleration. Without an effect it counts as NoSchedule: see `toleration_time`."""
    effect = toleration.effect or "NoSchedule"
    seconds = toleration.toleration_seconds if effect == "NoExecute" else None
    lasting = "" if seconds is None else f" for {max(seconds, 0)}s"
    value = f"={toleration.value}" if toleration.value and toleration.operator != "Exists" else ""
    return f"{effect}{lasting}" + (f" of {toleration.key}{value}" if toleration.key else "")
