"""The conditions of an incident: what is true of it beside its phase, each with its reason.

What is not so is written as well, as False. A condition keeps its date until its status changes.
Pure.
"""

from datetime import datetime

import msgspec

from remediator.diagnose.fault import Unknown
from remediator.diagnose.surroundings import NEAR
from remediator.model.incident import (
    EVICTION_BLOCKED,
    RULES_NOT_SERVED,
    Condition,
    IncidentStatus,
)
from remediator.plan.board import Board
from remediator.plan.effects import AWAITING, waits_since
from remediator.plan.monitors import EVICTS_MONITOR, evicts_monitor
from remediator.plan.needs import NODE_REPAIRS
from remediator.plan.recovery import unseen_rules
from remediator.plan.stages import Planned
from remediator.plan.words import some

STATE_UNKNOWN = "DeviceStateUnknown"
"""Condition of an incident: nothing is known of its GPU now, so nothing changes."""
EVICTION_REFUSED = "EvictionRefused"
"""Condition of an incident: pods that the Eviction API does not evict now, each with the reason."""
REFUSED_NAMED = 5
"""Pods that it names; beyond that it has their number."""
REPAIR_DEFERRED = "RepairDeferred"
"""Condition of an incident: the repair of the node is needed and not requested yet."""
WOULD_REPAIR = "WouldRequestRepair"
"""Condition of an incident: a repair of the node that a milder mode than enforce spares."""
UNCONFIRMED = "FaultUnconfirmed"
"""Condition of an incident: only the kernel log reports the fault, and nothing can confirm it."""


def conditions(
    board: Board, planned: Planned, before: IncidentStatus, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions of an incident now; what is not so is False."""
    old, waits = before.conditions, waits_since(before, now)
    unknown = board.verdict.why if isinstance(board.verdict, Unknown) else ""
    named = some(board.users.ignoring)
    ignored = f"allocated after the taint: {named}" if named else ""
    call = planned.granted.call
    found = (
        ("Deferred", planned.granted.deferred_by, planned.granted.deferred),
        (STATE_UNKNOWN, "ReportUnusable", unknown),
        ("NeedsHuman", "Sticky", planned.record.confirmation),
        (AWAITING, "Doubtful", _awaited(planned, old, waits, now)),
        (EVICTION_REFUSED, "EvictionAPI", _refused(board, planned)),
        (
            EVICTION_BLOCKED,
            "PodsJoin" if planned.joined_too_often else "DisruptionBudget",
            planned.blocked,
        ),
        (REPAIR_DEFERRED, call.by, call.why) if call else (REPAIR_DEFERRED, "", ""),
        (WOULD_REPAIR, *_would_repair(board, planned, old)),
        (UNCONFIRMED, *_unconfirmed(board, planned, old)),
        ("TaintIgnored", "SchedulerIgnoresTaints", ignored),
        ("AffectedPodsIncomplete", "NotKnown", _unnamed(board)),
    )
    stored = {known.type: known for known in old}
    if waits is None and AWAITING in stored and stored[AWAITING].status == "True":
        del stored[AWAITING]  # what is waited for now is another fault
    unseen = unseen_rules(board)
    if unseen or RULES_NOT_SERVED in stored:
        found += ((RULES_NOT_SERVED, "NotServed", unseen),)
    monitor = evicts_monitor(board, planned)
    if monitor or EVICTS_MONITOR in stored:
        found += ((EVICTS_MONITOR, "NoToleration", monitor),)
    generation = planned.incident.metadata.generation if planned.incident else 0
    return tuple(
        msgspec.structs.replace(
            condition(kind, reason, message, stored.get(kind), now), observed_generation=generation
        )
        for kind, reason, message in found
    )


def condition(
    kind: str, reason: str, message: str, old: Condition | None, now: datetime
) -> Condition:
    """Return a condition, dated from when it last began or ended."""
    state = "True" if message else "False"
    since = old.last_transition_time if old and old.status == state else now
    return Condition(kind, state, reason if message else "AsExpected", since, message)


def _refused(board: Board, planned: Planned) -> str:
    """Return which pods the Eviction API does not evict now, and why."""
    found = sorted(
        f"{pod.namespace}/{pod.pod}: {board.users.refusals[pod.uid]}"
        for pod in planned.pods
        if pod.uid in board.users.refusals
    )
    more = f"; and {len(found) - REFUSED_NAMED} more" if len(found) > REFUSED_NAMED else ""
    return "; ".join(found[:REFUSED_NAMED]) + more


def _would_repair(board: Board, planned: Planned, old: tuple[Condition, ...]) -> tuple[str, str]:
    """Return the act on the node that enforce mode would request, as reason and sentence.

    While nothing is known, it is as it was before.
    """
    if isinstance(board.verdict, Unknown) and not (planned.course.is_over):
        return next(
            ((stored.reason, stored.message) for stored in old if stored.type == WOULD_REPAIR),
            ("", ""),
        )
    needed = NODE_REPAIRS.get(planned.demanded.repair.would_call)
    if needed is None or planned.course.is_over:
        return "", ""
    when = "once no pod holds a GPU of the node"
    when += ", or after the deadline" if planned.demanded.repair.would_insist else ""
    return (
        needed,
        f"mode enforce would ask for: {planned.demanded.repair.would_call} of {board.node}, {when}",
    )


def _unconfirmed(board: Board, planned: Planned, old: tuple[Condition, ...]) -> tuple[str, str]:
    """Return why no second source can confirm the fault, as reason and sentence.

    While nothing is known, it is as it was before.
    """
    if isinstance(board.verdict, Unknown) and not (planned.course.is_over):
        known = (stored for stored in old if stored.type == UNCONFIRMED and stored.status == "True")
        return next(((stored.reason, stored.message) for stored in known), ("", ""))
    if not planned.record.unprovable:
        return "", ""
    alone = "only the kernel log reports the fault, and"
    if board.gpu is not None and board.gpu.recovery_action.supported is False:
        return "DriverTooOld", f"{alone} this driver has no recovery action: R565 is the first"
    return "NvmlUnavailable", f"{alone} NVML does not answer on the node"


def _awaited(
    planned: Planned, old: tuple[Condition, ...], since: datetime | None, now: datetime
) -> str:
    """Return what is waited for, or was within the last minute.

    So a fault that comes and goes does not begin to wait anew each time.
    """
    if planned.record.awaits or planned.course.is_over:
        return planned.record.awaits
    if since is None or now - since > NEAR:
        return ""
    return next(known.message for known in old if known.type == AWAITING)


def _unnamed(board: Board) -> str:
    """Return why pods may be affected that the incident does not name."""
    if board.trust.refusal("disrupt") not in {
        "",
        board.trust.refusal("begin a call"),
    } and not board.trust.refusal("release"):
        return board.trust.refusal("disrupt")
    if board.pods is None:
        return "the pods of the node could not be listed"
    if any(board.uuid in (device.uuid, device.parent_uuid) for device in board.inventory):
        return ""
    plugged = sorted(
        f"{pod.namespace}/{pod.name}"
        for pod in board.pods
        if pod.running and pod.plugin_resources and not pod.extended_claim
    )
    if not plugged:
        return ""
    return f"the GPU is not published, so a device plugin may have given it to {some(plugged)}"
