"""What has happened to an incident between two stored versions of it, as counts and durations.

All times come from the stored incident, so a restart between two of them changes nothing. Only what
is new in the later version counts, so a version that was only read adds nothing. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from remediator.metrics.lifecycle import (
    CLASSES,
    DEFERRED_BY,
    EVICTION_REFUSED,
    OTHER,
    By,
    Result,
    Step,
)
from remediator.model.claim import EXTENDED_RESOURCE, GANG
from remediator.model.incident import Incident
from remediator.model.incident_status import AffectedPod, IncidentStatus
from remediator.plan.spared import Spared
from remediator.plan.status import EVICTION_REFUSED as REFUSED
from remediator.plan.status import REPAIR_DEFERRED
from serving.families import Labels

Pod = tuple[str, str, str]
"""Namespace, name, UID."""
Deferral = tuple[Step, str]
"""What was deferred, and why."""


class LifecycleEvent(msgspec.Struct, frozen=True):
    """One sample for a family of the table `lifecycle`."""

    family: str
    labels: Labels
    amount: float = 1.0
    """Of a counter how much more, of a histogram the seconds that are observed."""


def opening_events(incident: Incident) -> Iterable[LifecycleEvent]:
    """Report an incident that was created."""
    return [LifecycleEvent("incidents_opened", (_class(incident),))]


def change_events(
    before: Incident, after: Incident, spared: Spared = ()
) -> Iterator[LifecycleEvent]:
    """Report a status that was written over the one before it.

    `spared` are the pods that are left alone, where an eviction begins with it.
    """
    fault, old, new = _class(after), before.status, after.status
    if old.history.closed_at is None and new.history.closed_at is not None:
        yield LifecycleEvent("incidents_closed", (fault, _result(new)))
    for family, seconds in _durations(after, old, new):
        if seconds is not None:
            yield LifecycleEvent(family, (fault,), max(seconds, 0.0))
    for by, pods in _count_evicted(old, new).items():
        yield LifecycleEvent("pods_evicted", (fault, by), float(pods))
    if old.eviction.evicting_at is None and new.eviction.evicting_at is not None:
        for reason, pods in spared:
            yield LifecycleEvent("pods_spared", (fault, reason), float(pods))
    for step, reason in sorted(_deferrals(new) - _deferrals(old)):
        yield LifecycleEvent("deferrals", (step, reason))
        if step == "Eviction":
            # Each pod counts once. Gang peers would not be evicted, so they do not count.
            affected = {_pod(pod) for pod in new.scope.affected if pod.pod and pod.via != GANG}
            if count := len(affected) + new.scope.affected_left_out:
                yield LifecycleEvent("pods_deferred", (reason,), float(count))


def _durations(
    incident: Incident, old: IncidentStatus, new: IncidentStatus
) -> Iterator[tuple[str, float | None]]:
    """Yield each duration that ends with the new status, None where its start is not known."""
    # Every device is tainted now and none was before, in one and the same mode, and rules served.
    tainted_before = (
        any(rule.effect != "None" for rule in old.scope.rules)
        or old.eviction.tainted_at is not None
    )
    possible = old.policy.mode in ("", new.policy.mode) and (
        "Taint",
        "RulesNotServed",
    ) not in _deferrals(old)
    if new.eviction.tainted_at is not None and possible and not tainted_before:
        yield (
            "time_to_taint_seconds",
            _seconds_between(_first_signal(old, new), new.eviction.tainted_at),
        )
    if old.eviction.drained_at is None and new.eviction.drained_at is not None:
        yield (
            "time_to_drain_seconds",
            _seconds_between(
                new.eviction.evicting_at or new.eviction.tainted_at, new.eviction.drained_at
            ),
        )
    if (
        old.history.closed_at is None
        and new.history.closed_at is not None
        and _result(new) == "Recovered"
    ):
        opening = incident.metadata.creation_timestamp or _first_entry(new)
        yield "time_to_repair_seconds", _seconds_between(opening, new.history.closed_at)


def _first_signal(old: IncidentStatus, new: IncidentStatus) -> datetime | None:
    """Return when the fault was first seen; None for rules that were found without an incident.

    If the node's clock is ahead, that is later than our first entry, whose time is used then.
    """
    signals = [at for at in (old.fault.seen_through, new.fault.seen_through) if at is not None]
    if not signals:
        return None
    first = _first_entry(new)
    return min([*signals, first] if first else signals)


def _first_entry(status: IncidentStatus) -> datetime | None:
    return status.timeline[0].time if status.timeline else None


def _seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() if start is not None and end is not None else None


def _class(incident: Incident) -> str:
    fault = incident.status.fault.fault_class
    return fault if fault in CLASSES else OTHER


def _result(status: IncidentStatus) -> Result:
    if status.history.duplicate_of:
        return "Duplicate"
    return "Recovered" if status.phase == "Recovered" else "Closed"


def _count_evicted(old: IncidentStatus, new: IncidentStatus) -> Counter[By]:
    """Count the pods that are new among the evicted ones, each once; beyond the limit by entry."""
    known = {_pod(pod) for pod in old.eviction.evicted}
    requested = {rule.device for rule in old.scope.rules if rule.effect == "Evict"}
    fresh = [pod for pod in new.eviction.evicted if _pod(pod) not in known]
    # Pods of these devices and of extended resources are evicted by the Eviction API.
    found: dict[Pod, By] = {
        _pod(pod): "EvictionAPI"
        if pod.via == EXTENDED_RESOURCE or pod.device in requested
        else "NoExecute"
        for pod in fresh
    }
    counted = Counter(found.values())
    counted["NoExecute"] += max(new.eviction.evicted_left_out - old.eviction.evicted_left_out, 0)
    # `+` leaves out what is 0.
    return +counted


def _pod(pod: AffectedPod) -> Pod:
    return pod.namespace, pod.pod, pod.uid


def _deferrals(status: IncidentStatus) -> set[Deferral]:
    """Return what is deferred: the taint while no rule taints yet, else the eviction."""
    stands = {
        condition.type: condition.reason
        for condition in status.conditions
        if condition.status == "True"
    }
    tainted = any(rule.effect != "None" for rule in status.scope.rules)
    found: set[Deferral] = set()
    if "Deferred" in stands:
        found.add(("Eviction" if tainted else "Taint", stands["Deferred"]))
    if REPAIR_DEFERRED in stands:
        found.add(("Repair", stands[REPAIR_DEFERRED]))
    if REFUSED in stands:
        found.add(("Eviction", EVICTION_REFUSED))
    return {(step, why) for step, why in found if why in DEFERRED_BY}
