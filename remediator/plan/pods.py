"""Pods that hold a device of a GPU, whether any is left, and whom another system has to drain.

An eviction kills what runs in a pod, and a system that scheduled work there may not know why. So
devices of such pods get NoSchedule and no more, and the incident says how to drain them. A pod of
which nothing is known may be one of them: NoExecute waits until every affected pod was looked at.

Drained means: no pod holds a claim on the devices, and no pod that did still runs; seen twice, some
time apart. A claim can be released while the processes of its pod live on, and a pod can be missing
from a list for a moment.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from exporter.model.device import Device
from remediator.model.claim import (
    ADMIN,
    GANG,
    Absent,
    Claim,
    compute_domain,
    pods_reserved_for,
    tolerations_in_words,
)
from remediator.model.incident import Incident
from remediator.model.incident_status import AffectedPod, IncidentStatus
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import Rule
from remediator.plan.board import Board
from remediator.plan.clocks import run
from remediator.plan.stages import Granted
from remediator.plan.words import some
from remediator.policy.duration import spell

GONE_AFTER = timedelta(minutes=2)
"""For how long the lists of the node's pods have lacked a pod that a claim is reserved for when it
counts as gone. Longer than the scheduler needs to bind it, or a cache to catch up."""
AWAITED = (
    "nothing if no such pod exists any more: NoExecute follows when the lists have lacked it for "
    f"{spell(GONE_AFTER)}"
)
REFUSED = "the remediator's log has the error: it needs the right to list pods"
DrainedBy = Literal["NodeSet"]


class Drainer(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of owner whose pods run the work of another system."""

    word: DrainedBy
    what: str
    """What the pods are."""
    effect: str
    """What an eviction would do."""
    remedy: str
    """What a user does instead."""


DRAINERS: Mapping[str, Drainer] = {
    "NodeSet.slinky.slurm.net": Drainer(
        word="NodeSet",
        what="pod of a Slinky NodeSet",
        effect="an eviction would kill its Slurm jobs without Slurm knowing",
        remedy=(
            "drain its node in Slurm: scontrol update nodename=NODE state=drain reason=REASON, or "
            "annotate the pod with nodeset.slinky.slurm.net/pod-cordon=true. Delete the pod when "
            "its jobs are done"
        ),
    ),
}
"""By kind and API group of a pod's controller."""


def drainer(pod: PodFacts) -> Drainer | None:
    """Return who drains a pod, None for a pod that may be evicted."""
    return DRAINERS.get(pod.owner_kind)


def drainer_of(board: Board, uid: str) -> Drainer | None:
    """Return who drains the pod of a UID while it runs, None for others."""
    # A claim may still be reserved for a pod that has ended: it has no work to drain.
    pods = (pod for pod in board.pods or () if pod.uid == uid and pod.running)
    return next((found for found in map(drainer, pods) if found), None)


def devices_drained_elsewhere(board: Board) -> frozenset[str]:
    """Return the devices that a pod holds, in any way, that another system drains."""
    return frozenset(pod.device for pod in board.users.holders if drainer_of(board, pod.uid))


def not_looked_at(board: Board) -> frozenset[str]:
    """Return the devices that are reserved for a pod of which nothing is known, or a group."""
    return frozenset(entry.device for entry in board.users.absent)


def why_not_yet(board: Board, devices: Collection[str]) -> str:
    """Return which pods on some devices are waited for, and what a user does about it."""
    unknown = _unknown_in_words(
        board, [entry for entry in board.users.absent if entry.device in devices]
    )
    return "; ".join(text for text in (drained_in_words(board, devices), *unknown) if text)


def drained_in_words(board: Board, devices: Collection[str]) -> str:
    """Return which pods on some devices another system drains, and what a user does about it."""
    here = [pod for pod in board.users.holders if pod.device in devices]
    parts = (
        f"{pods}: {found.what}, and {found.effect}. What to do: {found.remedy}"
        for found in DRAINERS.values()
        for own in ([pod for pod in here if drainer_of(board, pod.uid) == found],)
        if (pods := _names(f"{pod.namespace}/{pod.pod}" for pod in own))
    )
    return "; ".join(parts)


def _unknown_in_words(board: Board, entries: Collection[Absent]) -> list[str]:
    """Return of which pods nothing is known, why, and what ends it."""
    if not entries:
        return []
    without, ends = "are listed without it", AWAITED
    if board.pods is None:
        without, ends = "cannot be listed", REFUSED
    kinds = ((False, "its owner"), (True, "PodGroup, the owner of its pods"))
    parts = [
        f"{found}: {what} is not known, because the node's pods {without}"
        for group, what in kinds
        if (found := _names(f"{it.namespace}/{it.name}" for it in entries if it.group == group))
    ]
    parts[-1] += f". What to do: {ends}"
    return parts


def _names(found: Iterable[str]) -> str:
    return some(sorted(set(found)))


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
    status = incident.status
    if board.trust.refusal("disrupt"):
        # Whether pods hold the devices is unknown now. Devices that were found empty twice stay so.
        return run(
            "empty",
            status.eviction.empty_since if status.eviction.drained_at else None,
            now,
            fact=None,
        )
    watched = {str(device) for device in granted.emptying}
    # Under NoSchedule alone no device is emptied, and Drained then means that the whole scope is
    # unused.
    watched = watched or {str(target.name) for target in status.scope.devices}
    # Admin access may tolerate everything and stay for ever; it uses nothing.
    used = any(pod.device in watched and pod.via != ADMIN for pod in board.users.holders)
    # None is not False: pods that could not be listed are not gone.
    empty = not used and pods_left(board, incident) == ()
    return run("empty", status.eviction.empty_since, now, fact=empty)


