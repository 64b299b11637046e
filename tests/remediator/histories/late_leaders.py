"""A leader that dies while it sets devices free, and the next one, which comes late and knows less.

What was free for the first one, and has no rule any more, gets none by the next one: nothing has
happened to its hardware in between. What still has one keeps it while too little is known.
"""

import copy
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from remediator.diagnose.scope import is_displaced
from remediator.plan.node_decision import NodeDecision
from remediator.plan.steps import CreateRule, DeleteRule
from remediator.plan.view import NodeView
from tests.remediator.builders import Stored, with_fields

LATE = (timedelta(seconds=1), timedelta(seconds=70))
"""Sooner and later than the time within which two sources report one error."""


def as_it_was(seen: NodeView) -> NodeView:
    return seen


def silent(seen: NodeView) -> NodeView:
    return with_fields(seen, stale="silent")


def by_a_clock_that_is_off(seen: NodeView) -> NodeView:
    return msgspec.structs.replace(seen, clock_doubt="our clock is off")


DOUBTS = (as_it_was, silent, by_a_clock_that_is_off)
Decide = Callable[[Stored, NodeView, datetime], NodeDecision]


def taint_nothing_that_was_set_free(
    stored: Stored, seen: NodeView, first: NodeDecision, decide: Decide, now: datetime
) -> None:
    """Check what the next leader makes, whether the first has died early or late in its deletions.

    Of verified recovery, and of slices that an error did not mean: a policy, a user's word and the
    week of a node that is gone may change back by time alone, or by another clock.
    """
    courses = {planned.uuid: planned.course.kind for _, planned in first.pairs}
    freeing = {
        number: step.stored.device
        for number, step in enumerate(first.steps)
        if isinstance(step, DeleteRule)
        and (
            courses.get(step.stored.gpu) == "closes"
            or (courses.get(step.stored.gpu), step.stored.fault) == ("stands", "contained")
        )
    }
    recovered = {
        step.stored.device
        for step in first.steps
        if isinstance(step, DeleteRule)
        and courses.get(step.stored.gpu) == "closes"
        and not is_displaced(step.stored, seen.slices.inventory)
    }
    for last in {*list(freeing)[:1], *list(freeing)[-1:]}:
        left = _fork(stored)
        for step in first.steps[: last + 1]:
            left.take(step, now)
        freed = {device for number, device in freeing.items() if number <= last}
        for late in LATE:
            for doubt in DOUBTS:
                steps = decide(left, doubt(seen), now + late).steps
                made = {step.rule.device for step in steps if isinstance(step, CreateRule)}
                assert not made & freed, f"tainted again after {late}, {doubt.__name__}: {made}"
                gone = {step.stored.device for step in steps if isinstance(step, DeleteRule)}
                known = doubt is as_it_was or not gone & recovered
                assert known, f"set free while {doubt.__name__}: {gone & recovered}"


def _fork(stored: Stored) -> Stored:
    """Return a store of its own with the same objects, which never change."""
    fork = copy.copy(stored)
    fork.rules, fork.incidents = dict(stored.rules), dict(stored.incidents)
    fork.conditions, fork.evicted = dict(stored.conditions), list(stored.evicted)
    fork.taken = []
    return fork
