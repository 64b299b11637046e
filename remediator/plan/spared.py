"""Which pods stay on a GPU that is tainted, and which monitors NoExecute evicts. Pure."""

from collections import Counter
from typing import Literal, get_args

from remediator.model.claim import ADMIN, may_stay
from remediator.model.incident_status import AffectedPod
from remediator.plan.board import Board
from remediator.plan.evictable import kind_passed_by
from remediator.plan.stages import Planned
from remediator.plan.words import some

EVICTS_MONITOR = "EvictsMonitor"
"""Condition of an incident: NoExecute evicts a pod that watches the node's GPUs."""


def evicts_monitor(board: Board, planned: Planned) -> str:
    """Return which monitors NoExecute evicts, or would, and how to keep them; "" for none."""
    incident = planned.incident
    if incident is None or planned.course.is_over or not board.rules.served:
        return ""
    devices = _devices(planned)
    names = sorted(
        {
            f"{pod.namespace}/{pod.pod}"
            for pod in board.users.holders
            if pod.via == ADMIN
            and pod.device in devices
            and kind_passed_by(board, pod.uid) == "DaemonSet"
            and not may_stay(pod, incident.status.fault.fault_class)
        }
    )
    if not names:
        return ""
    return (
        "NoExecute evicts a pod that watches the GPU (such as a metrics exporter), "
        f"{some(names)}: it is of a DaemonSet and holds the device by admin access without a "
        "toleration. To keep it, name its namespace in admission.adminAccessNamespaces of the "
        "chart (docs/install.md)"
    )


def _devices(planned: Planned) -> frozenset[str]:
    """Return the devices for which NoExecute is the goal, in the mode in force or in enforce."""
    goes_on = planned.demanded.goal == "NoExecute"
    ruled = {
        str(rule.device)
        for rule in planned.rules
        if rule.effect == "NoExecute" or (goes_on and rule.effect != "None")
    }
    spared = {would.device for would in planned.record.would if would.effect == "NoExecute"}
    return frozenset(ruled | spared)


Reason = Literal["NotInScope", "Tolerates", "AdminAccess", "DaemonSet", "MirrorPod", "NodeSet"]
REASONS: tuple[Reason, ...] = get_args(Reason)
Spared = tuple[tuple[Reason, int], ...]
"""How many pods, by reason."""


def count_spared(board: Board, planned: Planned) -> Spared:
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
    if may_stay(affected, planned.incident.status.fault.fault_class if planned.incident else ""):
        return "Tolerates"
    if effect == "NoExecute" or affected.uid in {pod.uid for pod in planned.pods}:
        return None
    # The Eviction API gets no request for these.
    return "AdminAccess" if affected.via == ADMIN else kind_passed_by(board, affected.uid)
