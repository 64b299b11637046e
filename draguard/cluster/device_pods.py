"""Claims into the pods on devices, and which of them NoExecute deletes. Pure."""

from collections.abc import Iterable, Mapping

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
    """Why NoExecute does not delete it, "" if it does."""
    goes_after: int = 0
    """Seconds for which its claim tolerates the taint before the pod is deleted."""
    drained_by: str = ""
    """Kind of its controller, whose work an eviction kills, such as `NodeSet`; "" for none."""


EXTENDED = "requested by resource name: NoExecute skips it (kubernetes#141290); delete it yourself"
_GROUPS = "podgroups"


def holders(claims: Iterable[Claim], values: Mapping[Device, str]) -> tuple[Holder, ...]:
    """Return the pods to which any of the devices is allocated, also with admin access.

    `values` has the value that the taint of each device has, or would have. A PodGroup stands for
    its pods, which are not read here.
    """
    found: set[Holder] = set()
    for claim in claims:
        meta = claim.metadata
        for result in claim.results:
            if result.name not in values:
                continue
            stays, after = _tolerance(claim, result, values[result.name])
            for consumer in claim.consumers:
                group = f"{_GROUPS}/" if consumer.resource == _GROUPS else ""
                pod, device = f"{group}{consumer.name}", str(result.name)
                found.add(Holder(meta.namespace, pod, meta.name, device, stays, after))
    return tuple(sorted(found))


def _tolerance(claim: Claim, result: DeviceResult, value: str) -> tuple[str, int]:
    """Return why NoExecute never deletes the pods, "" if it does, and after how many seconds."""
    if claim.extended:
        return EXTENDED, 0
    tolerated = [toleration for toleration in result.tolerations if _covers(toleration, value)]
    if not tolerated:
        return "", 0
    seconds = [each.toleration_seconds for each in tolerated if each.toleration_seconds is not None]
    return ("", max(min(seconds), 0)) if seconds else ("tolerates the taint", 0)


def _covers(toleration: Toleration, value: str) -> bool:
    """Whether the eviction controller applies a toleration to a cordon: it must name NoExecute."""
    if toleration.effect != "NoExecute":
        return False
    if toleration.operator == "Exists":
        return toleration.key in {"", KEY}
    return toleration.key == KEY and toleration.value == value
