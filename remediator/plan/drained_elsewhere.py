"""Pods whose work another system has to drain before their device may be emptied. Pure.

An eviction kills what runs in them, and the system that scheduled it does not know why. So devices
that they hold get NoSchedule and no more, and users are told how to drain them. A pod of which
nothing is known may be one of them: NoExecute waits until every affected pod was looked at.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import msgspec

from exporter.model.device import Device
from remediator.model.incident import AffectedPod
from remediator.model.pod import PodFacts
from remediator.plan.case import Case

NAMED = 3
"""Pods that a message names."""
DrainedBy = Literal["NodeSet"]


class Drainer(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of owner whose pods run the work of another system."""

    word: DrainedBy
    what: str
    """What the pods are."""
    harm: str
    """What an eviction would do."""
    remedy: str
    """What a user does instead."""


DRAINERS: Mapping[str, Drainer] = {
    "NodeSet.slinky.slurm.net": Drainer(
        word="NodeSet",
        what="pod of a Slinky NodeSet",
        harm="an eviction would kill its Slurm jobs without Slurm knowing",
        remedy=(
            "drain its node in Slurm: scontrol update nodename=NODE state=drain reason=REASON, or "
            "annotate the pod with nodeset.slinky.slurm.net/pod-cordon=true. Delete the pod when "
            "its jobs are done"
        ),
    ),
}
"""By kind and API group of a pod's controller."""


def drainer(pod: PodFacts) -> Drainer | None:
    """Return who drains a pod, None for a pod that may be evicted."""
    return DRAINERS.get(pod.owner_kind)


def drained_elsewhere(case: Case, uid: str) -> Drainer | None:
    """Return who drains the pod of a UID while it runs, None for others."""
    pods = (pod for pod in case.pods or () if pod.uid == uid and pod.running)
    return next((found for found in map(drainer, pods) if found), None)


def devices(case: Case) -> frozenset[str]:
    """Return the devices that a pod holds, in any way, that another system drains."""
    return frozenset(pod.device for pod in case.affected if drained_elsewhere(case, pod.uid))


def not_looked_at(case: Case) -> frozenset[str]:
    """Return the devices that are reserved for a pod of which nothing is known, or a group."""
    return frozenset(entry.device for entry in case.absent)


def why(case: Case, named: Collection[Device]) -> str:
    """Return which pods on some devices are waited for, and what a user does about it."""
    names = {str(device) for device in named}
    here = [pod for pod in case.affected if pod.device in names]
    parts = [
        f"{pods}: {found.what}, and {found.harm}. What to do: {found.remedy}"
        for found in DRAINERS.values()
        if (pods := _named(pod for pod in here if drained_elsewhere(case, pod.uid) == found))
    ]
    unknown = [entry for entry in case.absent if entry.device in names]
    without = "cannot be listed" if case.pods is None else "are listed without it"
    for group, what in ((False, "its owner"), (True, "PodGroup, the owner of its pods")):
        if found := _listed(
            f"{each.namespace}/{each.name}" for each in unknown if each.group == group
        ):
            parts.append(f"{found}: {what} is not known, because the node's pods {without}")
    return "; ".join(parts)


def _named(pods: Iterable[AffectedPod]) -> str:
    return _listed(f"{pod.namespace}/{pod.pod}" for pod in pods)


def _listed(found: Iterable[str]) -> str:
    names = sorted(set(found))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
