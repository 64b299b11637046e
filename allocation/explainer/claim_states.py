"""In which state each claim is, and for which reason. Pure.

A claim is as far as the pod that has come farthest with it. A claim that a pod names and that does
not exist is pending, too: it is what the pod waits for. So is what the scheduler still has to
allocate for a pod's extended resources.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, get_args

import msgspec

from allocation.layers.finding import Finding, WaitReason
from allocation.model.claims import Claim
from allocation.model.pods import EXTENDED_RESOURCES, Pod

State = Literal["Pending", "Allocated", "Binding", "Preparing", "Running", "Unused", "Deleting"]
"""`Allocated`: reserved for a pod group, or for pods that have ended. `Binding`: its pod has no
node yet. `Preparing`: its pod is on a node and does not run yet. `Unused`: allocated, and not
reserved."""
STATES: tuple[State, ...] = get_args(State)
WAITING: frozenset[State] = frozenset({"Pending", "Binding", "Preparing", "Deleting"})
MIXED = "mixed"
"""Class or driver of a claim that has several."""
POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim that was made from a template: its name within the pod."""
_ENDED = frozenset({"Succeeded", "Failed"})
_UNUSED: tuple[State, WaitReason, None] = ("Unused", "Unused", None)
Consumers = Mapping[str, Sequence[Pod]]
"""The pods that name a claim or have it reserved, by `namespace/name` of the claim."""


class ClaimState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    namespace: str
    name: str
    """Of the claim; "" for one that does not exist yet."""
    uid: str = ""
    pod: str = ""
    """Name of the pod that has come farthest with it."""
    pod_claim: str = ""
    """Its name within the pod: what stays when a template's claim is made anew."""
    device_class: str = ""
    driver: str = ""
    """Of its devices; "" while it has none."""
    state: State
    reason: WaitReason
    since: datetime | None = None
    """When it came into this state, as far as objects say it."""
    demanded: datetime | None = None
    """When it and its pod were there: one made by hand, or used again, is older than its pod."""
    allocated: datetime | None = None

    @property
    def key(self) -> str:
        """`namespace/name`, or `namespace/pod/claim in the pod`."""
        return f"{self.namespace}/{self.name or f'{self.pod}/{self.pod_claim}'}"


def consumers(pods: Iterable[Pod], claims: Mapping[str, Claim]) -> Consumers:
    """Return who uses each claim, of the pods that have not ended."""
    found: dict[str, list[Pod]] = {}
    by_uid: dict[str, Pod] = {}
    for pod in pods:
        if pod.status.phase in _ENDED:
            continue
        by_uid[pod.metadata.uid] = pod
        for key in pod.claim_keys():
            found.setdefault(key, []).append(pod)
    for key, claim in claims.items():
        for consumer in claim.status.reserved_for:
            pod = by_uid.get(consumer.uid)
            if pod is not None and pod not in found.get(key, ()):
                found.setdefault(key, []).append(pod)
    return found


def claim_states(
    claims: Mapping[str, Claim], users: Consumers, findings: Mapping[str, Finding]
) -> Iterator[ClaimState]:
    """Yield the state of each claim that exists; `findings` are by the UID of the pod."""
    for key, claim in claims.items():
        yield _state(claim, users.get(key, ()), findings)


def missing_claims(
    pods: Iterable[Pod],
    claims: Mapping[str, Claim],
    findings: Mapping[str, Finding],
    served: Container[str] = (),
) -> Iterator[ClaimState]:
    """Yield what pods without a node wait for that no claim stands for yet.

    `served` are the extended resources of DeviceClasses.
    """
    for pod in pods:
        meta, finding = pod.metadata, findings.get(pod.metadata.uid)
        if pod.spec.node_name or pod.status.phase in _ENDED or finding is None:
            continue
        names = pod.claim_names()
        made = pod.status.extended_resource_claim_status.resource_claim_name
        gone = [each for each, name in names.items() if f"{meta.namespace}/{name}" not in claims]
        missing = [each for each in gone if each != made]
        # The scheduler deletes the one that it made, and makes another: no status says so.
        none_made = not made or made in gone
        if none_made and any(name in served for name in pod.extended_resources()):
            missing.append(EXTENDED_RESOURCES)
        for each in missing:
            yield ClaimState(
                namespace=meta.namespace,
                name="",
                pod=meta.name,
                pod_claim=each,
                state="Pending",
                reason=finding.reason,
                since=meta.creation_timestamp,
            )


def _state(claim: Claim, users: Sequence[Pod], findings: Mapping[str, Finding]) -> ClaimState:
    meta, allocation = claim.metadata, claim.status.allocation
    pod = max(users, key=_progress, default=None)
    finding = findings.get(pod.metadata.uid) if pod else None
    created = (meta.creation_timestamp, pod.metadata.creation_timestamp if pod else None)
    demanded = max(filter(None, created), default=None)
    state, reason, since = _where(claim, pod, finding, demanded)
    return ClaimState(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        pod=pod.metadata.name if pod else "",
        pod_claim=meta.annotations.get(POD_CLAIM, ""),
        device_class=_one(
            {
                choice.device_class_name
                for request in claim.spec.devices.requests
                for choice in request.choices
            }
        ),
        driver=_one({each.driver for each in allocation.devices.results} if allocation else set()),
        state=state,
        reason=reason,
        since=since,
        demanded=demanded,
        allocated=allocation.allocation_timestamp if allocation else None,
    )


def _where(
    claim: Claim, pod: Pod | None, finding: Finding | None, demanded: datetime | None
) -> tuple[State, WaitReason, datetime | None]:
    """Return state, reason, and since when."""
    meta, allocation = claim.metadata, claim.status.allocation
    why: WaitReason = finding.reason if finding else "NotEvaluated"
    if meta.deletion_timestamp is not None:
        return "Deleting", "ClaimDeleting", meta.deletion_timestamp
    if allocation is None:
        return "Pending", why if pod else "NoPod", demanded
    if pod is None:
        return ("Allocated", "Reserved", None) if claim.status.reserved_for else _UNUSED
    if pod.spec.node_name and pod.status.phase == "Running":
        return "Running", why, None
    if pod.spec.node_name:
        scheduled = pod.condition("PodScheduled")
        return "Preparing", why, scheduled.last_transition_time if scheduled else None
    at = allocation.allocation_timestamp
    # What was allocated for an earlier pod is bound for this one since it is there.
    return "Binding", why, max(at, demanded) if at and demanded else at


def _progress(pod: Pod) -> tuple[bool, bool, str]:
    return pod.status.phase == "Running", bool(pod.spec.node_name), pod.metadata.name


def _one(names: set[str]) -> str:
    return MIXED if len(names) > 1 else next(iter(names), "")
