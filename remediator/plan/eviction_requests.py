"""Which pods the Eviction API evicts under `Evict`, since when, and what blocks it.

Under `Evict` a device keeps its NoSchedule, and pods on it are evicted by the Eviction API, which
respects PodDisruptionBudgets. It skips pods that NoExecute need not end: admin access, pods of
DaemonSets, mirror pods, pods that another system must drain (`drained_elsewhere`), and pods that
tolerate NoExecute as the eviction controller reads it. The clock of `evict.within` starts with the
first attempt and is stored in the incident. It runs while a pod is there and nothing defers the
evictions, so that pods always get the whole time. A shared claim can be joined under NoSchedule:
pods that join later are a round of their own. Pure.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from exporter.model.device import Device
from remediator.diagnose.fault import Unknown
from remediator.model.claim import ADMIN, EXTENDED_RESOURCE, Claim, reserved, tolerated_for
from remediator.model.incident import (
    EVICTION_BLOCKED,
    AffectedPod,
    DeviceRounds,
    Incident,
    IncidentStatus,
)
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import Rule
from remediator.plan.case import ROUNDS, Case, Desired
from remediator.plan.drained_elsewhere import DRAINERS, drainer
from remediator.policy.table import Evict

FREE_FOR = timedelta(minutes=1)
"""How long no pod has held a device when its rounds expire. Longer than a scheduler without support
for taints needs to allocate it again."""
COUNTS_LEAST, COUNTS_MOST = timedelta(seconds=10), timedelta(minutes=1)
"""How long an attempt counts of `within` at most, between these: a tenth of it. A refused eviction
is requested again within a minute."""
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
            lasting = tolerated_for(result.tolerations, rule.key, rule.cause) if rule else None
            if lasting is None:
                continue
            for _, uid in reserved(claim, here):
                key = uid, str(result.name)
                found[key] = min(lasting, found.get(key, lasting))
    return found


def in_force(case: Case, desired: Desired) -> dict[str, Rule]:
    """Return the stored rules whose pods are evicted by the Eviction API now, by device."""
    desired_devices = {rule.device for rule in desired.rules if rule.effect == "Evict"}
    return {
        str(rule.device): rule
        for rule in case.rules
        if rule.effect == "Evict" and rule.device in desired_devices & set(desired.eviction.devices)
    }


def to_request(case: Case, desired: Desired, now: datetime) -> tuple[AffectedPod, ...]:
    """Return the pods for which an eviction is to be requested, each once."""
    rules, joined = in_force(case, desired), desired.eviction.joined_too_often
    there = (pod for pod in _there(case, rules) if pod.device not in joined)
    found = {pod.uid: pod for pod in there if not _passed_by(case, pod, rules, now)}
    return tuple(found.values())


def counted_from(status: IncidentStatus, plan: Evict, now: datetime) -> datetime | None:
    """Return from when `within` counts, moved on by the time without an attempt.

    Without the last attempt (an older CRD does not store it) all time counts.
    """
    start, last = status.eviction_start_time, status.eviction_attempt_time
    if start is None or last is None:
        return start
    return start + max(now - last - _counts(plan), timedelta())


def _counts(plan: Evict) -> timedelta:
    return min(max(plan.within / 10, COUNTS_LEAST), COUNTS_MOST)


def resumes(case: Case, incident: Incident, devices: Collection[Device], now: datetime) -> bool:
    """Whether evictions would begin anew on devices under `Evict`: a budget must grant them."""
    rules = {
        str(rule.device): rule
        for rule in case.rules
        if rule.effect == "Evict" and rule.device in devices
    }
    ended = incident.status.evicting_at is not None and incident.status.eviction_start_time is None
    return ended and any(not _passed_by(case, pod, rules, now) for pod in _there(case, rules))


def noted(case: Case, desired: Desired, now: datetime, *, frozen: bool) -> Desired:
    """Return the desired state with the record of its evictions for the incident.

    While nothing is known the record stays; that time does not count (`counted_from`). A hold ends
    the clock, so that it starts over.
    """
    if desired.incident is None:
        return desired
    old = desired.incident.status
    blocking = (
        condition.message
        for condition in old.conditions
        if condition.type == EVICTION_BLOCKED and condition.status == "True"
    )
    known = next(blocking, "")
    rules = in_force(case, desired)
    as_it_was = _with(
        desired,
        since=old.eviction_start_time,
        attempted=old.eviction_attempt_time,
        rounds=old.device_rounds,
    )
    if isinstance(case.verdict, Unknown) or bool(case.no_disruption) or case.pods is None:
        return _with(as_it_was, blocked=known)
    rounds = _kept_rounds(case, desired, old, now)
    # Once no pod is left under NoExecute the time is over: the next slice gets all of its own.
    no_execute = {str(rule.device): rule for rule in desired.rules if rule.effect == "NoExecute"}
    if not rules and _there(case, no_execute, terminating=True):
        return _with(as_it_was, rounds=rounds)
    held = frozen or desired.held_back
    there = () if held else _there(case, rules, terminating=True)
    if not there:
        return _with(desired, rounds=rounds)
    since, attempted = _clock(desired, old, now)
    counted = _counted_rounds(case, desired, rounds, there, now)
    changed = _with(desired, since=since, attempted=attempted, rounds=counted)
    return _with(changed, blocked=_in_the_way(case, changed, rules, now))


def _with(desired: Desired, **fields: object) -> Desired:
    eviction = msgspec.structs.replace(desired.eviction, **fields)
    return msgspec.structs.replace(desired, eviction=eviction)


def _clock(
    desired: Desired, old: IncidentStatus, now: datetime
) -> tuple[datetime, datetime | None]:
    """Return from when `within` counts and until when attempts are known, to be stored.

    Once the time is over, and between two attempts that are near enough, nothing is written.
    """
    plan, last = desired.eviction.plan or Evict(), old.eviction_attempt_time
    start = counted_from(old, plan, now)
    if start is None or old.eviction_start_time is None:
        return now, now
    if now - start >= plan.within:
        return old.eviction_start_time, last
    return start, now if last is None or now - last >= _counts(plan) / 2 else last


def _there(
    case: Case, rules: Mapping[str, Rule], *, terminating: bool = False
) -> tuple[AffectedPod, ...]:
    """Return the pods that run on a device; admin access uses nothing."""
    if not rules:
        return ()
    pods = {pod.uid: pod for pod in case.pods or () if pod.running}
    return tuple(
        affected
        for affected in case.affected
        if affected.device in rules
        and affected.via != ADMIN
        and affected.uid in pods
        and (terminating or not pods[affected.uid].terminating)
    )


def is_passed_by(case: Case, uid: str) -> PassedBy | None:
    """Return which kind of pod it is of which no eviction is ever requested, None for others."""
    pod = next((candidate for candidate in case.pods or () if candidate.uid == uid), None)
    if pod is not None and pod.owner.startswith("DaemonSet/"):
        return "DaemonSet"
    if pod is not None and (found := drainer(pod)):
        return found.word
    return "MirrorPod" if pod is not None and pod.mirror else None


def _passed_by(case: Case, pod: AffectedPod, rules: Mapping[str, Rule], now: datetime) -> str:
    """Return why no eviction is requested of a pod, "" when it is."""
    if kind := is_passed_by(case, pod.uid):
        return PASSED_BY[kind]
    if pod.via == EXTENDED_RESOURCE:
        return ""
    held = [
        held_device.device
        for held_device in case.affected
        if held_device.uid == pod.uid and held_device.device in rules
    ]
    return (
        "tolerates NoExecute"
        if all(_tolerates(case, pod, rules[device], now) for device in held)
        else ""
    )


def _tolerates(case: Case, pod: AffectedPod, rule: Rule, now: datetime) -> bool:
    """Whether a pod tolerates a device's taint still, counted from when it is evicted from."""
    lasting = case.tolerations.get((pod.uid, str(rule.device)))
    if lasting is None or lasting == FOR_EVER:
        return lasting is not None
    return now - (rule.time_added or now) < lasting


