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
    waits_for: str
    """The reason of the wait: the same one is the same Event, whatever its figures are."""
    note: str
    type: Literal["Normal", "Warning"] = "Warning"
    """Normal: the wait is over."""


class _Current(msgspec.Struct, frozen=True):
    """The last news about a pod."""

    waits_for: str
    since: datetime
    events: tuple[TenantEvent, ...]


class Reporter:
    """Remembers the last news about each pod, and yields it at each look.

    Who posts them posts each once, and tries again what was refused or had no room.
    """

    def __init__(self, after: timedelta) -> None:
        self._after = after
        self._current: dict[str, _Current] = {}
        """By the UID of the pod."""

    def look(
        self,
        pods: Iterable[Pod],
        claims: Mapping[str, Claim],
        findings: Mapping[str, Finding],
        now: datetime,
    ) -> Iterator[TenantEvent]:
        """Yield the news about all pods; those that are gone are forgotten."""
        alive: dict[str, _Current] = {}
        for pod in pods:
            finding, before = findings.get(pod.metadata.uid), self._current.get(pod.metadata.uid)
            # Without a finding it was not explained at this look.
            current = self._news(pod, finding, before, claims, now) if finding else before
            if current is not None:
                alive[pod.metadata.uid] = current
                yield from current.events
        self._current = alive

    def _news(
        self,
        pod: Pod,
        finding: Finding,
        before: _Current | None,
        claims: Mapping[str, Claim],
        now: datetime,
    ) -> _Current | None:
        waited_for = before.waits_for if before else ""
        if pod.status.phase == "Running":
            if not waited_for:
                over = before is not None and now - before.since < QUIET
                return before if over else None
            note = f"{finding.message}; it waited for {waited_for}"
            return _Current("", now, tuple(_events(pod, claims, "Running", waited_for, note)))
        since = finding.since or pod.metadata.creation_timestamp
        reported = finding.layer in REPORTED or finding.reason == "CdiDeviceMissing"
        due = since is not None and now - since >= self._after
        quiet = before is not None and now - before.since < QUIET
        if not (reported and due) or quiet or finding.reason in {waited_for, *NO_PROBLEM}:
            return before
        advice = f"; {finding.todo[0]}" if finding.todo else ""
        note = f"{finding.reason}: {finding.message}{advice}"
        events = _events(pod, claims, f"WaitsIn{finding.layer}", finding.reason, note)
        return _Current(finding.reason, now, tuple(events))


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
        key=event.waits_for,
    )
    return event.namespace, made


def _events(
    pod: Pod, claims: Mapping[str, Claim], reason: str, waits_for: str, note: str
) -> Iterator[TenantEvent]:
    """Yield the Event on a pod, and the same on its claims."""
    meta, kind = pod.metadata, "Normal" if reason == "Running" else "Warning"
    yield TenantEvent(
        "Pod", meta.namespace, meta.name, meta.uid, reason, waits_for, note, type=kind
    )
    for key in pod.claim_keys()[:MOST_CLAIMS]:
        if (claim := claims.get(key)) is not None:
            on, text = claim.metadata, f"pod {meta.name}: {note}"
            yield TenantEvent(
                "ResourceClaim", on.namespace, on.name, on.uid, reason, waits_for, text, type=kind
            )
