"""One GPU: the status that its incident should read now, and the steps for that GPU alone.

The budget has been applied before. Where this program fails, nothing changes for the GPU, and its
incident records the bug. Pure.
"""

from datetime import datetime

import msgspec

from remediator.diagnose.fault import Unknown, or_unknown
from remediator.model.incident import IncidentStatus
from remediator.plan import adoption, incident_status, recovery
from remediator.plan.api_words import mode_of
from remediator.plan.case import Case, Desired
from remediator.plan.due_repairs import called_since
from remediator.plan.emptied_rules import Turned, turned
from remediator.plan.node_condition import HandoverOptions
from remediator.plan.steps import Step, WriteStatus, no_eviction_of_others, steps_of
from remediator.plan.undecided_gpu import bug_noted, undecided
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
    same, nothing = undecided(case, plan)
    noted = bug_noted(case, plan, now)
    kept = [] if isinstance(noted, Unknown) else noted  # the log reports the bug all the same
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
    status = _status(view, case, desired, policy, now, options, stopped)
    steps = steps_of(case, desired, status)
    if desired.incident is None or status is None:
        return GpuPlan(case, desired, steps)
    closings = adoption.closings(case, desired.incident, desired.duplicates, now)
    return GpuPlan(case, desired, steps, closings, turned(desired.incident.status, status))


def _status(  # noqa: PLR0917 - everything that a status rests on
    view: NodeView,
    case: Case,
    desired: Desired,
    policy: Policy,
    now: datetime,
    options: HandoverOptions,
    stopped: str,
) -> IncidentStatus | None:
    """Return how the incident of a GPU should read now, None for a GPU that has none."""
    if desired.incident is None:
        return None
    before = desired.incident.status
    calls = called_since(view, ((case, desired),), now, stopped, calling=options.enabled)
    called = calls.get(case.uuid)
    since = called.called if called else None
    deadline = called.deadline if called else None
    mode = policy.row(class_of(before.fault), case.place).mode
    if recovery.unseen_rules(case):
        # Nothing is called for now, and it is not known that nothing should be: it stays as it was.
        mode = mode_of(before.mode) or mode
        since, deadline = before.needs_since, before.deadline_start_time
    elif desired.repair.stays:  # so does the mode, until the policies agree
        mode = "enforce"
    return msgspec.structs.replace(
        incident_status.status(case, desired, mode, now),
        needs_since=since,
        deadline_start_time=deadline,
    )
