"""Which Events pods and their claims get: why they wait, and that they do not any more. Pure.

The rights of one namespace show no nodes and devices, so these are the answer there. One
Warning for each reason, and a Normal one at the end. What belongs to other namespaces is not named.
"""

from collections import Counter
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
AGAIN = timedelta(minutes=55)
"""An API server keeps Events for an hour: of a pod that still waits for the same, another one."""
_ENDED = frozenset({"Succeeded", "Failed"})
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
    again: int
    """How often it was to be repeated."""
    note: str
    type: Literal["Normal", "Warning"] = "Warning"
    """Normal: the wait is over."""


class _Current(msgspec.Struct, frozen=True):
    """The last news about a pod."""

    waits_for: str
    since: datetime
    events: tuple[TenantEvent, ...]
    again: int = 0


class Reporter:
    """Remembers the last news about each pod, and yields it at each look.

    Who posts them posts each once, and tries again what was refused or had no room. A reason has to
    last for some time in this memory, so a process that has just begun posts no Warning at once.
    """

    def __init__(self, after: timedelta) -> None:
        self._after = after
        self._current: dict[str, _Current] = {}
        """By the UID of the pod, as the next one."""
        self._reasons: dict[str, tuple[str, datetime]] = {}
        """Why a pod waits, and since when that is seen."""

    def look(
        self,
        pods: Iterable[Pod],
        claims: Mapping[str, Claim],
        findings: Mapping[str, Finding],
        now: datetime,
    ) -> Iterator[TenantEvent]:
        """Yield the news about all pods; those that are gone are forgotten."""
        alive: dict[str, _Current] = {}
        reasons: dict[str, tuple[str, datetime]] = {}
        yielded = set[tuple[str, str, str]]()
        for pod in pods:
            uid = pod.metadata.uid
            finding, before = findings.get(uid), self._current.get(uid)
            seen = self._reasons.get(uid)
            if finding is not None:
                same = seen is not None and seen[0] == finding.reason
                reasons[uid] = seen if seen and same else (finding.reason, now)
            elif seen is not None:
                reasons[uid] = seen
            if pod.status.phase in _ENDED | {"Running"}:
                current = _end(pod, before, claims, now)
            elif finding is not None:
                lasts = now - reasons[uid][1]
                current = self._news(pod, finding, before, claims=claims, lasts=lasts, now=now)
            else:
                current = before  # it was not explained at this look
            if current is None:
                continue
            alive[uid] = current
            for event in current.events:
                # Pods that share a claim are one reason for one Event on it.
                key = (event.uid, event.reason, event.waits_for)
                if key not in yielded:
                    yielded.add(key)
                    yield event
        self._current, self._reasons = alive, reasons

    def _news(
        self,
        pod: Pod,
        finding: Finding,
        before: _Current | None,
        *,
        claims: Mapping[str, Claim],
        lasts: timedelta,
        now: datetime,
    ) -> _Current | None:
        reported = finding.layer in REPORTED or finding.reason == "CdiDeviceMissing"
        if not reported or finding.reason in NO_PROBLEM or lasts < self._after:
            return before
        same = before is not None and before.waits_for == finding.reason
        if before is not None and timedelta() <= now - before.since < (AGAIN if same else QUIET):
            return before
        again = before.again + 1 if before and same else 0
        advice = f"; {finding.todo[0]}" if finding.todo else ""
        note = f"{finding.reason}: {finding.message}{advice}"
        reason = f"WaitsIn{finding.layer}"
        events = _events(
            pod, claims, reason=reason, waits_for=finding.reason, note=note, again=again
        )
        return _Current(finding.reason, now, tuple(events), again)


def _end(
    pod: Pod, before: _Current | None, claims: Mapping[str, Claim], now: datetime
) -> _Current | None:
    """Return that a pod runs, or has run, that was warned: for a while, until it is posted."""
    if before is None or not before.waits_for:
        return before if before and timedelta() <= now - before.since < QUIET else None
    where = f" on {pod.spec.node_name}" if pod.spec.node_name else ""
    runs = "it runs" if pod.status.phase == "Running" else f"it has ended ({pod.status.phase})"
    note = f"{runs}{where}; it waited for {before.waits_for}"
    events = _events(
        pod,
        claims,
        reason="WaitIsOver",
        waits_for=before.waits_for,
        note=note,
        again=before.again,
    )
    return _Current("", now, tuple(events))


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
        key=f"{event.waits_for} {event.again}",
    )
    return event.namespace, made


def _events(
    pod: Pod,
    claims: Mapping[str, Claim],
    *,
    reason: str,
    waits_for: str,
    note: str,
    again: int,
) -> Iterator[TenantEvent]:
    """Yield the Event on a pod, and the same on its claims."""
    meta, kind = pod.metadata, "Normal" if reason == "WaitIsOver" else "Warning"
    yield TenantEvent(
        "Pod", meta.namespace, meta.name, meta.uid, reason, waits_for, again, note, type=kind
    )
    for key in pod.claim_keys()[:MOST_CLAIMS]:
        if (claim := claims.get(key)) is not None:
            on, text = claim.metadata, f"pod {meta.name}: {note}"
            yield TenantEvent(
                "ResourceClaim",
                on.namespace,
                on.name,
                on.uid,
                reason,
                waits_for,
                again,
                text,
                type=kind,
            )


def in_turn(events: Iterable[TenantEvent]) -> list[TenantEvent]:
    """Return the Events of all namespaces by turns: none takes the room of the others."""
    before = Counter[str]()
    ranked: list[tuple[int, TenantEvent]] = []
    for event in events:
        ranked.append((before[event.namespace], event))
        before[event.namespace] += 1
    return [event for _, event in sorted(ranked, key=lambda entry: entry[0])]
