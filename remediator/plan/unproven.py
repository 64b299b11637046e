"""What an open incident holds against a GPU that reports no fault: faults that no proof has ended.

A report without a fault proves nothing of an end that must be seen (`diagnose.ends`), nor of a
class that only a user's word ends. Each is a demand of its own class, by its own row and under
every brake: so a taint that the policy or a user took away comes back, and what came while a brake
held is tainted later. It keeps new work away and evicts no pod. Pure.
"""

from collections.abc import Iterator

from remediator.diagnose import ends
from remediator.diagnose.fault import SEVERITY, Fault, FaultClass, Healthy
from remediator.model.incident import Incident
from remediator.plan import recovery
from remediator.plan.board import Board
from remediator.plan.words import class_of
from remediator.policy.table import Policy

_OF_THE_GPU = frozenset[FaultClass](SEVERITY[SEVERITY.index("fabric") :])
"""Classes of the whole GPU: which slice a contained error meant only its signal says."""


def unproven_faults(
    board: Board, incident: Incident, policy: Policy, confirmation: str
) -> Iterator[Fault]:
    """Yield one fault for each class; `confirmation` is why a user must confirm the repair."""
    if not isinstance(board.verdict, Healthy) or board.gpu is None:
        return
    status, found = incident.status, dict[FaultClass, tuple[str, str]]()
    leading = class_of(status.fault.fault_class)
    reset = recovery.was_reset(board, board.gpu, status)
    for end in status.fault.awaited_ends:
        if why := ends.why_not_ended(board.gpu, end, reset=reset):
            fault_class, cause = ends.fault_of(end)
            found.setdefault(fault_class or leading, (cause, why))
    if confirmation:
        classes: set[FaultClass] = {leading, *map(class_of, status.fault.classes)}
        sticky: list[FaultClass] = [
            each for each in SEVERITY if each in classes and policy.row(each, board.place).sticky
        ]
        # A GPU that failed too often, and was never tainted for it, is well now.
        if not sticky and status.scope.hardware:
            sticky = [leading]
        for each in sticky:
            cause = status.fault.cause if each == leading else each
            found.setdefault(each, (cause, confirmation))
    for fault_class, (cause, why) in found.items():
        if fault_class in _OF_THE_GPU:
            yield Fault(
                fault_class=fault_class,
                cause=cause,
                needs="human",
                last_seen=status.fault.seen_through or board.verdict.since,
                evidence=why,
            )
