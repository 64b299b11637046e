"""Pods of a node that no deadline overrides yet: by a user's hold, or by `evict.within`.

After its deadline a repair of the node is requested over running pods. Two kinds of pods were
promised more: those on a GPU whose incident a user holds, as long as the hold counts, and those
that are evicted by request, until the time for it is over. Where it is unknown which GPU a pod
holds, it may be the one under the hold. What a pod says of itself, by its tolerations or its owner,
promises it nothing: a tenant writes that. Pure.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from remediator.diagnose.fault import Unknown
from remediator.model import intent
from remediator.model.claim import ADMIN
from remediator.model.incident import Incident, IncidentStatus
from remediator.model.incident_caps import cut
from remediator.plan import overrides
from remediator.plan.board import Board
from remediator.plan.evictions import counted_from
from remediator.plan.gpu_pods import Neighbours, Promise
from remediator.plan.stages import Planned
from remediator.plan.words import some

NAMED = 3
"""Pods that are named of each promise."""
WORDS_LIMIT = 160
"""Characters of what a user wrote: the message names others, too."""
LEAVING = "until its time to leave is over"


def with_promises(
    seen: Neighbours, pairs: Iterable[tuple[Board, Planned]], now: datetime
) -> Neighbours:
    """Return the pods in the way, with what they were promised."""
    decided = tuple(pairs)
    known = {name for board, _ in decided for name in _holders(board)}
    somewhere = tuple(name for name in seen.pods if name not in known)
    found: list[Promise] = []
    for board, planned in decided:
        opened = (incident for incident in board.incidents if incident.open)
        incident = planned.incident or next(opened, None)
        if incident is not None:
            held = _held(board, planned, incident, seen, somewhere, now)
            leaving = _leaving(board, planned, incident, seen, now)
            found += [promise for promise in (held, leaving) if promise is not None]
    found.sort(key=lambda promise: (promise.why, promise.pods))
    return msgspec.structs.replace(seen, promised=tuple(found))


def in_words(promises: Iterable[Promise]) -> tuple[str, ...]:
    """Name the pods that no deadline overrides, and why."""
    parts: list[str] = []
    for promise in promises:
        # Where none is known there may be some.
        listed = some(promise.pods, NAMED) or "who may be there"
        parts.append(f"{listed} ({promise.why})")
    return (f"not overridden: {', '.join(parts)}",) if parts else ()


def _held(  # noqa: PLR0917 - everything that it rests on
    board: Board,
    planned: Planned,
    incident: Incident,
    seen: Neighbours,
    somewhere: tuple[str, ...],
    now: datetime,
) -> Promise | None:
    """Return what a user's hold promises to pods that hold the GPU, or may."""
    hold: intent.Intent | None = overrides.in_force(planned.record.intents, "Hold")
    if planned.demanded.undecided is not None:
        own = incident.spec.intents.get("Hold")
        hold = own if own is not None and intent.counts(own, now) else None
    pods = (*_there(board, seen), *somewhere)
    if hold is None or not (pods or seen.unknown):
        return None
    why = f"{cut(intent.in_words('Hold', hold), WORDS_LIMIT)}, incident {incident.name}"
    return Promise(why=why, pods=pods, until=hold.until)


def _leaving(
    board: Board, planned: Planned, incident: Incident, seen: Neighbours, now: datetime
) -> Promise | None:
    """Return what `evict.within` promises to pods on a device that is evicted from.

    From the taint on: pods that come later could see it.
    """
    since = incident.status.eviction_start_time if planned.demanded.undecided else planned.since
    effects = {"Evict"} if since else {"Evict", "NoSchedule"}
    devices = {str(rule.device) for rule in planned.rules if rule.effect in effects}
    pods = _there(board, seen, devices)
    until = _until(board, planned, since, incident.status, now)
    if not pods or (until is not None and now >= until):
        return None
    stands = (
        bool(board.trust.refusal("disrupt"))
        or board.pods is None
        or isinstance(board.verdict, Unknown)
    )
    why = f"{LEAVING}, incident {incident.name}"
    return Promise(why=why, pods=pods, until=None if stands else until)


def _until(
    board: Board, planned: Planned, since: datetime | None, status: IncidentStatus, now: datetime
) -> datetime | None:
    """Return when the time of evicted pods is over; None: it is not over, and the end is unknown.

    Where evictions wait for a budget it is over as if they had begun: that may last for ever.
    """
    plan, notice = planned.demanded.eviction.plan, planned.demanded.eviction.notice
    if since is not None and plan is not None:
        return (counted_from(status, plan, now) or since) + plan.within
    if since is not None:
        return now if planned.blocked else None
    if _begins(board, planned):
        return None
    if notice is None or status.tainted_at is None or not notice.plan.within:
        return now
    return status.tainted_at + notice.settle + notice.plan.within


def _begins(board: Board, planned: Planned) -> bool:
    """Whether evictions of some pods are about to be requested."""
    requested = {str(rule.device) for rule in planned.rules if rule.effect == "Evict"}
    running = {pod.uid for pod in board.pods or () if pod.running}
    there = any(
        affected.device in requested and affected.uid in running for affected in board.users.holders
    )
    return there and bool(planned.granted.evicts) and not planned.granted.deferred


def _there(board: Board, seen: Neighbours, devices: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return the pods on the GPU, or on some devices of it, that are in the way or may be."""
    found = _holders(board, devices)
    return tuple(pod for pod in found if seen.unknown or pod in seen.pods)


def _holders(board: Board, devices: Iterable[str] | None = None) -> tuple[str, ...]:
    chosen = None if devices is None else set(devices)
    names = {
        f"{pod.namespace}/{pod.pod}"
        for pod in board.users.holders
        if pod.pod and pod.via != ADMIN and (chosen is None or pod.device in chosen)
    }
    return tuple(sorted(names))
