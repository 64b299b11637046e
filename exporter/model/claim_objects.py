"""A ResourceClaim as far as it says what PodResources does not: who, which request, how much.

Takes the JSON of `resource.k8s.io` v1, v1beta2 and v1beta1 (whose requests have
no `exactly`). Pure.
"""

import re
from collections.abc import Mapping

import msgspec

from exporter.model.quantity import whole
from exporter.model.readings import ClaimDevice
from kubeapi.types import ObjectMeta, kubernetes_case

EXTENDED = "resource.kubernetes.io/extended-resource-claim"
"""Annotation ("true") of a claim of a pod that requested devices by resource name."""

_UID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_CDI = re.compile(rf"[^=\s]+/claim=(?P<uid>{_UID})-(?P<device>.+)")


class ClaimKey(msgspec.Struct, frozen=True, order=True):
    """One claim. `uid` is "" where the driver's CDI ids do not tell it."""

    namespace: str
    name: str
    uid: str = ""


def key_of(claim: ClaimDevice) -> ClaimKey:
    """Name the claim that a container holds.

    NVIDIA's CDI ids are `k8s.gpu.nvidia.com/claim=<uid>-<device>`.
    """
    found = (_CDI.fullmatch(text) for text in claim.cdi_ids)
    uids = {result["uid"] for result in found if result and result["device"] == claim.device}
    return ClaimKey(claim.claim_namespace, claim.claim, uids.pop() if len(uids) == 1 else "")


class ResultDetail(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """One allocated device of a claim."""

    driver: str
    pool: str
    device: str
    share_id: str = ""
    request: str = ""
    """`main`, or `main/sub` of a list of alternatives."""
    admin: bool = False
    memory: int | None = None
    """Bytes: consumedCapacity `memory`, where several claims share the device."""
    device_class: str = ""


class ClaimDetail(msgspec.Struct, frozen=True, kw_only=True):
    """One claim, read once."""

    uid: str
    results: tuple[ResultDetail, ...] = ()
    """None before the claim is allocated."""
    pods: tuple[tuple[str, str], ...] = ()
    """(name, uid) of the pods in reservedFor, in the claim's namespace."""
    pod_groups: tuple[str, ...] = ()
    """Names in reservedFor; their pods are not listed there."""
    resource: str = ""
    """Of a claim that stands for an extended resource: its name."""

    def pod_uid(self, pod: str) -> str:
        return next((uid for name, uid in self.pods if name == pod), "")


class _Consumer(msgspec.Struct, frozen=True, rename=kubernetes_case):
    name: str = ""
    resource: str = ""
    uid: str = ""


class _Result(msgspec.Struct, frozen=True, rename=kubernetes_case):
    driver: str
    pool: str
    device: str
    request: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: dict[str, str | int | float] | None = None


class _Results(msgspec.Struct, frozen=True):
    results: tuple[_Result, ...] | None = None


class _Allocation(msgspec.Struct, frozen=True):
    devices: _Results = _Results()


class _Status(msgspec.Struct, frozen=True, rename=kubernetes_case):
    allocation: _Allocation | None = None
    reserved_for: tuple[_Consumer, ...] | None = None


class _Part(msgspec.Struct, frozen=True, rename=kubernetes_case):
    """What has a class: the `exactly` of a request, or one of its alternatives."""

    name: str = ""
    device_class_name: str = ""


class _Request(_Part, frozen=True, rename=kubernetes_case):
    """A request; in v1beta1 it has the class itself."""

    exactly: _Part | None = None
    first_available: tuple[_Part, ...] | None = None


class _Requests(msgspec.Struct, frozen=True):
    requests: tuple[_Request, ...] | None = None


class _Spec(msgspec.Struct, frozen=True):
    devices: _Requests = _Requests()


class RawClaim(msgspec.Struct, frozen=True):
    """The object as the API server stores it, cut to what is read."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status | None = None


def detail_of(claim: RawClaim) -> ClaimDetail:
    """Cut a claim down to what is shown."""
    status = claim.status or _Status()
    devices = status.allocation.devices if status.allocation else _Results()
    reserved = status.reserved_for or ()
    classes: dict[str, str] = {}
    for request in claim.spec.devices.requests or ():
        exact = request.exactly
        classes[request.name] = exact.device_class_name if exact else request.device_class_name
        for part in request.first_available or ():
            classes[f"{request.name}/{part.name}"] = part.device_class_name
    return ClaimDetail(
        uid=claim.metadata.uid,
        results=tuple(_result(result, classes) for result in devices.results or ()),
        pods=tuple(
            sorted(
                (consumer.name, consumer.uid)
                for consumer in reserved
                if consumer.resource == "pods"
            )
        ),
        pod_groups=tuple(
            sorted(consumer.name for consumer in reserved if consumer.resource == "podgroups")
        ),
    )


def is_extended(claim: RawClaim) -> bool:
    return claim.metadata.annotations.get(EXTENDED) == "true"


def class_of_extended(detail: ClaimDetail) -> str:
    """Return the DeviceClass behind an extended resource, "" when its requests name several."""
    classes = {result.device_class for result in detail.results}
    return classes.pop() if len(classes) == 1 else ""


def _result(result: _Result, classes: Mapping[str, str]) -> ResultDetail:
    consumed = result.consumed_capacity or {}
    memory = consumed.get("memory", consumed.get(f"{result.driver}/memory"))
    return ResultDetail(
        driver=result.driver,
        pool=result.pool,
        device=result.device,
        share_id=result.share_id or "",
        request=result.request,
        admin=result.admin_access is True,
        memory=whole(memory),
        device_class=classes.get(result.request, ""),
    )
