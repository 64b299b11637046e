"""One node, once: observe, diagnose, decide, cut to budget, plan, apply, log why.

`decide_node` is the whole decision and is pure; `Reconciler` reads the cluster and takes the steps
through the functions that it is given.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from remediator.diagnose.fault import Healthy, Sick, Unknown, attempt
from remediator.model.incident import GPU_UUID
from remediator.plan import events, history, node_condition
from remediator.plan.board import Board
from remediator.plan.brakes import pause
from remediator.plan.events import Event
from remediator.plan.node_condition import HandoverOptions
from remediator.plan.node_plan import Inputs, gpu_plans
from remediator.plan.stages import Planned, Wake, first_wake
from remediator.plan.steps import (
    DeleteIncident,
    Disruption,
    Step,
    WriteStatus,
    disruption,
    goes_on,
    gpu_of,
    in_order,
    incident_written,
    untainting,
    within_limit,
)
from remediator.plan.view import Fleet, NodeView
from remediator.policy.table import Place, Policy

_FIRST_LOOK_AGAIN, _LAST_LOOK_AGAIN = timedelta(seconds=0.25), timedelta(seconds=30)
"""After a last look that saw something else: the watch needs some time to catch up."""


class ControlPlane(Protocol):
    """What a reconcile may see and do. Errors of a step end the tick; the next one plans anew."""

    def confirm(self, view: NodeView, begins: Disruption, /) -> str:
        """Return what of the view is otherwise on the API server now, "" when it is as seen."""
        ...

    def observe(self, node: str) -> NodeView: ...

    def fleet(self) -> Fleet: ...

    def apply(self, step: Step) -> None: ...

    def post(self, event: Event, now: datetime) -> None: ...


class Bug(msgspec.Struct, frozen=True):
    """Where this program failed: the others were decided about."""

    uuid: str
    """GPU that it is about, "" for the node."""
    trace: str


class NodeDecision(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    steps: list[Step]
    events: tuple[Event, ...]
    sentence: str
    """All of it, for the log."""
    counts: str
    """Only how many GPUs are healthy, sick and unknown."""
    wake: Wake | None
    pairs: tuple[tuple[Board, Planned], ...]
    begins: Disruption = Disruption()
    """What the steps begin to do to running pods."""
    unconfirmed: str = ""
    """Why a disruption or an untaint did not begin: what is stored is not what was seen."""
    bugs: tuple[Bug, ...] = ()

    @property
    def wake_at(self) -> datetime | None:
        return self.wake.at if self.wake else None


def decide_node(
    view: NodeView,
    fleet: Fleet,
    policy: Policy,
    now: datetime,
    options: HandoverOptions = node_condition.OFF,
) -> NodeDecision:
    """Return everything that follows from one view of a node.

    A GPU on which this program fails is unknown and stays as it stands; the others go on. What goes
    beyond single GPUs (the Node's conditions, pruning, Events) is left out where it fails on that.
    """
    if not view.gone:
        fleet = msgspec.structs.replace(fleet, seen_node=view.node)
    stopped = pause(fleet, policy, Place(node=view.node), now)
    plans = gpu_plans(
        Inputs(view=view, fleet=fleet, policy=policy, now=now, options=options, stopped=stopped)
    )
    uncalled = stopped or view.trust(policy.disagrees).refusal("begin a call")
    pairs = tuple((plan.board, plan.planned) for plan in plans)
    unsettled = any(plan.turned.emptied for plan in plans)
    conditions = attempt(
        lambda: node_condition.conditions(view, pairs, now, options, uncalled, unsettled=unsettled)
    )
    aged = () if view.clock_doubt else view.stored.incidents
    old = attempt(lambda: history.incidents_to_prune(aged, policy, now, view.boot_id))
    steps = [step for plan in plans for step in plan.steps]
    steps += [step for plan in plans for step in plan.closings]
    steps += () if isinstance(conditions, Unknown) else conditions
    steps += [
        DeleteIncident(incident)
        for incident in (() if isinstance(old, Unknown) else old)
        if incident.name not in view.stored.unread
    ]
    steps = within_limit(view, in_order(steps, view.stored.rules))
    posted = attempt(lambda: events.of_decision(view, steps, pairs))
    verdicts = ((board.uuid, board.verdict) for board, _ in pairs)
    made = (*verdicts, ("", conditions), ("", old), ("", posted))
    stored = (view.facts.conditions if view.facts else None) or ()
    return NodeDecision(
        node=view.node,
        steps=steps,
        events=() if isinstance(posted, Unknown) else posted,
        sentence=sentence(view, pairs, steps),
        counts=counts(view, pairs),
        wake=first_wake(
            *(planned.wake for _, planned in pairs),
            node_condition.deadline_wake(pairs, now, options),
        ),
        pairs=pairs,
        begins=disruption(steps, (board for board, _ in pairs), stored),
        bugs=tuple(
            Bug(uuid, part.bug) for uuid, part in made if isinstance(part, Unknown) and part.bug
        ),
    )


class StepsFailedError(Exception):
    """Steps of some GPUs of a node failed; those of the others were taken."""

    def __init__(self, error: Exception, wake_at: datetime | None) -> None:
        super().__init__(str(error))
        self.error = error
        """The first of them."""
        self.wake_at = wake_at
        """When time alone changes the answer for a GPU whose steps were all taken."""


class Reconciler:
    """Takes a node from what is to what should be, one tick at a time."""

    def __init__(
        self,
        cluster: ControlPlane,
        policy: Callable[[], Policy],
        options: HandoverOptions = node_condition.OFF,
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._options = options
        self._unconfirmed: dict[str, int] = {}
        """By node: how often in a row the last look before a disruption saw something else."""

    def reconcile(self, node: str, now: datetime) -> NodeDecision:
        """Observe a node, take every step that its state needs, and return the decision.

        A step that fails ends the steps of its GPU, but for deletions, because untainting waits for
        nothing; the other GPUs go on. While a lost status cannot be written, rules of effect
        NoSchedule are made all the same. An Event is posted when the status that it reports is
        written. A refused eviction is that pod's own and raises nothing: the incident records it.
        The first error is raised at the end, in a StepsFailedError, so that the node is looked at
        again.
        """
        view = self._cluster.observe(node)
        # Before the fleet, which has the time of the policy's change: a new policy never meets an
        # old date.
        policy = self._policy()
        decision = decide_node(view, self._cluster.fleet(), policy, now, self._options)
        if decision.begins or decision.begins.continued:
            decision = self._confirm_disruption(view, decision, policy, now)
        decision = self._look_again(self._confirm_untaints(view, decision), now)
        failed: dict[str, tuple[Step, Exception]] = {}
        done = {""}
        for step in decision.steps:
            gpu = gpu_of(step)
            if gpu not in failed or goes_on(step, failed[gpu][0]):
                try:
                    self._cluster.apply(step)
                    done |= incident_written(step)
                except Exception as error:  # noqa: BLE001 - raised below, after the other GPUs
                    failed.setdefault(gpu, (step, error))
        for event in decision.events:
            if event.incident in done:
                self._cluster.post(event, now)
        if failed:
            _, first = next(iter(failed.values()))
            others = [planned for _, planned in decision.pairs if planned.uuid not in failed]
            wake = first_wake(*(planned.wake for planned in others))
            again = decision.wake if decision.unconfirmed else wake
            raise StepsFailedError(first, again.at if again else None) from first
        return decision

    def _confirm_disruption(
        self, view: NodeView, decision: NodeDecision, policy: Policy, now: datetime
    ) -> NodeDecision:
        """Return a decision that begins a disruption only if what it rests on is so now.

        Otherwise the node is decided anew as one whose claims cannot be trusted, and looked at
        again when its watches have caught up.
        """
        differs = self._cluster.confirm(view, decision.begins)
        if not differs:
            return decision
        blind = msgspec.structs.replace(view, blind={**view.blind, "claims": differs})
        second = decide_node(blind, self._cluster.fleet(), policy, now, self._options)
        steps = [
            step
            for step in second.steps
            if not disruption([step], (board for board, _ in second.pairs), ())
        ]
        return msgspec.structs.replace(
            second, steps=steps, begins=Disruption(), unconfirmed=differs
        )

    def _confirm_untaints(self, view: NodeView, decision: NodeDecision) -> NodeDecision:
        """Return a decision without the untaints that rest on what is not so any more.

        Those GPUs stay as they are until the watches have caught up; the others go on.
        """
        untaints = untainting(decision.steps, (planned.demanded for _, planned in decision.pairs))
        if not untaints:
            return decision
        differs = self._cluster.confirm(view, Disruption(untainted=frozenset(untaints.values())))
        if not differs:
            return decision
        return msgspec.structs.replace(
            decision,
            steps=[step for step in decision.steps if gpu_of(step) not in untaints],
            sentence=f"{decision.sentence}; untaint deferred: {differs}",
            unconfirmed=decision.unconfirmed or differs,
        )

    def _look_again(self, decision: NodeDecision, now: datetime) -> NodeDecision:
        """Return when to look at a node again whose watches lag, later each time in a row."""
        if not decision.unconfirmed:
            self._unconfirmed.pop(decision.node, None)
            return decision
        times = self._unconfirmed[decision.node] = self._unconfirmed.get(decision.node, 0) + 1
        again = now + min(_FIRST_LOOK_AGAIN * 2 ** min(times - 1, 16), _LAST_LOOK_AGAIN)
        wake = first_wake(Wake(again, decision.unconfirmed), decision.wake)
        return msgspec.structs.replace(decision, wake=wake)


def counts(view: NodeView, pairs: Sequence[tuple[Board, Planned]]) -> str:
    """Return how many GPUs of a node are healthy, sick and unknown."""
    verdicts = [board.verdict for board, _ in pairs]
    healthy = sum(isinstance(verdict, Healthy) for verdict in verdicts)
    sick = sum(isinstance(verdict, Sick) for verdict in verdicts)
    gpus = view.agent.report.gpus if view.agent.report else ()
    nameless = sum(GPU_UUID.fullmatch(gpu.uuid) is None for gpu in gpus)
    more = f", {nameless} without a name" if nameless else ""
    return f"{healthy} healthy, {sick} sick, {len(verdicts) - healthy - sick} unknown{more}"


def sentence(view: NodeView, pairs: Sequence[tuple[Board, Planned]], steps: list[Step]) -> str:
    """Return what is known of a node's GPUs, what is done now and what is deferred."""
    gpu_texts = [
        f"{board.uuid} {incident.status.cause} ({incident.status.scope.summary}): "
        f"{planned.granted.deferred or planned.course.reason}"
        for board, planned in pairs
        if (incident := planned.incident) is not None
    ]
    verdicts = [board.verdict for board, _ in pairs]
    unknown = sorted({verdict.why for verdict in verdicts if isinstance(verdict, Unknown)})
    names = [type(step).__name__ for step in steps if not isinstance(step, WriteStatus)]
    done = ", ".join(f"{name} x{names.count(name)}" for name in dict.fromkeys(names))
    parts = [counts(view, pairs), *gpu_texts, *(f"unknown: {why}" for why in unknown[:2]), done]
    return f"{view.node}: {'; '.join(part for part in parts if part)}"
