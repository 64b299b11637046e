"""Which pods the Eviction API evicts under `Evict`, since when, and what blocks it.

Under `Evict` a device keeps its NoSchedule, and pods on it are evicted by the Eviction API, which
respects PodDisruptionBudgets. It skips pods that NoExecute need not end: admin access, pods of
DaemonSets, mirror pods, pods that another system must drain (`pods`), and pods that
tolerate NoExecute as the eviction controller reads it. The clock of `evict.within` is the device's
own: it starts with the first attempt there and is stored in the incident. It runs while a pod is
there and nothing defers the evictions, so that pods always get the whole time. A shared claim can
be joined under NoSchedule: pods that join later are a round of their own. Pure.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
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
from remediator.model.incident import Incident
from remediator.model.incident_status import (
    EVICTION_BLOCKED,
    AffectedPod,
    DeviceEvictions,
    IncidentStatus,
    first_start,
)
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import EVICTING, Rule
from remediator.plan.board import Board
from remediator.plan.clocks import (
    INTERRUPTED_FOR,
    are_interrupted,
    run_within,
    start_of_within,
)
from remediator.plan.pods import DRAINERS, drainer, drainer_of, not_looked_at, pods_left
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
SOON = timedelta(days=1)
"""A pod that chooses to end later than this, by a toleration or a grace period, is not waited for
yet."""
DENIED = "NoExecute does not reach it, and its eviction was not granted"

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
    missed = bool(_pods_not_reached(board, granted))
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
    if plan is None or not _deletes(plan):
        return frozenset()
    starts = {entry.device: start_of_within(entry, plan, now) for entry in planned.evictions}
    over = {device for device, start in starts.items() if start and now - start >= plan.within}
    missed = _pods_not_reached(board, planned.granted)
    return frozenset(pod.uid for pod in missed if pod.device in over)


def _deletes(plan: Evict | None) -> bool:
    return plan is not None and plan.then == "NoExecute" and plan.extended_resources == "delete"


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
    status = incident.status
    # `evicting_at` stays once it is set, and a device's start time ends with its last pod: so these
    # are pods that came after a drain, or after a long interruption.
    if status.eviction.evicting_at is None:
        return False
    begun = {entry.device for entry in status.eviction.by_device if entry.start_time}
    return any(
        pod.device not in begun or are_interrupted(status, now)
        for pod in _there(board, rules)
        if not _skip_reason(board, pod, rules, now)
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
        planned = _with_those_left(board, as_it_was, {}, stands, now)
        return planned if planned.blocked else _keep_blocked(as_it_was, old)
    rules = {} if granted.held_back else in_force(board, granted)
    planned = Planned(granted=granted, evictions=_evictions(board, granted, rules, now))
    return _with_those_left(board, planned, rules, stands, now)


def _keep_blocked(planned: Planned, old: IncidentStatus) -> Planned:
    reasons: tuple[BlockedBy, ...] = get_args(BlockedBy)
    for condition in old.conditions:
        if (condition.type, condition.status) == (EVICTION_BLOCKED, "True"):
            by = next((each for each in reasons if each == condition.reason), "DisruptionBudget")
            return msgspec.structs.replace(planned, blocked=condition.message, blocked_by=by)
    return planned


class _Left(msgspec.Struct, frozen=True):
    """What keeps a GPU from being drained: a pod, or a claim without one."""

    holder: AffectedPod
    pod: PodFacts | None
    """None: no running pod is listed."""
    rule: Rule | None
    """None: nothing evicts it."""
    since: datetime | None
    """Since when what stands there, and may evict it, has stood."""

    @property
    def requested(self) -> bool:
        """Whether it goes by an eviction that is requested, and not by NoExecute."""
        if self.rule is None or self.pod is None:
            return False
        return self.rule.effect == "Evict" or self.holder.via == EXTENDED_RESOURCE

    @property
    def name(self) -> str:
        if self.pod is None:
            return f"claim {self.holder.namespace}/{self.holder.claim}"
        # A PodDisruptionBudget may refuse because other pods are not Ready.
        ready = f" ({'Ready' if self.pod.ready else 'not Ready'})" if self.requested else ""
        return f"{self.holder.namespace}/{self.holder.pod}{ready}"


def _with_those_left(
    board: Board,
    planned: Planned,
    requested: Mapping[str, Rule],
    no_execute: Mapping[str, Rule],
    now: datetime,
) -> Planned:
    """Return the same with what is left, once nothing that is done removes any of it.

    A GPU fills a budget while something that is done may still remove a pod: NoExecute, a request
    within its time, a grace period. Else a process that hangs in the driver of a dead GPU, or a pod
    whose eviction is never granted, would fill it for ever.
    """
    found = dict[str, str]()
    for left in _all_left(board, planned, requested, no_execute):
        why = _why_left(board, planned, left, requested, now)
        if not why or not _time_is_over(planned, left, now):
            return planned
        found[left.name] = why
    if not found:
        return planned
    texts = [f"{name}: {why}" for name, why in found.items()]
    more = f"; and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    by: BlockedBy = "PodsJoin" if planned.joined_too_often else "DisruptionBudget"
    by = "PodsStay" if no_execute else by
    first = f"pods have joined a claim in more than {ROUNDS} rounds of evictions: "
    first = first if by == "PodsJoin" else ""
    return msgspec.structs.replace(
        planned, blocked=first + "; ".join(texts[:NAMED]) + more, blocked_by=by
    )


def _all_left(
    board: Board, planned: Planned, requested: Mapping[str, Rule], no_execute: Mapping[str, Rule]
) -> Iterator[_Left]:
    """Yield all that keeps a GPU from being drained: what is evicted, and what is beside it.

    Beside it are pods on a device that is not evicted from, such as one that nothing publishes now,
    and pods that run on without their device. Under requests alone they fill no budget.
    """
    rules = {**requested, **no_execute}
    starts = {entry.device: entry.start_time for entry in planned.evictions}
    running = {pod.uid: pod for pod in board.pods or () if pod.running}
    held = [pod for pod in board.users.holders if pod.device in rules and pod.via != ADMIN]
    for holder in sorted(held):
        rule, pod = rules[holder.device], running.get(holder.uid)
        # A claim that stays allocated keeps its device from being drained, also without a pod.
        # There is no eviction to request of it.
        if pod is not None or rule.effect != "Evict":
            since = rule.time_added if rule.effect == "NoExecute" else starts.get(holder.device)
            yield _Left(holder, pod, rule, since)
    goes = {pod.uid for pod in held}
    beside = pods_left(board, planned.incident) if planned.incident and no_execute else ()
    for holder in beside or ():
        if holder.uid not in goes:
            own = (rule for rule in board.rules.stored if str(rule.device) == holder.device)
            dates = [rule.time_added for rule in (*own, *no_execute.values())]
            known = [date for date in dates if date]
            since = max(known) if len(known) == len(dates) else None
            yield _Left(holder, running[holder.uid], None, since)


def _why_left(
    board: Board, planned: Planned, left: _Left, requested: Mapping[str, Rule], now: datetime
) -> str:
    """Return why what is done does not remove it, "" where it does, or may at any moment."""
    if left.pod is None:
        # A pod that is not listed may be there, and NoExecute may be about to remove it.
        unlisted = left.holder.device in not_looked_at(board)
        return "" if unlisted else "no pod is left, and it stays allocated"
    if left.pod.terminating:
        return _why_not_ended(left.pod, now)
    if left.rule is None:
        return f"nothing evicts it from {left.holder.device}"
    if left.rule.effect == "NoExecute" and left.requested:
        return _why_not_reached(board, planned, left)
    if left.rule.effect == "NoExecute":
        return _why_tolerated(board, left, now)
    why = _skip_reason(board, left.holder, requested, now)
    return why or board.users.refusals.get(left.pod.uid, "no answer yet")


def _why_not_ended(pod: PodFacts, now: datetime) -> str:
    """Return why a terminating pod is not waited for, "" while it is."""
    ends = pod.grace_ends
    if ends is None or now <= ends <= now + SOON:
        return ""
    if ends > now:
        return f"its grace period lasts until {moment(ends)}"
    return f"it is terminating and has not ended since {moment(ends)}"


def _why_not_reached(board: Board, planned: Planned, left: _Left) -> str:
    """Return why a pod stays that NoExecute does not reach, "" where it will be deleted instead."""
    uid = left.holder.uid
    if found := drainer_of(board, uid):
        return PASSED_BY[found.word]
    refusal = board.users.refusals.get(uid, "")
    return refusal or ("" if _deletes(planned.demanded.eviction.plan) else DENIED)


def _why_tolerated(board: Board, left: _Left, now: datetime) -> str:
    """Return why NoExecute does not delete a pod that it reaches, "" where it does."""
    lasting = board.users.tolerations.get((left.holder.uid, left.holder.device))
    if lasting is None or lasting == FOR_EVER:
        return "it tolerates NoExecute" if lasting else ""
    more = lasting - (now - (left.since or now))
    return f"it tolerates NoExecute for {more.days} more days" if more > SOON else ""


def _time_is_over(planned: Planned, left: _Left, now: datetime) -> bool:
    """Whether the time is over for which what is done counts, whatever comes of it."""
    since = left.since
    if left.rule is None or left.rule.effect == "NoExecute":
        later = left.rule is None or left.requested
        came = left.pod.started if left.pod and later else None
        # An eviction is requested of a pod that came later as well, and may be granted.
        if since and came and since < came <= now:
            since = came
        return since is not None and now - since >= STAYS_AFTER
    if left.holder.device in planned.joined_too_often:
        return True  # nothing is requested there any more
    plan = planned.demanded.eviction.plan
    return bool(plan and since and now - since >= plan.within)


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
    used = {pod.device for pod in _there(board, ruled, terminating=True)}
    missed = () if granted.held_back else _pods_not_reached(board, granted)
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
        for affected in _there(board, rules)
        if affected.uid not in known
        # The incident records pods of devices in scope only. On any other device the same pods
        # would be new in each decision.
        and affected.device in named
        and not _skip_reason(board, affected, rules, now)
    )


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
