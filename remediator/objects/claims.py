"""Who holds a device: ResourceClaims into holds. Pure."""

from collections.abc import Iterable

import msgspec

from exporter.device import Device
from exporter.report import ObjectMeta, kubernetes_case
from remediator.objects.incident import PodHold


class ConsumerReference(msgspec.Struct, frozen=True, rename=kubernetes_case):
    name: str
    resource: str = ""
    uid: str = ""


class DeviceResult(msgspec.Struct, frozen=True, rename=kubernetes_case):
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None


class DeviceAllocation(msgspec.Struct, frozen=True):
    results: tuple[DeviceResult, ...] = ()


class Allocation(msgspec.Struct, frozen=True):
    devices: DeviceAllocation = DeviceAllocation()


class ClaimStatus(msgspec.Struct, frozen=True, rename=kubernetes_case):
    allocation: Allocation | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()


class ClaimMeta(ObjectMeta, frozen=True):
    namespace: str = ""


class Claim(msgspec.Struct, frozen=True):
    """A ResourceClaim as the API server stores it, cut to what is read."""

    metadata: ClaimMeta
    status: ClaimStatus | None = None


def holds(claims: Iterable[Claim], devices: frozenset[Device]) -> tuple[PodHold, ...]:
    """Return who holds any of the devices, sorted.

    A claim that is allocated but reserved for nobody still holds its device: it
    is listed with an empty pod name. Admin access is listed too, because
    NoExecute evicts those pods like any other.
    """
    found = {
        PodHold(claim.metadata.namespace, pod, claim.metadata.name, str(device), uid)
        for claim in claims
        for device in _allocated(claim) & devices
        for pod, uid in _consumers(claim)
    }
    return tuple(sorted(found))


def _allocated(claim: Claim) -> frozenset[Device]:
    if claim.status is None or claim.status.allocation is None:
        return frozenset()
    results = claim.status.allocation.devices.results
    return frozenset(Device(one.driver, one.pool, one.device) for one in results)


def _consumers(claim: Claim) -> list[tuple[str, str]]:
    reserved = claim.status.reserved_for if claim.status else ()
    return [(one.name, one.uid) for one in reserved] or [("", "")]
