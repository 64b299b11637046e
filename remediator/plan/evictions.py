"""Since when pods are evicted under `Evict`, in which rounds, and which of them just now.

Under `Evict` a device keeps its NoSchedule, and pods on it are evicted by the Eviction API, which
respects PodDisruptionBudgets (`evictable`). The clock of `evict.within` is the device's own: it
starts with the first attempt there and is stored in the incident. It runs while a pod is there and
nothing defers the evictions, so that pods always get the whole time. A shared claim can be joined
under NoSchedule: pods that join later are a round of their own. Pure.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import get_args

import msgspec

from exporter.model.device import Device
from remediator.diagnose.fault import Unknown
from remediator.model.claim import ADMIN
from remediator.model.incident import Incident
from remediator.model.incident_status import (
    EVICTION_BLOCKED,
    AffectedPod,
    DeviceEvictions,
    IncidentStatus,
    first_start,
)
from remediator.model.taint_rule import EVICTING, Rule
from remediator.plan.board import Board
from remediator.plan.clocks import INTERRUPTED_FOR, are_interrupted, run_within, start_of_within
from remediator.plan.evictable import in_force, may_delete, pods_not_reached, pods_on, skip_reason
from remediator.plan.stages import BlockedBy, Granted, Planned
from remediator.plan.undrained import with_pods_left
from remediator.policy.table import Evict

LOOK_AGAIN, LOOK_AGAIN_BLOCKED = timedelta(seconds=5), timedelta(seconds=60)
"""Interval of looks while a pod is to be evicted: a PodDisruptionBudget may have refused, and no
event reports when it allows. The controller limits how often the eviction is really requested."""
FREE_FOR = timedelta(minutes=1)
"""How long no pod has held a device when its rounds expire. Longer than a scheduler without support
for taints needs to allocate it again."""


def plan_evictions(board: Board, granted: Granted, now: datetime) -> Planned:
    """Return which pods are evicted for what is granted, with the clock of their evictions."""
    if granted.incident is None and not board.rules.stored:
        return Planned(granted=granted)
    planned = _eviction_record(board, granted, now)
    evict = to_evict(board, planned, now)
    missed = bool(pods_not_reached(board, granted))
    # Pods are listed on demand and not watched: no event reports that a list would succeed.
    unseen = board.pods is None and (missed or in_force(board, granted))
    if not (evict or unseen or first_start(planned.evictions)):
        return planned
    again = now + (LOOK_AGAIN_BLOCKED if planned.blocked else LOOK_AGAIN)
    delete = _to_delete(board, planned, now) & {pod.uid for pod in evict}
    return msgspec.structs.replace(planned, pods=evict, delete=delete, look_again=again)


def _to_delete(board: Board, planned: Planned, now: datetime) -> frozenset[str]:
    """Return the UIDs of pods that NoExecute would delete if it reached them, where we may do it.

    Deletion ignores PodDisruptionBudgets, as the NoExecute does that should have reached these pods
    (kubernetes#141290): no other pod is deleted, and none before its time to leave is over. The
    NoExecute may stand for a class or a policy that gave none.
    """
    plan = planned.demanded.eviction.plan
    if plan is None or not may_delete(plan):
        return frozenset()
    starts = {entry.device: start_of_within(entry, plan, now) for entry in planned.evictions}
    over = {device for device, start in starts.items() if start and now - start >= plan.within}
    missed = pods_not_reached(board, planned.granted)
    return frozenset(pod.uid for pod in missed if pod.device in over)


def to_evict(board: Board, planned: Planned, now: datetime) -> tuple[AffectedPod, ...]:
    """Return the pods for which an eviction is requested, each once.

    These hold a device under `Evict`, or a NoExecute in force does not reach them. No pod is
    evicted while the state of the GPU or the pods of the node are unknown, or while disruption is
    deferred altogether: a budget has already granted what is stored.
    """
    unknown = isinstance(board.verdict, Unknown) or bool(board.trust.refusal("disrupt"))
    if board.pods is None or unknown or planned.granted.held_back:
        return ()
    missed = [*pods_not_reached(board, planned.granted), *to_request(board, planned, now)]
    if not missed:
        return ()
    here = {pod.uid for pod in board.pods if pod.running and not pod.terminating}
    found = {affected.uid: affected for affected in missed if affected.uid in here}
    return tuple(found.values())


def to_request(board: Board, planned: Planned, now: datetime) -> tuple[AffectedPod, ...]:
    """Return the pods for which an eviction is to be requested, each once."""
    rules, joined = in_force(board, planned.granted), planned.joined_too_often
    there = (pod for pod in pods_on(board, rules) if pod.device not in joined)
    found = {pod.uid: pod for pod in there if not skip_reason(board, pod, rules, now)}
    return tuple(found.values())


def resumes(board: Board, incident: Incident, devices: Collection[Device], now: datetime) -> bool:
    """Whether evictions would begin anew on devices under `Evict`: a budget must grant them."""
    rules = {
        str(rule.device): rule
        for rule in board.rules.stored
        if rule.effect == "Evict" and rule.device in devices
    }
    status = incident.status
    # `evicting_at` stays once it is set, and a device's start time ends with its last pod: so these
    # are pods that came after a drain, or after a long interruption.
    if status.eviction.evicting_at is None:
        return False
    begun = {entry.device for entry in status.eviction.by_device if entry.start_time}
    return any(
        pod.device not in begun or are_interrupted(status, now)
        for pod in pods_on(board, rules)
        if not skip_reason(board, pod, rules, now)
    )


def _eviction_record(board: Board, granted: Granted, now: datetime) -> Planned:
    """Return the record of the evictions for the incident.

    While nothing is known the record stays; that time does not count (`clocks`). A hold
    ends the clock, so that it starts over.
    """
    if granted.incident is None:
        return Planned(granted=granted)
    old = granted.incident.status
    as_it_was = Planned(granted=granted, evictions=old.eviction.by_device)
    if board.trust.refusal("disrupt") or board.pods is None:
        # Nothing shows that what blocked them is over, so its words stay.
        return _keep_blocked(as_it_was, old)
    # Desired or not: one that may not be removed evicts all the same.
    stands = {str(rule.device): rule for rule in board.rules.stored if rule.effect == "NoExecute"}
    if isinstance(board.verdict, Unknown):
        # NoExecute goes on, and what pods do is known all the same.
        planned = with_pods_left(board, as_it_was, {}, stands, now)
        return planned if planned.blocked else _keep_blocked(as_it_was, old)
    rules = {} if granted.held_back else in_force(board, granted)
    planned = Planned(granted=granted, evictions=_evictions(board, granted, rules, now))
    return with_pods_left(board, planned, rules, stands, now)


def _keep_blocked(planned: Planned, old: IncidentStatus) -> Planned:
    reasons: tuple[BlockedBy, ...] = get_args(BlockedBy)
    for condition in old.conditions:
        if (condition.type, condition.status) == (EVICTION_BLOCKED, "True"):
            by = next((each for each in reasons if each == condition.reason), "DisruptionBudget")
            return msgspec.structs.replace(planned, blocked=condition.message, blocked_by=by)
    return planned


def _evictions(
    board: Board, granted: Granted, rules: Mapping[str, Rule], now: datetime
) -> tuple[DeviceEvictions, ...]:
    """Return by device the evictions under these rules, and what is kept of earlier ones.

    The time of the pods is over with the last of them. A hold ends it, too, and so does a long
    interruption.
    """
    plan = granted.demanded.eviction.plan or Evict()
    ruled = {str(rule.device): rule for rule in granted.rules}
    # A pod in its grace period still uses the device, so its time goes on.
    used = {pod.device for pod in pods_on(board, ruled, terminating=True)}
    missed = () if granted.held_back else pods_not_reached(board, granted)
    requested = used & (rules.keys() | {pod.device for pod in missed})
    joined = _devices_with_new_pods(board, granted, now) if requested else frozenset[str]()
    found = {device: DeviceEvictions(device, 1, now, now) for device in requested}
    for entry in _evictions_to_keep(board, granted, now):
        start, attempt, rounds = entry.start_time, entry.attempt_time, entry.rounds
        if entry.device in requested:
            start, attempt = run_within(entry, plan, now)
            rounds += entry.device in joined
        elif entry.device not in used or not _counts_on(granted, ruled[entry.device], entry, now):
            start = attempt = None
        found[entry.device] = msgspec.structs.replace(
            entry, rounds=rounds, start_time=start, attempt_time=attempt
        )
    return tuple(found[device] for device in sorted(found))


def _evictions_to_keep(board: Board, granted: Granted, now: datetime) -> Iterator[DeviceEvictions]:
    """Yield the evictions from devices under a rule that were not free for long.

    A claim that is allocated holds its device, also while it is reserved for no pod.
    """
    ruled = {str(rule.device) for rule in granted.rules}
    held = {pod.device for pod in board.users.holders if pod.via != ADMIN}
    for entry in granted.incident.status.eviction.by_device if granted.incident else ():
        free = entry.free_since_time
        if entry.device in ruled and not (free and now - free >= FREE_FOR):
            free = None if entry.device in held else free or now
            yield msgspec.structs.replace(entry, free_since_time=free)


def _counts_on(granted: Granted, rule: Rule, entry: DeviceEvictions, now: datetime) -> bool:
    """Whether the time of the pods on a device goes on, though none is evicted just now."""
    if rule.effect == "NoExecute":
        return True
    since = entry.attempt_time or entry.start_time
    brief = since is not None and now - since < INTERRUPTED_FOR
    # Such as while another device of the GPU gets its taint first. What is deferred fills no
    # budget.
    waits = granted.demanded.goal in EVICTING and not granted.deferrals
    return rule.effect == "Evict" and waits and brief


def _devices_with_new_pods(board: Board, granted: Granted, now: datetime) -> frozenset[str]:
    """Return the devices held by pods that the incident does not name yet.

    Where not all pods can be listed it is unknown which pods are new.
    """
    incident = granted.incident
    if (
        incident is None
        or incident.status.scope.affected_left_out
        or incident.status.eviction.evicted_left_out
    ):
        return frozenset()
    rules = in_force(board, granted)
    known = {
        pod.uid for pod in (*incident.status.scope.affected, *incident.status.eviction.evicted)
    }
    named = {str(target.name) for target in incident.status.scope.devices}
    return frozenset(
        affected.device
        for affected in pods_on(board, rules)
        if affected.uid not in known
        # The incident records pods of devices in scope only. On any other device the same pods
        # would be new in each decision.
        and affected.device in named
        and not skip_reason(board, affected, rules, now)
    )
