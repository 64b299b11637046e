"""Who holds devices, and who of them NoExecute moves. Pure."""

from collections.abc import Iterable

import msgspec

from draguard.maintenance.rule import KEY
from exporter.device import Device
from remediator.objects.claims import Claim, DeviceResult, Toleration, reserved


class Holder(msgspec.Struct, frozen=True, order=True):
    """A pod on a device. `stays`: why an eviction by taint passes it by, "" when it goes."""

    namespace: str
    pod: str
    claim: str
    device: str
    stays: str = ""


EXTENDED = "asked by resource name: NoExecute passes it by (kubernetes#141290); delete it by hand"


def holders(claims: Iterable[Claim], devices: frozenset[Device]) -> tuple[Holder, ...]:
    """Return the pods that hold any of the devices, those with admin access too."""
    found = {
        Holder(
            claim.metadata.namespace,
            pod,
            claim.metadata.name,
            str(result.name),
            _stays(claim, result),
        )
        for claim in claims
        for result in claim.results
        if result.name in devices
        for pod, _ in reserved(claim, ())
        if pod
    }
    return tuple(sorted(found))


def _stays(claim: Claim, result: DeviceResult) -> str:
    if claim.extended:
        return EXTENDED
    tolerated = [one for one in result.tolerations if _covers(one)]
    if not tolerated:
        return ""
    seconds = [one.toleration_seconds for one in tolerated if one.toleration_seconds is not None]
    return f"tolerates it for {min(seconds)} s" if seconds else "tolerates it"


def _covers(one: Toleration) -> bool:
    """Whether the eviction controller honours it: only with the effect spelled out."""
    key = one.key in {"", KEY} if one.operator == "Exists" else one.key == KEY
    return one.effect == "NoExecute" and key
