"""Who holds devices, and who of them NoExecute moves. Pure."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from draguard.cluster.cordon_rule import KEY
from exporter.model.device import Device
from remediator.model.claim import Claim, DeviceResult, Toleration


class Holder(msgspec.Struct, frozen=True, order=True):
    """A pod on a device; of a claim for a PodGroup, `podgroups/NAME`, which is all of its pods."""

    namespace: str
    pod: str
    claim: str
    device: str
    stays: str = ""
    """Why an eviction by taint passes it by, "" when it goes."""
    goes_after: int = 0
    """Seconds for which its claim tolerates the taint before it is deleted all the same."""


EXTENDED = "requested by resource name: NoExecute skips it (kubernetes#141290); delete it yourself"
_GROUPS = "podgroups"


def holders(claims: Iterable[Claim], values: Mapping[Device, str]) -> tuple[Holder, ...]:
    """Return who holds any of the devices, those with admin access too.

    `values` has the value that the taint of each device has, or would have.
    """
    found = {
        _holder(claim, pod, result, values[result.name])
        for claim in claims
        for result in claim.results
        if result.name in values
        for pod in _pods(claim)
    }
    return tuple(sorted(found))


def _pods(claim: Claim) -> Iterator[str]:
    """Give the pods that a claim is reserved for; a group stands for pods not looked up here."""
    for one in claim.consumers:
        yield f"{_GROUPS}/{one.name}" if one.resource == _GROUPS else one.name


def _holder(claim: Claim, pod: str, result: DeviceResult, value: str) -> Holder:
    stays, after = _passed_by(claim, result, value)
    meta = claim.metadata
    return Holder(meta.namespace, pod, meta.name, str(result.name), stays, after)


def _passed_by(claim: Claim, result: DeviceResult, value: str) -> tuple[str, int]:
    """Return why it is never moved, "" when it is; and after how many seconds."""
    if claim.extended:
        return EXTENDED, 0
    tolerated = [one for one in result.tolerations if _covers(one, value)]
    if not tolerated:
        return "", 0
    seconds = [one.toleration_seconds for one in tolerated if one.toleration_seconds is not None]
    return ("", max(min(seconds), 0)) if seconds else ("tolerates the taint", 0)


def _covers(one: Toleration, value: str) -> bool:
    """Whether the eviction controller honours it: only with the effect spelled out."""
    if one.effect != "NoExecute":
        return False
    if one.operator == "Exists":
        return one.key in {"", KEY}
    return one.key == KEY and one.value == value
