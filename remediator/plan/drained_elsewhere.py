"""Pods whose work another system has to drain before their device may be emptied. Pure.

An eviction kills what runs in them, and the system that scheduled it does not know why. So devices
that they hold get NoSchedule and no more, and the incident says how to drain them. A pod of which
nothing is known may be one of them: NoExecute waits until every affected pod was looked at.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Literal

import msgspec

from remediator.model.claim import Absent
from remediator.model.pod import PodFacts
from remediator.plan.board import Board
from remediator.plan.words import some
from remediator.policy.duration import spelled

GONE_AFTER = timedelta(minutes=2)
"""For how long the lists of the node's pods have lacked a pod that a claim is reserved for when it
counts as gone. Longer than the scheduler needs to bind it, or a cache to catch up."""
AWAITED = (
    "nothing if no such pod exists any more: NoExecute follows when the lists have lacked it for "
    f"{spelled(GONE_AFTER)}"
)
REFUSED = "the remediator's log has the error: it needs the right to list pods"
DrainedBy = Literal["NodeSet"]


class Drainer(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of owner whose pods run the work of another system."""

    word: DrainedBy
    what: str
    """What the pods are."""
    effect: str
    """What an eviction would do."""
    remedy: str
    """What a user does instead."""


DRAINERS: Mapping[str, Drainer] = {
    "NodeSet.slinky.slurm.net": Drainer(
        word="NodeSet",
        what="pod of a Slinky NodeSet",
        effect="an eviction would kill its Slurm jobs without Slurm knowing",
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


def drained_elsewhere(board: Board, uid: str) -> Drainer | None:
    """Return who drains the pod of a UID while it runs, None for others."""
    pods = (pod for pod in board.pods or () if pod.uid == uid and pod.running)
    return next((found for found in map(drainer, pods) if found), None)


def devices(board: Board) -> frozenset[str]:
    """Return the devices that a pod holds, in any way, that another system drains."""
    return frozenset(pod.device for pod in board.users.holders if drained_elsewhere(board, pod.uid))


def not_looked_at(board: Board) -> frozenset[str]:
    """Return the devices that are reserved for a pod of which nothing is known, or a group."""
    return frozenset(entry.device for entry in board.users.absent)


def why(board: Board, devices: Collection[str]) -> str:
    """Return which pods on some devices are waited for, and what a user does about it."""
    unknown = _unknown(board, [entry for entry in board.users.absent if entry.device in devices])
    return "; ".join(text for text in (drained(board, devices), *unknown) if text)


def drained(board: Board, devices: Collection[str]) -> str:
    """Return which pods on some devices another system drains, and what a user does about it."""
    here = [pod for pod in board.users.holders if pod.device in devices]
    parts = (
        f"{pods}: {found.what}, and {found.effect}. What to do: {found.remedy}"
        for found in DRAINERS.values()
        for own in ([pod for pod in here if drained_elsewhere(board, pod.uid) == found],)
        if (pods := _listed(f"{pod.namespace}/{pod.pod}" for pod in own))
    )
    return "; ".join(parts)


def _unknown(board: Board, entries: Collection[Absent]) -> list[str]:
    """Return of which pods nothing is known, why, and what ends it."""
    if not entries:
        return []
    without, ends = "are listed without it", AWAITED
    if board.pods is None:
        without, ends = "cannot be listed", REFUSED
    kinds = ((False, "its owner"), (True, "PodGroup, the owner of its pods"))
    parts = [
        f"{found}: {what} is not known, because the node's pods {without}"
        for group, what in kinds
        if (found := _listed(f"{it.namespace}/{it.name}" for it in entries if it.group == group))
    ]
    parts[-1] += f". What to do: {ends}"
    return parts


def _listed(found: Iterable[str]) -> str:
    return some(sorted(set(found)))
