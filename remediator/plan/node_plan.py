"""The plans of a node's GPUs: each is decided alone, then cut to what all may do together.

Where this program fails on a GPU, `undecided_gpu` keeps it as it is, and the others go on. Pure.
"""

from datetime import datetime

import msgspec

from remediator.plan.affected_pods import moving
from remediator.plan.budget import budget
from remediator.plan.case import Case, Desired
from remediator.plan.cases import cases
from remediator.plan.disruption import deferred, until_drained
from remediator.plan.fleet import Fleet
from remediator.plan.gpu_decision import decided
from remediator.plan.gpu_plan import GpuPlan, gpu_plan
from remediator.plan.node_condition import HandoverOptions
from remediator.plan.undecided_gpu import or_undecided, undecided
from remediator.plan.view import NodeView
from remediator.policy.table import Policy


def gpu_plans(  # noqa: PLR0917 - everything that a decision rests on
    view: NodeView,
    fleet: Fleet,
    policy: Policy,
    now: datetime,
    options: HandoverOptions,
    stopped: str,
) -> list[GpuPlan]:
    """Return the plan of each GPU of a node."""
    plans = _planned(view, fleet, policy, now, options, stopped)
    if again := frozenset(rule for plan in plans for rule in plan.turned.filled):
        # What pods are under again counts in the caps at once, as it will once that is noted.
        fleet = msgspec.structs.replace(fleet, filled_again=again)
        plans = _planned(view, fleet, policy, now, options, stopped)
    return plans


def _planned(  # noqa: PLR0917 - everything that a decision rests on
    view: NodeView,
    fleet: Fleet,
    policy: Policy,
    now: datetime,
    options: HandoverOptions,
    stopped: str,
) -> list[GpuPlan]:
    granted = _granted(view, fleet, policy, now, calling=options.enabled)
    moved = (_moved(case, desired, fleet, policy, now) for case, desired in granted)
    return [gpu_plan(view, case, desired, policy, now, options, stopped) for case, desired in moved]


def _granted(
    view: NodeView, fleet: Fleet, policy: Policy, now: datetime, *, calling: bool
) -> list[tuple[Case, Desired]]:
    """Return every GPU with what should be so for it, cut to what may be done now."""
    known = [decided(case, policy, now) for case in cases(view, now, policy.disagrees)]
    known = [_or_deferred(case, desired, now) for case, desired in known]
    places = {case.uuid: case.place for case, _ in known}
    all_desired = (desired for _, desired in known)
    granted = budget(all_desired, fleet, policy, now, places, calling=calling)
    by_gpu = {desired.uuid: desired for desired in granted}
    return [(case, by_gpu[case.uuid]) for case, _ in known]


def _or_deferred(case: Case, desired: Desired, now: datetime) -> tuple[Case, Desired]:
    if desired.undecided is not None:
        return case, desired
    return or_undecided(case, lambda: until_drained(case, deferred(case, desired), now))


def _moved(
    case: Case, desired: Desired, fleet: Fleet, policy: Policy, now: datetime
) -> tuple[Case, Desired]:
    """Return what a budget has granted, with the pods that are to be evicted for it."""
    if desired.undecided is not None:
        return undecided(case, desired.undecided)
    return or_undecided(case, lambda: moving(case, desired, fleet, policy, now))
