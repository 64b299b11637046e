"""One GPU: the status that its incident should read now, and the steps for that GPU alone.

The budget has been applied before. Where this program fails, nothing changes for the GPU, and its
incident records the bug. Pure.
"""

from datetime import datetime

import msgspec

from remediator.diagnose.fault import Unknown, or_unknown
from remediator.model.incident import Incident
from remediator.plan import adoption, incident_status, node_condition, recovery
from remediator.plan.api_words import mode_of
from remediator.plan.case import Case, Desired
from remediator.plan.emptied import Turned, turned
from remediator.plan.node_condition import HandoverOptions
from remediator.plan.steps import Step, WriteStatus, no_eviction_of_others, steps_of
from remediator.plan.undecided import undecided
from remediator.plan.view import NodeView
from remediator.plan.words import class_of
from remediator.policy.table import Policy


class GpuPlan(msgspec.Struct, frozen=True):
    """One GPU, with the steps for it alone."""

    case: Case
    desired: Desired
    steps: list[Step]
    closings: tuple[WriteStatus, ...] = ()
    turned: Turned = Turned()


def gpu_plan(  # noqa: PLR0917 - everything that a status rests on
    view: NodeView,
    case: Case,
    desired: Desired,
    policy: Policy,
    now: datetime,
    options: HandoverOptions,
    stopped: str,
) -> GpuPlan:
    """Return the steps of one GPU; where this program fails to give them, nothing changes."""
    plan = desired.undecided or _planned(view, case, desired, policy, now, options, stopped)
    if isinstance(plan, GpuPlan):
        return plan
    noted = _bug_noted(case, plan, now)
    kept = [] if isinstance(noted, Unknown) else noted  # the log reports the bug all the same
    same, nothing = undecided(case, plan)
    return GpuPlan(same, nothing, [*no_eviction_of_others(same), *kept])


@or_unknown
def _planned(  # noqa: PLR0917 - everything that a status rests on
    view: NodeView,
    case: Case,
    desired: Desired,
    policy: Policy,
    now: datetime,
    options: HandoverOptions,
    stopped: str,
) -> GpuPlan:
    if desired.incident is None:
        return GpuPlan(case, desired, steps_of(case, desired, None))
    closings = _closings(case, desired.incident, desired.duplicates, now)
    before = desired.incident.status
    calls = node_condition.called_since(view, ((case, desired),), now, options, stopped)
    called = calls.get(case.uuid)
    since = called.called if called else None
    deadline = called.deadline if called else None
    mode = policy.row(class_of(before.fault), case.place).mode
    if recovery.unseen_rules(case):
        # Nothing is called for now, and it is not known that nothing should be: it stays as it was.
        mode = mode_of(before.mode) or mode
        since, deadline = before.needs_since, before.deadline_start_time
    status = msgspec.structs.replace(
        incident_status.status(case, desired, mode, now),
        needs_since=since,
        deadline_start_time=deadline,
    )
    steps = steps_of(case, desired, status)
    return GpuPlan(case, desired, steps, closings, turned(before, status))


def _closings(
    case: Case, leading: Incident, duplicates: tuple[Incident, ...], now: datetime
) -> tuple[WriteStatus, ...]:
    """Return how younger incidents of the GPU are closed in favour of the one that leads."""
    if recovery.unseen_rules(case):
        return ()
    return tuple(
        WriteStatus(
            double,
            adoption.over(case, double, now)
            if double.blank
            else adoption.duplicate(double, leading, now),
        )
        for double in duplicates
    )


@or_unknown
def _bug_noted(case: Case, why: Unknown, now: datetime) -> list[WriteStatus]:
    """Return the step that records a bug in the GPU's incident, where it can be recorded there."""
    incident = next((candidate for candidate in case.incidents if candidate.open), None)
    # One that cannot be read as it is stored now cannot be written either.
    if incident is None or incident.node != case.node or not why.bug:
        return []
    status = incident_status.unknown(incident.status, why.why, now)
    return [WriteStatus(incident, status)] if status != incident.status else []
