"""Which pods on a sick GPU an eviction leaves alone when it begins, and why. Pure."""

from collections import Counter
from typing import Literal, get_args

from remediator.model.claim import ADMIN, may_stay
from remediator.model.incident import AffectedPod
from remediator.plan.board import Board
from remediator.plan.evictions import is_passed_by
from remediator.plan.stages import Planned

Reason = Literal["NotInScope", "Tolerates", "AdminAccess", "DaemonSet", "MirrorPod", "NodeSet"]
REASONS: tuple[Reason, ...] = get_args(Reason)
Spared = tuple[tuple[Reason, int], ...]
"""How many pods, by reason."""


def spared(board: Board, planned: Planned) -> Spared:
    """Return how many pods hold a device of the GPU and are not evicted.

    A pod that is evicted from one of its devices is not spared on another.
    """
    by_pod: dict[tuple[str, str, str], list[Reason | None]] = {}
    for affected in board.users.holders:
        if affected.pod:
            pod = (affected.namespace, affected.pod, affected.uid)
            by_pod.setdefault(pod, []).append(_why(affected, board, planned))
    found = Counter(_nearest(whys) for whys in by_pod.values())
    return tuple((reason, found[reason]) for reason in REASONS if found[reason])


def _nearest(whys: list[Reason | None]) -> Reason | None:
    """Return why a pod is spared on all of its devices; of several reasons the last."""
    if None in whys:
        return None
    return next((why for why in reversed(REASONS) if why in whys), None)


def _why(affected: AffectedPod, board: Board, planned: Planned) -> Reason | None:
    """Return why a pod is not evicted from one device, None where it is or that is unknown."""
    effect = next(
        (rule.effect for rule in board.rules.stored if str(rule.device) == affected.device), "None"
    )
    if effect == "None":
        return "NotInScope"
    if may_stay(affected, planned.incident.status.fault if planned.incident else ""):
        return "Tolerates"
    if effect == "NoExecute" or affected.uid in {pod.uid for pod in planned.pods}:
        return None
    # The Eviction API gets no request for these.
    return "AdminAccess" if affected.via == ADMIN else is_passed_by(board, affected.uid)
