"""Who is evicted by the Eviction API under `Evict`, since when, and what is in the way.

Under `Evict` a device keeps its NoSchedule, and who holds it is evicted by the Eviction API,
which asks PodDisruptionBudgets. Passed by is who NoExecute need not end: admin access, pods of
DaemonSets, mirror pods, and pods that tolerate NoExecute as the eviction controller reads it. The
clock of `evict.within` starts with the first attempt and is stored in the incident. It runs while
somebody is there and nothing holds the evictions back, so that pods always get the whole time. A
shared claim can be joined under NoSchedule: whoever joins later is a round of its own. Pure.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from exporter.device import Device
from remediator.decide.case import Case, Desired
from remediator.judge.fault import Unknown
from remediator.objects.claims import ADMIN, EXTENDED_RESOURCE, Claim, reserved, tolerated_for
from remediator.objects.incident import EVICTION_BLOCKED, Condition, Incident, PodHold
from remediator.objects.pods import PodFacts
from remediator.objects.taints import Rule

ROUNDS = 3
"""Rounds of evictions, each for pods that joined a claim after the one before. Then a user looks:
whoever makes these pods does not know that the device is tainted."""
PassedBy = Literal["DaemonSet", "MirrorPod"]
PASSED_BY: Mapping[PassedBy, str] = {"DaemonSet": "pod of a DaemonSet", "MirrorPod": "mirror pod"}
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
    here, by_device = tuple(pods or ()), {rule.device: rule for rule in rules}
    if not by_device:
        return {}
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
    wanted = {rule.device for rule in desired.rules if rule.effect == "Evict"}
    return {
        str(rule.device): rule
        for rule in case.rules
        if rule.effect == "Evict" and rule.device in wanted & set(desired.evicting)
    }


def moved(desired: Desired) -> frozenset[Device]:
    """Return the devices that are to be emptied now: under NoExecute, or evicted from."""
    return frozenset(
        rule.device
        for rule in desired.rules
        if rule.effect == "NoExecute"
        or (rule.effect == "Evict" and rule.device in desired.evicting)
    )


def to_request(case: Case, desired: Desired, now: datetime) -> tuple[PodHold, ...]:
    """Return the pods of whom an eviction is to be requested, each once."""
    if desired.rounds > ROUNDS:
        return ()
    rules = in_force(case, desired)
    there = _there(case, rules)
    found = {hold.uid: hold for hold in there if not _passed_by(case, hold, rules, now)}
    return tuple(found.values())


def resumes(case: Case, story: Incident, devices: Collection[Device], now: datetime) -> bool:
    """Whether evictions would begin anew on devices under `Evict`, so that a budget is asked."""
    rules = {
        str(rule.device): rule
        for rule in case.rules
        if rule.effect == "Evict" and rule.device in devices
    }
    over = story.status.evicting_at is not None and story.status.eviction_start_time is None
    return over and any(not _passed_by(case, hold, rules, now) for hold in _there(case, rules))


def noted(case: Case, desired: Desired, now: datetime, *, frozen: bool) -> Desired:
    """Return a wish with what the incident is to say of its evictions.

    Not knowing stops no clock, and starts none. A hold ends it, so that it starts anew.
    """
    if desired.incident is None:
        return desired
    old, known = desired.incident.status, _blocked(desired.incident.status.conditions)
    rules = in_force(case, desired)
    unknown = isinstance(case.verdict, Unknown) or bool(case.no_disruption) or case.pods is None
    # Once nobody is left under NoExecute the time is over: the next slice gets all of its own.
    if unknown or (not rules and _there(case, _no_execute(desired), terminating=True)):
        return msgspec.structs.replace(
            desired,
            evicting_since=old.eviction_start_time,
            rounds=old.eviction_rounds,
            blocked=known if unknown else "",
        )
    held = frozen or (bool(desired.held) and desired.held_by != "Budget")
    there = () if held else _there(case, rules, terminating=True)
    if not there:
        return msgspec.structs.replace(desired, rounds=old.eviction_rounds)
    told = msgspec.structs.replace(
        desired, evicting_since=old.eviction_start_time or now, rounds=_round(case, desired, now)
    )
    return msgspec.structs.replace(told, blocked=_in_the_way(case, told, rules, now))


def _no_execute(desired: Desired) -> dict[str, Rule]:
    return {str(rule.device): rule for rule in desired.rules if rule.effect == "NoExecute"}


def _blocked(conditions: Iterable[Condition]) -> str:
    found = (one for one in conditions if one.type == EVICTION_BLOCKED and one.status == "True")
    return next((one.message for one in found), "")


def _there(
    case: Case, rules: Mapping[str, Rule], *, terminating: bool = False
) -> tuple[PodHold, ...]:
    """Return who holds a device with a running pod; admin access uses nothing."""
    if not rules:
        return ()
    pods = {pod.uid: pod for pod in case.pods or () if pod.running}
    return tuple(
        hold
        for hold in case.holds
        if hold.device in rules
        and hold.via != ADMIN
        and hold.uid in pods
        and (terminating or not pods[hold.uid].terminating)
    )


def is_passed_by(case: Case, uid: str) -> PassedBy | None:
    """Return which kind of pod it is of which no eviction is ever requested, None for others."""
    pod = next((one for one in case.pods or () if one.uid == uid), None)
    if pod is not None and pod.owner.startswith("DaemonSet/"):
        return "DaemonSet"
    return "MirrorPod" if pod is not None and pod.mirror else None


def _passed_by(case: Case, hold: PodHold, rules: Mapping[str, Rule], now: datetime) -> str:
    """Return why no eviction is requested of a pod, "" when it is."""
    if kind := is_passed_by(case, hold.uid):
        return PASSED_BY[kind]
    if hold.via == EXTENDED_RESOURCE:
        return ""
    held = [one.device for one in case.holds if one.uid == hold.uid and one.device in rules]
    return (
        "tolerates NoExecute"
        if all(_tolerates(case, hold, rules[one], now) for one in held)
        else ""
    )


def _tolerates(case: Case, hold: PodHold, rule: Rule, now: datetime) -> bool:
    """Whether a pod tolerates a device's taint still, counted from when it is evicted from."""
    lasting = case.tolerations.get((hold.uid, str(rule.device)))
    if lasting is None or lasting == FOR_EVER:
        return lasting is not None
    return now - (rule.time_added or now) < lasting


