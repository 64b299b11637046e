"""Which pods the Eviction API evicts, which NoExecute does not reach, and which are passed by.

It passes by pods that NoExecute need not end: admin access, pods of DaemonSets, mirror pods, pods
that another system must drain (`pods`), and pods that tolerate NoExecute as the eviction controller
reads it. Pure.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

from remediator.model.claim import (
    ADMIN,
    EXTENDED_RESOURCE,
    Claim,
    pods_reserved_for,
    toleration_time,
)
from remediator.model.incident_status import AffectedPod
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import Rule
from remediator.plan.board import Board
from remediator.plan.pods import DRAINERS, drainer, drainer_of
from remediator.plan.stages import Granted
from remediator.policy.table import Evict

PassedBy = Literal["DaemonSet", "MirrorPod", "NodeSet"]
PASSED_BY: Mapping[PassedBy, str] = {
    "DaemonSet": "pod of a DaemonSet",
    "MirrorPod": "mirror pod",
    **{found.word: f"{found.what}: {found.remedy}" for found in DRAINERS.values()},
}
"""Kinds of pods of which no eviction is ever requested, in words."""
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
            lasting = toleration_time(result.tolerations, rule.key, rule.cause) if rule else None
            if lasting is None:
                continue
            for _, uid in pods_reserved_for(claim, here):
                key = uid, str(result.name)
                found[key] = min(lasting, found.get(key, lasting))
    return found


def in_force(board: Board, granted: Granted) -> dict[str, Rule]:
    """Return the stored rules whose pods are evicted by the Eviction API now, by device."""
    desired = {rule.device for rule in granted.rules if rule.effect == "Evict"}
    return {
        str(rule.device): rule
        for rule in board.rules.stored
        if rule.effect == "Evict" and rule.device in desired & set(granted.evicts)
    }


def pods_not_reached(board: Board, granted: Granted) -> list[AffectedPod]:
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
    return frozenset(pod.uid for pod in (*here, *pods_not_reached(board, granted)))


def pods_on(
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


def skip_reason(board: Board, pod: AffectedPod, rules: Mapping[str, Rule], now: datetime) -> str:
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


def may_delete(plan: Evict | None) -> bool:
    """Whether pods are deleted that NoExecute should have reached (kubernetes#141290)."""
    return plan is not None and plan.then == "NoExecute" and plan.extended_resources == "delete"
