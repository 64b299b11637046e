"""An incident whose status is empty is filled again from the rules that stand.

Opening an incident takes two writes: the object, then its status. A crash between them leaves an
empty status; so does a backup that is restored without it. The rules that stand name the GPU, class
and cause. The number of failures is counted from the GPU's other incidents, as always. What only
the status knew is taken at its worst: the soak starts over, and a confirmed repair must be
confirmed again. Pure.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from remediator.diagnose.fault import Unknown, faults_of
from remediator.model.incident import (
    Incident,
    IncidentStatus,
    SeenSignal,
    TimelineEntry,
    number_of,
)
from remediator.model.incident_caps import capped
from remediator.model.taint_rule import Rule
from remediator.plan import history, incident_spec, recovery, signals
from remediator.plan.case import Case
from remediator.plan.escalation import FRESH
from remediator.plan.steps import WriteStatus

NOTHING_LEFT = "nothing is tainted for it, and no fault that opens an incident is seen any more"
"""Why an incident ends of which nothing was written down."""


def leading_first(opened: tuple[Incident, ...], rules: Iterable[Rule]) -> tuple[Incident, ...]:
    """Return open incidents of one GPU, the leading one first: the oldest that has a status.

    An incident without a status may have been closed long ago, and users may have withdrawn their
    intents since. So of these the one with a standing rule leads, else the youngest.
    """
    ruled = {rule.incident for rule in rules}
    blank = [incident for incident in opened if incident.blank]
    blank.sort(key=lambda incident: (incident.name not in ruled, -number_of(incident.name)))
    return (*(incident for incident in opened if not incident.blank), *blank)


def restored(case: Case, blank: Incident, standing: tuple[Rule, ...], now: datetime) -> Incident:
    """Return an incident without a status, filled from the rules that stand.

    An error that was reported long ago is not new to it. Instances are numbered anew, so an old
    error must not be read as one of the instance that has its number now.
    """
    if not history.is_lost(blank, now):
        return incident_spec.adopted(case, blank, standing)
    found = incident_spec.adopted(
        case, blank, standing, (f"{history.LOST}filled again from the rules that stand",)
    )
    faults = faults_of(case.verdict) if standing else ()
    old = [fault.last_seen for fault in faults if abs(now - fault.last_seen) > FRESH]
    fresh = {
        fault.record for fault in faults if fault.record and abs(now - fault.last_seen) <= FRESH
    }
    keys = {(record.code, record.gi, record.ci, record.start) for record in fresh}
    known: tuple[SeenSignal, ...] = signals.seen(case, None) or ()
    status = msgspec.structs.replace(
        found.status,
        seen_through=max(old, default=None),
        seen_signals=tuple(signal for signal in known if signal.key not in keys) if old else None,
    )
    return msgspec.structs.replace(found, status=status)


def over(case: Case, blank: Incident, now: datetime) -> IncidentStatus:
    """Return the closing status of an incident without one, beside another of its GPU that leads.

    It was closed before: it still counts, and it is no duplicate.
    """
    status = restored(case, blank, (), now).status
    return msgspec.structs.replace(
        status, phase="Closed", phase_since=now, message=NOTHING_LEFT, closed_at=now
    )


def duplicate(incident: Incident, leading: Incident, now: datetime) -> IncidentStatus:
    """Return how a younger open incident of a GPU is closed in favour of the one that leads."""
    why = f"{leading.name} is the older incident of this GPU and continues"
    closed = msgspec.structs.replace(
        incident.status,
        phase="Closed",
        phase_since=now,
        message=why,
        rules=(),
        closed_at=now,
        duplicate_of=leading.name,
        timeline=(*incident.status.timeline, TimelineEntry(now, "Closed", why)),
    )
    return capped(closed)


def closings(
    case: Case, leading: Incident, duplicates: tuple[Incident, ...], now: datetime
) -> tuple[WriteStatus, ...]:
    """Return how younger incidents of the GPU are closed in favour of the one that leads."""
    if recovery.unseen_rules(case):
        return ()
    return tuple(
        WriteStatus(
            double, over(case, double, now) if double.blank else duplicate(double, leading, now)
        )
        for double in duplicates
    )


def ends(case: Case, *, empty: bool) -> str:
    """Return why an incident ends that has neither status nor rules nor faults."""
    unclear = isinstance(case.verdict, Unknown) or case.distrust or recovery.unseen_rules(case)
    return NOTHING_LEFT if empty and not unclear else ""
