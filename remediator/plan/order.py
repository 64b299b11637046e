"""The order in which the steps for one node are taken, and which of them wait.

The order is the safety argument. New work is kept away first and recorded right after: a rule names
its own reason and gets its incident at the next tick if this one is cut off. Every NoSchedule of a
node precedes every NoExecute, and no NoExecute goes before its incident. Rules are removed before
an incident is closed. An incident that lost its status is filled from its rules before they change;
if that fails, only new rules of effect NoSchedule are made.
Pure.
"""

from collections.abc import Iterable

from remediator.model.taint_rule import EFFECTS, EVICTING, Rule
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteIncident,
    DeleteRule,
    EvictPod,
    OpenIncident,
    Step,
    WriteNodeConditions,
    WriteStatus,
)
from remediator.plan.view import NodeView

MOST_OPEN = 64
"""Open incidents of one node, more than it has GPUs: a node that reports ever new ones is lying."""

_ORDER: tuple[type[Step], ...] = (
    CreateRule,
    DeleteRule,
    OpenIncident,
    ChangeRule,
    WriteStatus,
    EvictPod,
    WriteNodeConditions,
    DeleteIncident,
)
_FIRST = -1
"""What stops a disruption waits for nothing."""


def ordered(steps: Iterable[Step], stored: Iterable[Rule] = ()) -> list[Step]:
    """Return the steps for one node, in the order in which they must be taken.

    `stored` are our rules of the node, of which a step may find another GPU's under its name.
    """
    return sorted(_in_place(tuple(steps), stored), key=_rank)


def _in_place(steps: tuple[Step, ...], stored: Iterable[Rule]) -> Iterable[Step]:
    """Rewrite rules whose name another GPU's rule needs, in one write, so that none is missing.

    A stored rule that cannot be removed yet keeps work away from that GPU as well, so the new rule
    waits. A stored rule of effect None keeps nothing away, so the new rule replaces it at once.
    """
    there = {rule.device: rule for rule in stored}
    made = {step.rule.device for step in steps if isinstance(step, CreateRule)}
    going = {step.stored.device: step for step in steps if isinstance(step, DeleteRule)}
    for step in steps:
        if isinstance(step, CreateRule) and step.rule.device in going:
            yield ChangeRule(going[step.rule.device].stored, step.rule)
        elif isinstance(step, CreateRule) and (other := there.get(step.rule.device)):
            if other.effect == "None":
                yield ChangeRule(other, step.rule)
        elif not (isinstance(step, DeleteRule) and step.stored.device in made):
            yield step


def goes_on(step: Step, failed: Step) -> bool:
    """Whether a step is taken after one of the same GPU that failed.

    Untainting waits for nothing, nor does NoSchedule for a lost status that cannot be filled.
    """
    if isinstance(step, DeleteRule):
        return True
    keeps_away = isinstance(step, CreateRule) and step.rule.effect not in EVICTING
    return keeps_away and _fills_lost_status(failed)


def _fills_lost_status(step: Step) -> bool:
    """Whether a status is written that was lost: it has no phase yet."""
    return isinstance(step, WriteStatus) and not step.status.phase


def _rank(step: Step) -> tuple[int, int]:
    """Order of steps; the second number puts milder effects first."""
    if _fills_lost_status(step):
        return _FIRST, 1
    effect = step.rule.effect if isinstance(step, CreateRule | ChangeRule) else EFFECTS[0]
    if isinstance(step, ChangeRule | DeleteRule):
        before = step.stored.effect
        if before in EVICTING and EFFECTS.index(effect) < EFFECTS.index(before):
            return _FIRST, 0
    if isinstance(step, ChangeRule) and step.stored.gpu != step.rule.gpu:
        return _ORDER.index(CreateRule), EFFECTS.index(effect)
    return _ORDER.index(type(step)), EFFECTS.index(effect)


def bounded(view: NodeView, steps: list[Step]) -> list[Step]:
    """Leave out incidents beyond a node's limit, first those of GPUs that no node publishes."""
    new = [step for step in steps if isinstance(step, OpenIncident)]
    room = max(0, MOST_OPEN - sum(incident.open for incident in view.incidents))
    new.sort(key=lambda step: not step.incident.status.scope.devices)
    over = {step.incident.name for step in new[room:]}
    return [
        step
        for step in steps
        if not (isinstance(step, OpenIncident) and step.incident.name in over)
    ]
