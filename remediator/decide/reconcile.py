"""One node, once: observe, judge, decide, cut to budget, plan, apply, say why.

`decide_node` is the whole decision and is pure; `Reconciler` reads the world
and takes the steps through the hands that it is given.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Protocol

import msgspec

from remediator.decide import casefile, handover, history, plan
from remediator.decide.budget import budget
from remediator.decide.case import Case, Desired
from remediator.decide.episode import decided
from remediator.decide.fleet import Fleet
from remediator.decide.handover import HandoverOptions
from remediator.decide.hit import moving
from remediator.decide.plan import Step
from remediator.decide.view import NodeView, cases, unnamed
from remediator.decide.words import class_of
from remediator.judge.fault import Healthy, Sick, Unknown
from remediator.objects import events
from remediator.objects.events import Event
from remediator.objects.incident import IncidentStatus
from remediator.policy.table import Mode, Place, Policy

MOST_OPEN = 64
"""Open incidents of one node, more than it has GPUs: who tells of ever new ones is lying."""


class Hands(Protocol):
    """What a reconcile may see and do. Errors of a step end the tick; the next one plans anew."""

    def view(self, node: str) -> NodeView: ...

    def fleet(self) -> Fleet: ...

    def take(self, step: Step) -> None: ...

    def post(self, event: Event, now: datetime) -> None: ...


class NodeDecision(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    steps: list[Step]
    events: tuple[Event, ...]
    sentence: str
    wake_at: datetime | None
    pairs: tuple[tuple[Case, Desired], ...]


def decide_node(
    view: NodeView,
    fleet: Fleet,
    policy: Policy,
    now: datetime,
    options: HandoverOptions = handover.OFF,
) -> NodeDecision:
    """Return everything that follows from one view of a node."""
    known = [decided(case, policy, now) for case in cases(view)]
    seen, wishes = [case for case, _ in known], [wish for _, wish in known]
    places = {case.uuid: case.place for case in seen}
    granted = budget(wishes, fleet, policy, now, places, calling=options.enabled)
    by_gpu = {wish.uuid: wish for wish in granted}
    pairs = tuple((case, moving(case, by_gpu[case.uuid], fleet, policy, now)) for case in seen)
    stopped = fleet.stopped or policy.stopped or policy.pause(Place(node=view.node), now)
    called = handover.called_since(view, pairs, now, options, stopped)
    statuses = _statuses(pairs, called, policy, now)
    conditions = handover.conditions(view, pairs, now, options, stopped=stopped)
    pruned = history.pruned(view.incidents, policy, now)
    closings = tuple(
        plan.WriteStatus(one, casefile.duplicate(one, wish.incident, now))
        for _, wish in pairs
        for one in wish.duplicates
        if wish.incident is not None
    )
    steps = _bounded(view, plan.plan(pairs, statuses, conditions, pruned, closings))
    wakes = [wish.wake_at for _, wish in pairs if wish.wake_at is not None]
    return NodeDecision(
        node=view.node,
        steps=steps,
        events=(*events.of_view(view), *events.of_steps(steps, pairs)),
        sentence=_sentence(view, pairs, steps),
        wake_at=min(wakes, default=None),
        pairs=pairs,
    )


class Reconciler:
    """Takes a node from what is to what should be, one tick at a time."""

    def __init__(
        self,
        hands: Hands,
        policy: Callable[[], Policy],
        options: HandoverOptions = handover.OFF,
    ) -> None:
        self._hands = hands
        self._policy = policy
        self._options = options

    def reconcile(self, node: str, now: datetime) -> NodeDecision:
        """Observe a node, take every step that its state asks for, and say what was decided.

        A step that fails ends the steps of its GPU, but for deletions, because
        healing waits for nobody; the other GPUs go on. A deletion whose announcement
        was not stored waits, or it would be taken for a person's at the next look.
        The first error is raised at the end, so that the node is looked at again.
        """
        view = self._hands.view(node)
        decision = decide_node(view, self._hands.fleet(), self._policy(), now, self._options)
        failed: dict[str, Exception] = {}
        untold: set[str] = set()
        for step in decision.steps:
            gpu = plan.gpu_of(step)
            deletion = isinstance(step, plan.DeleteRule)
            if step.stored.uid not in untold if deletion else gpu not in failed:
                try:
                    self._hands.take(step)
                except Exception as error:  # noqa: BLE001 - raised below, after the other GPUs
                    failed.setdefault(gpu, error)
                    untold |= plan.announced(step)
        if failed:
            raise next(iter(failed.values()))
        for event in decision.events:
            self._hands.post(event, now)
        return decision


def _bounded(view: NodeView, steps: list[Step]) -> list[Step]:
    """Leave out incidents beyond what a node may have, of GPUs that nobody publishes first."""
    new = [step for step in steps if isinstance(step, plan.OpenIncident)]
    room = max(0, MOST_OPEN - sum(one.open for one in view.incidents))
    new.sort(key=lambda step: not step.incident.spec.scope.devices)
    over = {step.incident.name for step in new[room:]}
    return [
        step
        for step in steps
        if not (isinstance(step, plan.OpenIncident) and step.incident.name in over)
    ]


def _statuses(
    pairs: Iterable[tuple[Case, Desired]],
    called: Mapping[str, datetime],
    policy: Policy,
    now: datetime,
) -> dict[str, IncidentStatus]:
    """Return by GPU how its incident's status should read now."""
    told = ((case, wish) for case, wish in pairs if wish.incident is not None)
    return {
        case.uuid: msgspec.structs.replace(
            casefile.status(case, wish, _mode(case, wish, policy), now),
            needs_since=called.get(case.uuid),
        )
        for case, wish in told
    }


def _mode(case: Case, wish: Desired, policy: Policy) -> Mode:
    fault = wish.incident.spec.fault if wish.incident else ""
    return policy.row(class_of(fault), case.place).mode


def _sentence(view: NodeView, pairs: Iterable[tuple[Case, Desired]], steps: list[Step]) -> str:
    told = [_gpu_in_words(case, wish) for case, wish in pairs if wish.incident is not None]
    verdicts = [case.verdict for case, _ in pairs]
    healthy = sum(isinstance(one, Healthy) for one in verdicts)
    sick = sum(isinstance(one, Sick) for one in verdicts)
    unknown = sorted({one.why for one in verdicts if isinstance(one, Unknown)})
    counts = f"{healthy} healthy, {sick} sick, {len(verdicts) - healthy - sick} unknown"
    nameless = unnamed(view)
    counts += f", {nameless} without a name" if nameless else ""
    done = _steps_in_words(steps)
    parts = [counts, *told, *(f"unknown: {why}" for why in unknown[:2]), done]
    return f"{view.node}: {'; '.join(part for part in parts if part)}"


def _gpu_in_words(case: Case, wish: Desired) -> str:
    story = wish.incident
    if story is None:
        return ""
    scope = story.spec.scope.summary
    return f"{case.uuid} {story.spec.cause} ({scope}): {wish.held or wish.reason}"


def _steps_in_words(steps: list[Step]) -> str:
    names = [type(step).__name__ for step in steps if not isinstance(step, plan.WriteStatus)]
    return ", ".join(f"{name} x{names.count(name)}" for name in dict.fromkeys(names))
