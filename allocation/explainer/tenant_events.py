"""Which Events pods and their claims get: why they wait, and that they do not any more. Pure.

With the rights of one namespace nobody sees nodes and devices, so these are the answer there. One
Warning for each reason, and a Normal one at the end. What belongs to other namespaces is not named.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from allocation.layers.finding import Finding, Layer, WaitReason
from allocation.model.claims import Claim
from allocation.model.pods import Pod
from kubeapi.event import Regarding, Source, event_object

SOURCE = Source("draguard.dev/explainer", "draguard-explainer", "Explain")
QUIET = timedelta(minutes=10)
"""Between two Warnings for one pod: reasons may change with each pod that ends."""
MOST_CLAIMS = 4
"""Of one pod that get its Event."""
REPORTED: frozenset[Layer] = frozenset(
    {"Admission", "Scheduling", "Allocation", "Binding", "Preparation", "Device"}
)
"""The kubelet reports what the container runtime does."""
NO_PROBLEM: frozenset[WaitReason] = frozenset({"SchedulingGated", "Allocatable"})
"""A queue lets its pods wait, and says so itself; and what is about to be scheduled."""


class TenantEvent(msgspec.Struct, frozen=True):
    """One Event on one object."""

    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    note: str
    type: Literal["Normal", "Warning"] = "Warning"
    """Normal: the wait is over."""


class _Posted(msgspec.Struct, frozen=True):
    reason: str
    at: datetime


class Reporter:
    """Remembers what each pod was sent."""

    def __init__(self, after: timedelta) -> None:
        self._after = after
        self._posted: dict[str, _Posted] = {}
        """By the UID of the pod."""

    def look(
        self,
        pods: Iterable[Pod],
        claims: Mapping[str, Claim],
        findings: Mapping[str, Finding],
        now: datetime,
    ) -> Iterator[TenantEvent]:
        """Yield what is new about pods; those that are gone are forgotten."""
        alive: dict[str, _Posted] = {}
        for pod in pods:
            uid, finding = pod.metadata.uid, findings.get(pod.metadata.uid)
            before = self._posted.get(uid)
            if finding is None:
                # Not explained at this look.
                if before is not None:
                    alive[uid] = before
                continue
            news = self._news(pod, finding, before, now)
            if news is not None:
                before = _Posted(finding.reason, now) if news.type == "Warning" else None
                yield news
                yield from _on_claims(pod, claims, news)
            if before is not None:
                alive[uid] = before
        self._posted = alive

    def _news(
        self, pod: Pod, finding: Finding, before: _Posted | None, now: datetime
    ) -> TenantEvent | None:
        if pod.status.phase == "Running":
            if before is None:
                return None
            note = f"{finding.message}; it waited for {before.reason}"
            return _of(pod, "Running", note, "Normal")
        since = finding.since or pod.metadata.creation_timestamp
        reported = finding.layer in REPORTED or finding.reason == "CdiDeviceMissing"
        if not reported or finding.reason in NO_PROBLEM:
            return None
        if since is None or now - since < self._after:
            return None
        if before is not None and (before.reason == finding.reason or now - before.at < QUIET):
            return None
        advice = f"; {finding.todo[0]}" if finding.todo else ""
        note = f"{finding.reason}: {finding.message}{advice}"
        return _of(pod, f"WaitsIn{finding.layer}", note, "Warning")


def as_object(
    event: TenantEvent, now: datetime, labels: Mapping[str, str]
) -> tuple[str, dict[str, object]]:
    """Return the namespace and the object of an Event, as events.k8s.io/v1 has it."""
    regarding = Regarding(
        api_version="v1" if event.kind == "Pod" else "resource.k8s.io/v1",
        kind=event.kind,
        name=event.name,
        uid=event.uid,
        namespace=event.namespace,
    )
    made = event_object(
        regarding,
        SOURCE,
        reason=event.reason,
        note=event.note,
        kind=event.type,
        at=now,
        namespace=event.namespace,
        labels=labels,
    )
    return event.namespace, made


def _of(pod: Pod, reason: str, note: str, kind: Literal["Normal", "Warning"]) -> TenantEvent:
    meta = pod.metadata
    return TenantEvent("Pod", meta.namespace, meta.name, meta.uid, reason, note, kind)


def _on_claims(pod: Pod, claims: Mapping[str, Claim], news: TenantEvent) -> Iterator[TenantEvent]:
    """Yield the same on the claims of the pod."""
    for key in pod.claim_keys()[:MOST_CLAIMS]:
        claim = claims.get(key)
        if claim is not None:
            yield msgspec.structs.replace(
                news,
                kind="ResourceClaim",
                name=claim.metadata.name,
                uid=claim.metadata.uid,
                note=f"pod {pod.metadata.name}: {news.note}",
            )