def _kept_rounds(
    case: Case, desired: Desired, old: IncidentStatus, now: datetime
) -> tuple[DeviceRounds, ...]:
    """Return the rounds that are kept: of devices under a rule that were not free for long.

    A claim that is allocated holds its device, also while it is reserved for no pod.
    """
    ruled = {str(rule.device) for rule in desired.rules}
    held = {pod.device for pod in case.affected if pod.via != ADMIN}
    kept = (
        msgspec.structs.replace(
            entry, free_since_time=None if entry.device in held else entry.free_since_time or now
        )
        for entry in old.device_rounds
        if entry.device in ruled
        and not (entry.free_since_time and now - entry.free_since_time >= FREE_FOR)
    )
    return tuple(kept)


def _counted_rounds(
    case: Case,
    desired: Desired,
    kept: tuple[DeviceRounds, ...],
    there: tuple[AffectedPod, ...],
    now: datetime,
) -> tuple[DeviceRounds, ...]:
    """Return which round each device is in: one more where pods have joined since the last."""
    joined = _joined(case, desired, now)
    found = {entry.device: entry for entry in kept}
    for device in {pod.device for pod in there}:
        before = found.get(device)
        if before is None:
            found[device] = DeviceRounds(device, 1)
        elif device in joined:
            rounds = min(before.rounds + 1, ROUNDS + 1)
            found[device] = msgspec.structs.replace(before, rounds=rounds)
    return tuple(found[device] for device in sorted(found))


def _joined(case: Case, desired: Desired, now: datetime) -> frozenset[str]:
    """Return the devices held by pods that the incident does not name yet.

    Where not all pods can be listed it is unknown which pods are new.
    """
    incident = desired.incident
    if incident is None or incident.status.affected_left_out or incident.status.evicted_left_out:
        return frozenset()
    rules = in_force(case, desired)
    known = {pod.uid for pod in (*incident.status.affected, *incident.status.evicted)}
    named = {str(target.name) for target in incident.status.scope.devices}
    return frozenset(
        affected.device
        for affected in _there(case, rules)
        if affected.uid not in known
        and affected.device in named
        and not _passed_by(case, affected, rules, now)
    )


def _in_the_way(case: Case, desired: Desired, rules: Mapping[str, Rule], now: datetime) -> str:
    """Return which pods are left and why, once nothing but waiting is done about them."""
    plan, since, joined = (
        desired.eviction.plan,
        desired.eviction.since,
        desired.eviction.joined_too_often,
    )
    overdue = bool(plan and since and now - since >= plan.within)
    if not overdue and to_request(case, desired, now):
        return ""
    pods = {pod.uid: pod for pod in case.pods or ()}
    there = {
        affected.uid: affected
        for affected in _there(case, rules)
        if overdue or affected.device in joined
    }
    blockers: list[str] = []
    for affected in sorted(there.values()):
        ready = "Ready" if pods[affected.uid].ready else "not Ready"
        why = _passed_by(case, affected, rules, now) or case.refusals.get(
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
