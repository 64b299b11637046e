"""A GPU about which nothing can be decided: it is unknown, and all stays as it stands.

Either this program fails on it, or its stored objects cannot be read. That costs this GPU its
decision and no other GPU theirs. What is tainted stays tainted and still counts against the
budgets, which are counted from what is stored. Pure.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec

from remediator.diagnose.fault import Unknown, attempt, or_unknown
from remediator.model.incident import IncidentStatus
from remediator.model.incident_caps import capped
from remediator.plan.case import Case, Desired
from remediator.plan.incident_conditions import STATE_UNKNOWN, condition
from remediator.plan.steps import WriteStatus
from remediator.plan.timeline import kernel


def undecided(case: Case, why: Unknown) -> tuple[Case, Desired]:
    """Return the case of a GPU with an answer that changes nothing about it."""
    blind = msgspec.structs.replace(case, verdict=why, gpu=None, leftovers=(), blank=why)
    return blind, Desired(uuid=case.uuid, rules=case.rules, reason=why.why, undecided=why)


def or_undecided(case: Case, answer: Callable[[], Desired]) -> tuple[Case, Desired]:
    """Return a case with its answer; where this program fails to give one, nothing changes."""
    desired = attempt(answer)
    return undecided(case, desired) if isinstance(desired, Unknown) else (case, desired)


@or_unknown
def bug_noted(case: Case, why: Unknown, now: datetime) -> list[WriteStatus]:
    """Return the step that records a bug in the GPU's incident, where it can be recorded there."""
    incident = next((candidate for candidate in case.incidents if candidate.open), None)
    # One that cannot be read as it is stored now cannot be written either.
    if incident is None or incident.node != case.node or not why.bug:
        return []
    status = _as_before(incident.status, why.why, now)
    return [WriteStatus(incident, status)] if status != incident.status else []


def _as_before(old: IncidentStatus, why: str, now: datetime) -> IncidentStatus:
    """Return the status of an incident about whose GPU nothing is decided: as before, and why.

    Health that was seen until now has a gap. Words that differ in figures only are no change.
    """
    known = next((stored for stored in old.conditions if stored.type == STATE_UNKNOWN), None)
    message = known.message if known and kernel(known.message) == kernel(why) else why
    unknown = condition(STATE_UNKNOWN, "ReportUnusable", message, known, now)
    others = (stored for stored in old.conditions if stored.type != STATE_UNKNOWN)
    new = msgspec.structs.replace(
        old,
        message=message,
        healthy_since=None,
        soak_confirmed_time=None,
        conditions=(*others, unknown),
    )
    return capped(new)
