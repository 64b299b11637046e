"""Pods that hold nothing of a GPU and yet stop when one of its holders does."""

from collections.abc import Iterable, Mapping

from remediator.model.claim import GANG, Claim, compute_domain, reserved
from remediator.model.incident import AffectedPod
from remediator.model.pod import PodFacts


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
