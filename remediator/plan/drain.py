"""Whether pods still use the devices of an incident: seen twice, some time apart.

Drained means: no pod holds a claim on them, and no pod that did still runs. A claim can be released
while the processes of its pod live on, and a pod can be missing from a list for a moment. Pure.
"""

from datetime import datetime, timedelta

from remediator.model.claim import ADMIN, GANG
from remediator.model.incident import AffectedPod, Incident, IncidentStatus
from remediator.plan.board import Board
from remediator.plan.stages import Granted

SEEN_APART = timedelta(seconds=10)
LOOK_AGAIN, LOOK_AGAIN_AT_LAST = timedelta(seconds=5), timedelta(seconds=60)
"""While pods that have given their devices back still run; half of the time gone by, in between."""


def affected_in_scope(board: Board, incident: Incident) -> tuple[AffectedPod, ...]:
    """Return the affected pods: holders of a device in scope, and their gang peers."""
    names = {str(target.name) for target in incident.status.scope.devices}
    return tuple(pod for pod in (*board.users.holders, *board.users.gang) if pod.device in names)


def empty_since(
    board: Board, granted: Granted, incident: Incident, now: datetime
) -> datetime | None:
    """Return since when no pod uses the devices that are to be drained, None while one may."""
    if board.trust.refusal("disrupt"):
        # Whether pods hold the devices is unknown now. Devices that were found empty twice stay so.
        return incident.status.empty_since if incident.status.drained_at else None
    watched = {str(device) for device in granted.emptying}
    watched = watched or {str(target.name) for target in incident.status.scope.devices}
    # Admin access may tolerate everything and stay for ever; it uses nothing.
    used = any(pod.device in watched and pod.via != ADMIN for pod in board.users.holders)
    if used or _pods_left(board, incident) is not False:
        return None
    return incident.status.empty_since or now


def seen_twice(status: IncidentStatus, now: datetime) -> bool:
    """Whether the devices were empty already when they were last looked at, long enough ago."""
    return status.empty_since is not None and now - status.empty_since >= SEEN_APART


def look_again(board: Board, incident: Incident, now: datetime) -> datetime | None:
    """Return when to list the node's pods again: no event reports the end of a pod.

    The release of a claim is watched; until then there is nothing to look for.
    """
    since, status = incident.status.evicting_at, incident.status
    if since is None or status.drained_at or status.empty_since:
        return None
    names = {str(target.name) for target in incident.status.scope.devices}
    if any(pod.device in names and pod.via != ADMIN for pod in board.users.holders):
        return None
    return now + min(max((now - since) / 2, LOOK_AGAIN), LOOK_AGAIN_AT_LAST)


def _pods_left(board: Board, incident: Incident) -> bool | None:
    """Whether a pod that held a device still runs; None while it is unknown.

    One that is found now counts as it will once recorded: it may hold a name without eviction.
    """
    status = incident.status
    named = (*status.affected, *status.evicted, *affected_in_scope(board, incident))
    # A gang peer holds nothing here, and admin access uses nothing.
    held = {
        affected.uid for affected in named if affected.pod and affected.via not in (GANG, ADMIN)
    }
    if not held:
        return False
    if board.pods is None:
        return None
    return any(pod.uid in held and pod.running for pod in board.pods)