def seen_twice(status: IncidentStatus, now: datetime) -> bool:
    """Whether the devices were empty already when they were last looked at, long enough ago."""
    return (
        status.eviction.empty_since is not None and now - status.eviction.empty_since >= SEEN_APART
    )


def look_again(board: Board, incident: Incident, now: datetime) -> datetime | None:
    """Return when to list the node's pods again: no event reports the end of a pod.

    The release of a claim is watched; until then there is nothing to look for.
    """
    since, status = incident.status.eviction.evicting_at, incident.status
    if since is None or status.eviction.drained_at or status.eviction.empty_since:
        return None
    names = {str(target.name) for target in incident.status.scope.devices}
    if any(pod.device in names and pod.via != ADMIN for pod in board.users.holders):
        return None
    return now + min(max((now - since) / 2, LOOK_AGAIN), LOOK_AGAIN_AT_LAST)


def pods_left(board: Board, incident: Incident) -> tuple[AffectedPod, ...] | None:
    """Return the pods that held a device and still run; None while they are unknown.

    One that is found now counts as it will once recorded: it may hold a name without eviction.
    """
    status = incident.status
    named = (*status.scope.affected, *status.eviction.evicted, *affected_in_scope(board, incident))
    # A gang peer holds nothing here, and admin access uses nothing.
    held = {affected for affected in named if affected.pod and affected.via not in (GANG, ADMIN)}
    # Before the pods: no list is needed to know that no pod ever held a device.
    if not held:
        return ()
    if board.pods is None:
        return None
    # By UID: a StatefulSet makes a pod anew under the name of one that has gone.
    running = {pod.uid for pod in board.pods if pod.running}
    return tuple(sorted(affected for affected in held if affected.uid in running))


def gang(
    holders: Iterable[AffectedPod], claims: Iterable[Claim], pods: Iterable[PodFacts] | None
) -> tuple[AffectedPod, ...]:
    """Return pods that hold nothing here and yet stop when a holder does, sorted.

    These are peers of the same PodGroup on this node, and pods on any node whose claims have a
    channel of the same ComputeDomain. Each carries the device that its peer is about to lose.
    """
    here = tuple(pods or ())
    losing = {affected.uid: affected.device for affected in holders if affected.uid}
    found = {*_of_pod_groups(losing, here), *_of_compute_domains(losing, tuple(claims), here)}
    return tuple(sorted(pod for pod in found if pod.uid not in losing))


def _of_pod_groups(losing: Mapping[str, str], pods: tuple[PodFacts, ...]) -> Iterable[AffectedPod]:
    groups = {
        (pod.namespace, pod.pod_group): losing[pod.uid]
        for pod in pods
        if pod.pod_group and pod.uid in losing
    }
    for pod in pods:
        device = groups.get((pod.namespace, pod.pod_group))
        if device is not None and pod.running:
            yield AffectedPod(pod.namespace, pod.name, "", device, pod.uid, GANG)


def _of_compute_domains(
    losing: Mapping[str, str], claims: tuple[Claim, ...], pods: tuple[PodFacts, ...]
) -> Iterable[AffectedPod]:
    members = [
        (domain, claim, pod, uid)
        for claim in claims
        if (domain := compute_domain(claim))
        for pod, uid in pods_reserved_for(claim, pods)
        # A claim that no known pod uses is listed with an empty UID: that is no peer.
        if uid
    ]
    domains = {domain: losing[uid] for domain, _, _, uid in members if uid in losing}
    for domain, claim, pod, uid in members:
        if domain in domains:
            where = claim.metadata.namespace
            yield AffectedPod(where, pod, claim.metadata.name, domains[domain], uid, GANG)


SETTLED = timedelta(seconds=30)
"""A scheduler that had chosen the device before it saw the taint writes no later than this, and its
clock is not further from the API server's."""


def claims_ignoring_taints(rules: Iterable[Rule], claims: Iterable[Claim]) -> tuple[str, ...]:
    """Return the claims, as `namespace/name`, that were given a device after it was tainted.

    Nothing is concluded where the scheduler does not write the time of the allocation, or the API
    server the time of the taint.
    """
    since = {
        rule.device: rule.time_added
        for rule in rules
        # The scheduler gives out a device with a taint of effect None, as it should.
        if rule.effect != "None" and rule.time_added is not None
    }
    if not since:
        return ()
    return tuple(
        sorted(
            f"{claim.metadata.namespace}/{claim.metadata.name}"
            for claim in claims
            if _ignores(claim, since)
        )
    )


def _ignores(claim: Claim, since: dict[Device, datetime]) -> bool:
    allocation = claim.status.allocation if claim.status else None
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    at = allocation.allocation_timestamp
    return any(
        result.name in since
        and at > since[result.name] + SETTLED
        # Any toleration of ours may be why it was given the device.
        and not tolerations_in_words(result.tolerations)
        for result in claim.results
    )


def why_pods_incomplete(board: Board) -> str:
    """Return why pods may be affected that the incident does not name."""
    # What is left of the row of `disrupt` without the clock, the policy and the place: claims. A
    # doubt about those defers an eviction, or makes the GPU Unknown, and hides no pod.
    if board.trust.refusal("disrupt") not in {
        "",
        board.trust.refusal("begin a call"),
    } and not board.trust.refusal("release"):
        return board.trust.refusal("disrupt")
    if board.pods is None:
        return "the pods of the node could not be listed"
    # A published GPU is given out by claims, which name their pods. What a device plugin gives out
    # only the kubelet knows.
    if board.presence.published:
        return ""
    plugged = sorted(
        f"{pod.namespace}/{pod.name}"
        for pod in board.pods
        if pod.running and pod.plugin_resources and not pod.extended_claim
    )
    if not plugged:
        return ""
    return f"the GPU is not published, so a device plugin may have given it to {some(plugged)}"
