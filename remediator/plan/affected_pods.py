"""Pods affected by a fault beside those that NoExecute deletes: evicted ones and gang peers.

Pure.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from remediator.diagnose.fault import Unknown
from remediator.model.claim import EXTENDED_RESOURCE, GANG, Claim, compute_domain, reserved
from remediator.model.incident import AffectedPod
from remediator.model.pod import PodFacts
from remediator.plan import eviction_requests
from remediator.plan.case import Case, Desired
from remediator.plan.drained_elsewhere import drained_elsewhere
from remediator.plan.fleet import Fleet
from remediator.policy.table import Policy

LOOK_AGAIN, LOOK_AGAIN_BLOCKED = timedelta(seconds=5), timedelta(seconds=60)
"""Interval of looks while a pod is to be evicted: a PodDisruptionBudget may have refused, and no
event reports when it allows. The controller limits how often the eviction is really requested."""


def moving(case: Case, desired: Desired, fleet: Fleet, policy: Policy, now: datetime) -> Desired:
    """Return what a budget has granted, with the pods that are to be evicted for it."""
    if desired.incident is None and not case.rules:
        return desired
    frozen = fleet.stopped or policy.stopped or policy.pause(case.place, now)
    desired = eviction_requests.noted(case, desired, now, frozen=bool(frozen))
    evict = () if frozen else to_evict(case, desired, now)
    unseen = case.pods is None and (
        _missed(case, desired) or eviction_requests.in_force(case, desired)
    )
    if not (evict or unseen or desired.eviction.since):
        return desired
    again = now + (LOOK_AGAIN_BLOCKED if desired.eviction.blocked else LOOK_AGAIN)
    delete, plan = frozenset[str](), desired.eviction.plan
    if plan is not None and plan.then != "wait" and plan.extended_resources != "wait":
        # Pods that NoExecute would delete if it reached them.
        missed = {pod.uid for pod in _missed(case, desired)}
        delete = frozenset(pod.uid for pod in evict if pod.uid in missed)
    wake_at = min(desired.wake_at or again, again)
    eviction = msgspec.structs.replace(desired.eviction, pods=evict, delete=delete)
    return msgspec.structs.replace(desired, eviction=eviction, wake_at=wake_at)


def to_evict(case: Case, desired: Desired, now: datetime) -> tuple[AffectedPod, ...]:
    """Return the pods for which an eviction is requested, each once.

    These hold a device under `Evict`, or a NoExecute in force does not reach them. No pod is
    evicted while the state of the GPU or the pods of the node are unknown, or while disruption is
    deferred altogether: a budget has already granted what is stored.
    """
    missed = _missed(case, desired)
    unknown = isinstance(case.verdict, Unknown) or bool(case.no_disruption)
    if case.pods is None or unknown or desired.held_back:
        return ()
    missed += eviction_requests.to_request(case, desired, now)
    if not missed:
        return ()
    here = {pod.uid for pod in case.pods if pod.running and not pod.terminating}
    found = {affected.uid: affected for affected in missed if affected.uid in here}
    return tuple(found.values())


def _missed(case: Case, desired: Desired) -> list[AffectedPod]:
    """Return pods on a device under a stored, still desired NoExecute that does not reach them.

    The eviction controller walks `spec.resourceClaims` only and skips a claim that stands for an
    extended resource (kubernetes#141290). Such a pod has no way to tolerate a taint. One that
    another system drains is left to it. None is evicted that no fault has evicted now: a rule
    stands on a GPU that is healthy again, too.
    """
    desired_devices = {rule.device for rule in desired.rules if rule.effect == "NoExecute"}
    stored = {rule.device for rule in case.rules if rule.effect == "NoExecute"}
    in_force = {str(device) for device in stored & desired_devices & set(desired.eviction.devices)}
    return [
        pod
        for pod in case.affected
        if pod.via == EXTENDED_RESOURCE
        and pod.device in in_force
        and not drained_elsewhere(case, pod.uid)
    ]


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
        for pod, uid in reserved(claim, pods)
        if uid
    ]
    domains = {domain: losing[uid] for domain, _, _, uid in members if uid in losing}
    for domain, claim, pod, uid in members:
        if domain in domains:
            where = claim.metadata.namespace
            yield AffectedPod(where, pod, claim.metadata.name, domains[domain], uid, GANG)