def _round(case: Case, desired: Desired, now: datetime) -> int:
    """Return which round of evictions this is: one more where pods have joined since the last.

    Where not all pods can be listed nobody can tell who is new.
    """
    story = desired.incident
    if story is None:
        return 0
    old = story.status
    if old.hit_left_out or old.evicted_left_out:
        return max(old.eviction_rounds, 1)
    rules = in_force(case, desired)
    known = {one.uid for one in (*old.hit, *old.evicted)}
    named = {str(target.name) for target in story.status.scope.devices}
    new = any(
        hold.uid not in known and hold.device in named and not _passed_by(case, hold, rules, now)
        for hold in _there(case, rules)
    )
    begun = old.eviction_rounds
    return min(begun + 1, ROUNDS + 1) if new or not begun else begun


def _in_the_way(case: Case, desired: Desired, rules: Mapping[str, Rule], now: datetime) -> str:
    """Return which pods are left and why, once nothing but waiting is done about them."""
    plan, since = desired.evict_plan, desired.evicting_since
    overdue = bool(plan and since and desired.goal == "Evict" and now - since >= plan.within)
    if not overdue and desired.rounds <= ROUNDS:
        return ""
    pods = {pod.uid: pod for pod in case.pods or ()}
    there = {hold.uid: hold for hold in _there(case, rules)}
    said: list[str] = []
    for hold in sorted(there.values()):
        ready = "Ready" if pods[hold.uid].ready else "not Ready"
        why = _passed_by(case, hold, rules, now) or case.refusals.get(hold.uid, "no answer yet")
        said.append(f"{hold.namespace}/{hold.pod} ({ready}): {why}")
    if not said:
        return ""
    more = f"; and {len(said) - NAMED} more" if len(said) > NAMED else ""
    joined = desired.rounds > ROUNDS
    first = (
        f"pods have joined a claim in more than {ROUNDS} rounds of evictions: " if joined else ""
    )
    return first + "; ".join(said[:NAMED]) + more
