"""Pods that watch a device and that NoExecute would evict: their node's metrics go with them. Pure.

A metrics exporter, such as NVIDIA's dcgm-exporter, can hold all GPUs of its node by admin access.
So can other pods: what a pod watches them for is not known. Without a toleration of Draguard's
taint NoExecute evicts it, and under NoSchedule it does not come back. That blocks nothing:
the incident says in time how to keep it.
"""

from remediator.model.claim import ADMIN, may_stay
from remediator.plan.board import Board
from remediator.plan.evictions import is_passed_by
from remediator.plan.stages import Planned
from remediator.plan.words import some

EVICTS_MONITOR = "EvictsMonitor"
"""Condition of an incident: NoExecute evicts a pod that watches the node's GPUs."""


def evicts_monitor(board: Board, planned: Planned) -> str:
    """Return which monitors NoExecute evicts, or would, and how to keep them; "" for none."""
    incident = planned.incident
    if incident is None or planned.course.is_over:
        return ""
    devices = _devices(planned)
    names = sorted(
        {
            f"{pod.namespace}/{pod.pod}"
            for pod in board.users.holders
            if pod.via == ADMIN
            and pod.device in devices
            and is_passed_by(board, pod.uid) == "DaemonSet"
            and not may_stay(pod, incident.status.fault)
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
