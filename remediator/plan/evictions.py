"""Which pods the Eviction API evicts under `Evict`, since when, and what blocks it.

Under `Evict` a device keeps its NoSchedule, and pods on it are evicted by the Eviction API, which
respects PodDisruptionBudgets. It skips pods that NoExecute need not end: admin access, pods of
DaemonSets, mirror pods, pods that another system must drain (`pods`), and pods that
tolerate NoExecute as the eviction controller reads it. The clock of `evict.within` starts with the
first attempt and is stored in the incident. It runs while a pod is there and nothing defers the
evictions, so that pods always get the whole time. A shared claim can be joined under NoSchedule:
pods that join later are a round of their own. Pure.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal, get_args

import msgspec

from exporter.model.device import Device
from remediator.diagnose.fault import Unknown
from remediator.model.claim import (
    ADMIN,
    EXTENDED_RESOURCE,
    Claim,
    may_stay,
    pods_reserved_for,
    toleration_time,
)
from remediator.model.incident import (
    EVICTION_BLOCKED,
    AffectedPod,
    DeviceRounds,
    Incident,
    IncidentStatus,
)
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import Rule
from remediator.plan.board import Board
from remediator.plan.clocks import run_within
from remediator.plan.pods import DRAINERS, drainer, drainer_of
from remediator.plan.stages import ROUNDS, BlockedBy, Granted, Planned
from remediator.plan.words import some
from remediator.policy.table import Evict
from remediator.policy.windows import moment

LOOK_AGAIN, LOOK_AGAIN_BLOCKED = timedelta(seconds=5), timedelta(seconds=60)
"""Interval of looks while a pod is to be evicted: a PodDisruptionBudget may have refused, and no
event reports when it allows. The controller limits how often the eviction is really requested."""
FREE_FOR = timedelta(minutes=1)
"""How long no pod has held a device when its rounds expire. Longer than a scheduler without support
for taints needs to allocate it again."""
PassedBy = Literal["DaemonSet", "MirrorPod", "NodeSet"]
PASSED_BY: Mapping[PassedBy, str] = {
    "DaemonSet": "pod of a DaemonSet",
    "MirrorPod": "mirror pod",
    **{found.word: f"{found.what}: {found.remedy}" for found in DRAINERS.values()},
}
"""Kinds of pods of which no eviction is ever requested, in words."""
NAMED = 5
"""Pods that a message names."""
FOR_EVER = timedelta.max
STAYS_AFTER = timedelta(minutes=10)
"""How long NoExecute stands before pods that it does not remove are left to a user. Longer than the
grace period of most pods, and than the eviction controller needs to start anew."""

Tolerations = Mapping[tuple[str, str], timedelta]
"""By pod UID and device, for how long our taint there is tolerated as NoExecute."""


def tolerations(
    rules: Iterable[Rule], claims: Iterable[Claim], pods: Iterable[PodFacts] | None
) -> Tolerations:
    """Return for how long pods tolerate what our rules would be as NoExecute.

    As the eviction controller reads it: in the result of the allocation, with the effect spelled
    out, the shortest of all that match.
    """
    by_device = {rule.device: rule for rule in rules}
    if not by_device:
        return {}
    here = tuple(pods or ())
    found: dict[tuple[str, str], timedelta] = {}
    for claim in claims:
        for result in claim.results:
            rule = by_device.get(result.name)
            lasting = toleration_time(result.tolerations, rule.key, rule.cause) if rule else None
            if lasting is None:
                continue
            for _, uid in pods_reserved_for(claim, here):
                key = uid, str(result.name)
                found[key] = min(lasting, found.get(key, lasting))
    return found


def plan_evictions(board: Board, granted: Granted, now: datetime) -> Planned:
    """Return which pods are evicted for what is granted, with the clock of their evictions."""
    if granted.incident is None and not board.rules.stored:
        return Planned(granted=granted)
    planned = _eviction_record(board, granted, now)
    evict = to_evict(board, planned, now)
    missed = _pods_not_reached(board, granted)
    # Pods are listed on demand and not watched: no event reports that a list would succeed.
    unseen = board.pods is None and (missed or in_force(board, granted))
    if not (evict or unseen or planned.since):
        return planned
    again = now + (LOOK_AGAIN_BLOCKED if planned.blocked else LOOK_AGAIN)
    delete, plan = frozenset[str](), granted.demanded.eviction.plan
    # Deletion ignores PodDisruptionBudgets, as the NoExecute does that should have reached these
    # pods (kubernetes#141290): no other pod is deleted.
    if plan is not None and plan.then != "wait" and plan.extended_resources != "wait":
        # Pods that NoExecute would delete if it reached them.
        unreached = {pod.uid for pod in missed}
        delete = frozenset(pod.uid for pod in evict if pod.uid in unreached)
    return msgspec.structs.replace(planned, pods=evict, delete=delete, look_again=again)


def to_evict(board: Board, planned: Planned, now: datetime) -> tuple[AffectedPod, ...]:
    """Return the pods for which an eviction is requested, each once.

    These hold a device under `Evict`, or a NoExecute in force does not reach them. No pod is
    evicted while the state of the GPU or the pods of the node are unknown, or while disruption is
    deferred altogether: a budget has already granted what is stored.
    """
    unknown = isinstance(board.verdict, Unknown) or bool(board.trust.refusal("disrupt"))
    if board.pods is None or unknown or planned.granted.held_back:
        return ()
    missed = [*_pods_not_reached(board, planned.granted), *to_request(board, planned, now)]
    if not missed:
        return ()
    here = {pod.uid for pod in board.pods if pod.running and not pod.terminating}
    found = {affected.uid: affected for affected in missed if affected.uid in here}
    return tuple(found.values())


def _pods_not_reached(board: Board, granted: Granted) -> list[AffectedPod]:
    """Return pods on a device under a stored, still desired NoExecute that does not reach them.

    The eviction controller walks `spec.resourceClaims` only and skips a claim that stands for an
    extended resource (kubernetes#141290). Such a pod has no way to tolerate a taint. One that
    another system drains is left to it. None is evicted that no fault has evicted now: a rule
    stands on a GPU that is healthy again, too.
    """
    desired = {rule.device for rule in granted.rules if rule.effect == "NoExecute"}
    stored = {rule.device for rule in board.rules.stored if rule.effect == "NoExecute"}
    # Stored and desired: a rule that is to go or to be milder evicts nothing in its last moments.
    reached = {str(device) for device in stored & desired & set(granted.evicts)}
    return [
        pod
        for pod in board.users.holders
        if pod.via == EXTENDED_RESOURCE and pod.device in reached and not drainer_of(board, pod.uid)
    ]


def requestable_pods(board: Board, granted: Granted) -> frozenset[str]:
    """Return the UIDs of pods of which an eviction may be requested now, if nothing defers it."""
    devices = in_force(board, granted)
    here = (pod for pod in board.users.holders if pod.device in devices and pod.via != ADMIN)
    return frozenset(pod.uid for pod in (*here, *_pods_not_reached(board, granted)))


def in_force(board: Board, granted: Granted) -> dict[str, Rule]:
    """Return the stored rules whose pods are evicted by the Eviction API now, by device."""
    desired = {rule.device for rule in granted.rules if rule.effect == "Evict"}
    return {
        str(rule.device): rule
        for rule in board.rules.stored
        if rule.effect == "Evict" and rule.device in desired & set(granted.evicts)
    }


def to_request(board: Board, planned: Planned, now: datetime) -> tuple[AffectedPod, ...]:
    """Return the pods for which an eviction is to be requested, each once."""
    rules, joined = in_force(board, planned.granted), planned.joined_too_often
    there = (pod for pod in _there(board, rules) if pod.device not in joined)
    found = {pod.uid: pod for pod in there if not _skip_reason(board, pod, rules, now)}
    return tuple(found.values())


def resumes(board: Board, incident: Incident, devices: Collection[Device], now: datetime) -> bool:
    """Whether evictions would begin anew on devices under `Evict`: a budget must grant them."""
    rules = {
        str(rule.device): rule
        for rule in board.rules.stored
        if rule.effect == "Evict" and rule.device in devices
    }
    # `evicting_at` stays once it is set, and the start time ends with the last pod: so these are
    # pods that came after a drain.
    ended = incident.status.evicting_at is not None and incident.status.eviction_start_time is None
    return ended and any(not _skip_reason(board, pod, rules, now) for pod in _there(board, rules))


def _eviction_record(board: Board, granted: Granted, now: datetime) -> Planned:
    """Return the record of the evictions for the incident.

    While nothing is known the record stays; that time does not count (`clocks`). A hold
    ends the clock, so that it starts over.
    """
    if granted.incident is None:
        return Planned(granted=granted)
    old = granted.incident.status
    as_it_was = Planned(
        granted=granted,
        since=old.eviction_start_time,
        attempted=old.eviction_attempt_time,
        rounds=old.device_rounds,
    )
    if isinstance(board.verdict, Unknown) or board.trust.refusal("disrupt") or board.pods is None:
        # Nothing shows that what blocked them is over, so its words stay.
        return _keep_blocked(as_it_was, old)
    rules = in_force(board, granted)
    rounds = _rounds_to_keep(board, granted, old, now)
    # Once no pod is left under NoExecute the time is over: the next slice gets all of its own.
    no_execute = {str(rule.device): rule for rule in granted.rules if rule.effect == "NoExecute"}
    if not rules and _there(board, no_execute, terminating=True):
        return msgspec.structs.replace(
            as_it_was,
            rounds=rounds,
            blocked=_pods_that_stay(board, no_execute.keys(), now),
            blocked_by="PodsStay",
        )
    # A pod in its grace period still uses the device, so the time goes on.
    there = () if granted.held_back else _there(board, rules, terminating=True)
    if not there:
        return Planned(granted=granted, rounds=rounds)
    plan = granted.demanded.eviction.plan or Evict()
    since, attempted = run_within(old, plan, now)
    planned = Planned(
        granted=granted,
        since=since,
        attempted=attempted,
        rounds=_count_rounds(board, granted, rounds, there, now),
    )
    return msgspec.structs.replace(
        planned,
        blocked=_in_the_way(board, planned, rules, now),
        blocked_by="PodsJoin" if planned.joined_too_often else "DisruptionBudget",
    )


def _keep_blocked(planned: Planned, old: IncidentStatus) -> Planned:
    reasons: tuple[BlockedBy, ...] = get_args(BlockedBy)
    for condition in old.conditions:
        if (condition.type, condition.status) == (EVICTION_BLOCKED, "True"):
            by = next((each for each in reasons if each == condition.reason), "DisruptionBudget")
            return msgspec.structs.replace(planned, blocked=condition.message, blocked_by=by)
    return planned


def _pods_that_stay(board: Board, devices: Collection[str], now: datetime) -> str:
    """Return which pods are left under NoExecute, once it removes none of them, and why.

    Else they would fill a budget for ever: a process that hangs in the driver of a dead GPU does
    not end.
    """
    rules = {
        str(rule.device): rule
        for rule in board.rules.stored
        if rule.effect == "NoExecute" and str(rule.device) in devices
    }
    since = [rule.time_added for rule in rules.values()]
    if not all(at is not None and now - at >= STAYS_AFTER for at in since):
        return ""
    grace = {pod.uid: pod.grace_ends for pod in board.pods or ()}
    found = set[str]()
    for affected in _there(board, rules, terminating=True):
        ends = grace[affected.uid]
        if ends is not None and ends < now:
            why = f"it is terminating and has not ended since {moment(ends)}"
        elif board.users.tolerations.get((affected.uid, affected.device)) == FOR_EVER:
            why = "it tolerates NoExecute"
        else:
            return ""
        found.add(f"{affected.namespace}/{affected.pod}: {why}")
    return some(sorted(found), NAMED)


def _there(
    board: Board, rules: Mapping[str, Rule], *, terminating: bool = False
) -> tuple[AffectedPod, ...]:
    """Return the pods that run on a device; admin access uses nothing."""
    if not rules:
        return ()
    pods = {pod.uid: pod for pod in board.pods or () if pod.running}
    return tuple(
        affected
        for affected in board.users.holders
        if affected.device in rules
        and affected.via != ADMIN
        and affected.uid in pods
        and (terminating or not pods[affected.uid].terminating)
    )


def kind_passed_by(board: Board, uid: str) -> PassedBy | None:
    """Return which kind of pod it is of which no eviction is ever requested, None for others."""
    pod = next((candidate for candidate in board.pods or () if candidate.uid == uid), None)
    if pod is not None and pod.owner.startswith("DaemonSet/"):
        return "DaemonSet"
    if pod is not None and (found := drainer(pod)):
        return found.word
    return "MirrorPod" if pod is not None and pod.mirror else None


def _skip_reason(board: Board, pod: AffectedPod, rules: Mapping[str, Rule], now: datetime) -> str:
    """Return why no eviction is requested of a pod, "" when it is."""
    if kind := kind_passed_by(board, pod.uid):
        return PASSED_BY[kind]
    # Its claim is made by the scheduler and carries no tolerations.
    if pod.via == EXTENDED_RESOURCE:
        return ""
    held = [
        held_device.device
        for held_device in board.users.holders
        if held_device.uid == pod.uid and held_device.device in rules
    ]
    return (
        "tolerates NoExecute"
        # One device that is not tolerated is enough: the eviction controller takes the earliest
        # end.
        if all(_tolerates(board, pod, rules[device], now) for device in held)
        else ""
    )


def _tolerates(board: Board, pod: AffectedPod, rule: Rule, now: datetime) -> bool:
    """Whether a pod tolerates a device's taint still, counted from when it is evicted from."""
    lasting = board.users.tolerations.get((pod.uid, str(rule.device)))
    if lasting is None or lasting == FOR_EVER:
        return lasting is not None
    return now - (rule.time_added or now) < lasting


def _rounds_to_keep(
    board: Board, granted: Granted, old: IncidentStatus, now: datetime
) -> tuple[DeviceRounds, ...]:
    """Return the rounds that are kept: of devices under a rule that were not free for long.

    A claim that is allocated holds its device, also while it is reserved for no pod.
    """
    ruled = {str(rule.device) for rule in granted.rules}
    held = {pod.device for pod in board.users.holders if pod.via != ADMIN}
    kept = (
        msgspec.structs.replace(
            entry, free_since_time=None if entry.device in held else entry.free_since_time or now
        )
        for entry in old.device_rounds
        if entry.device in ruled
        and not (entry.free_since_time and now - entry.free_since_time >= FREE_FOR)
    )
    return tuple(kept)


def _count_rounds(
    board: Board,
    granted: Granted,
    kept: tuple[DeviceRounds, ...],
    there: tuple[AffectedPod, ...],
    now: datetime,
) -> tuple[DeviceRounds, ...]:
    """Return which round each device is in: one more where pods have joined since the last."""
    joined = _devices_with_new_pods(board, granted, now)
    found = {entry.device: entry for entry in kept}
    for device in {pod.device for pod in there}:
        before = found.get(device)
        if before is None:
            found[device] = DeviceRounds(device, 1)
        elif device in joined:
            found[device] = msgspec.structs.replace(before, rounds=before.rounds + 1)
    return tuple(found[device] for device in sorted(found))


def _devices_with_new_pods(board: Board, granted: Granted, now: datetime) -> frozenset[str]:
    """Return the devices held by pods that the incident does not name yet.

    Where not all pods can be listed it is unknown which pods are new.
    """
    incident = granted.incident
    if incident is None or incident.status.affected_left_out or incident.status.evicted_left_out:
        return frozenset()
    rules = in_force(board, granted)
    known = {pod.uid for pod in (*incident.status.affected, *incident.status.evicted)}
    named = {str(target.name) for target in incident.status.scope.devices}
    return frozenset(
        affected.device
        for affected in _there(board, rules)
        if affected.uid not in known
        # The incident records pods of devices in scope only. On any other device the same pods
        # would be new in each decision.
        and affected.device in named
        and not _skip_reason(board, affected, rules, now)
    )


def _in_the_way(board: Board, planned: Planned, rules: Mapping[str, Rule], now: datetime) -> str:
    """Return which pods are left and why, once nothing but waiting is done about them."""
    plan, since, joined = (
        planned.demanded.eviction.plan,
        planned.since,
        planned.joined_too_often,
    )
    overdue = bool(plan and since and now - since >= plan.within)
    if not overdue and to_request(board, planned, now):
        return ""
    pods = {pod.uid: pod for pod in board.pods or ()}
    there = {
        affected.uid: affected
        for affected in _there(board, rules)
        # Before the time is over only pods on a device that was joined too often are in the way:
        # nothing is requested of them any more.
        if overdue or affected.device in joined
    }
    blockers: list[str] = []
    for affected in sorted(there.values()):
        ready = "Ready" if pods[affected.uid].ready else "not Ready"
        why = _skip_reason(board, affected, rules, now) or board.users.refusals.get(
            affected.uid, "no answer yet"
        )
        blockers.append(f"{affected.namespace}/{affected.pod} ({ready}): {why}")
    if not blockers:
        return ""
    more = f"; and {len(blockers) - NAMED} more" if len(blockers) > NAMED else ""
    first = (
        f"pods have joined a claim in more than {ROUNDS} rounds of evictions: " if joined else ""
    )
    return first + "; ".join(blockers[:NAMED]) + more


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
            and kind_passed_by(board, pod.uid) == "DaemonSet"
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
    if may_stay(affected, planned.incident.status.fault if planned.incident else ""):
        return "Tolerates"
    if effect == "NoExecute" or affected.uid in {pod.uid for pod in planned.pods}:
        return None
    # The Eviction API gets no request for these.
    return "AdminAccess" if affected.via == ADMIN else kind_passed_by(board, affected.uid)
