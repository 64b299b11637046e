"""Which Events pods and their claims get: why they wait, and that they do not any more. Pure.

The rights of one namespace show no nodes and devices, so these are the answer there. One
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
    since: datetime
    """When this was the news: later, the same again is another Event."""
    note: str
    type: Literal["Normal", "Warning"] = "Warning"
    """Normal: the wait is over."""


class _News(msgspec.Struct, frozen=True):
    """The last news about a pod."""

    waits_for: str
    """"": it waits no more."""
    since: datetime
    events: tuple[TenantEvent, ...]


class _Known(msgspec.Struct, frozen=True):
    """What is remembered of a pod."""

    news: _News | None = None
    since: datetime | None = None
    """Since when it is seen to wait for what its last Warning does not say, whatever that was."""
    on_node: bool = False
    """Whether it had a node then: it waited for the kubelet, before for the scheduler."""


_NOTHING = _Known()


class Reporter:
    """Remembers the last news about each pod, and yields it at each look.

    Who posts them posts each once, and tries again what was refused or had no room. A pod has to
    wait for some time in this memory, so one that has just begun yields no Warning at once, then
    all that hold, and no end of a wait that ended before.
    """

    def __init__(self, after: timedelta) -> None:
        self._after = after
        self._known: dict[str, _Known] = {}
        """By the UID of the pod."""

    def look(
        self,
        pods: Iterable[Pod],
        claims: Mapping[str, Claim],
        findings: Mapping[str, Finding],
        now: datetime,
    ) -> Iterator[TenantEvent]:
        """Yield the news about all pods; those that are gone are forgotten."""
        alive: dict[str, _Known] = {}
        yielded = set[tuple[str, str, str]]()
        for pod in pods:
            uid = pod.metadata.uid
            finding, known = findings.get(uid), self._known.get(uid, _NOTHING)
            if pod.status.phase in _ENDED | {"Running"}:
                known = _Known(_end(pod, known.news, claims, now))
            elif finding is not None:
                known = self._wait(pod, finding, known, claims, now)
            if known == _NOTHING:
                continue
            alive[uid] = known
            for event in known.news.events if known.news else ():
                # Pods that share a claim are one reason for one Event on it.
                key = (event.uid, event.reason, event.waits_for)
                if key not in yielded:
                    yielded.add(key)
                    yield event
        self._known = alive

    def _wait(
        self, pod: Pod, finding: Finding, known: _Known, claims: Mapping[str, Claim], now: datetime
    ) -> _Known:
        """Return what is known of a pod that waits: with another Warning where one is due.

        The reason may change at each look, so the whole wait counts, and the Warning says the last.
        """
        reported = finding.layer in REPORTED or finding.reason == "CdiDeviceMissing"
        if not reported or finding.reason in NO_PROBLEM:
            return known
        news, since, on_node = known.news, now, bool(pod.spec.node_name)
        same = news is not None and news.waits_for == finding.reason
        if not same and known.since and known.on_node == on_node:
            since = min(known.since, now)
        early = news is not None and timedelta() <= now - news.since < (AGAIN if same else QUIET)
        if early or not (same or now - since >= self._after):
            return _Known(news, None if same else since, on_node)
        advice = f"; {finding.todo[0]}" if finding.todo else ""
        events = _events(
            pod,
            claims,
            reason=f"WaitsIn{finding.layer}",
            waits_for=finding.reason,
            note=f"{finding.reason}: {finding.message}{advice}",
            since=now,
        )
        return _Known(_News(finding.reason, now, tuple(events)))


def _end(
    pod: Pod, before: _News | None, claims: Mapping[str, Claim], now: datetime
) -> _News | None:
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
        since=now,
    )
    return _News("", now, tuple(events))


def as_object(
    event: TenantEvent, now: datetime, labels: Mapping[str, str]
) -> tuple[str, dict[str, object]]:
    """Return the namespace and the object of an Event, as events.k8s.io/v1 has it.

    Its name is of the reason and a span of time: a Reporter that begins anew does not repeat what
    was just posted, and of one Reporter each Warning has another name.
    """
    span = int(event.since.timestamp() // QUIET.total_seconds())
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
        key=f"{event.waits_for} {span}",
    )
    return event.namespace, made


def _events(
    pod: Pod,
    claims: Mapping[str, Claim],
    *,
    reason: str,
    waits_for: str,
    note: str,
    since: datetime,
) -> Iterator[TenantEvent]:
    """Yield the Event on a pod, and the same on its claims."""
    meta, kind = pod.metadata, "Normal" if reason == "WaitIsOver" else "Warning"
    yield TenantEvent(
        "Pod", meta.namespace, meta.name, meta.uid, reason, waits_for, since, note, type=kind
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
                since,
                text,
                type=kind,
            )
