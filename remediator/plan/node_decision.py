"""The decision about one node: its boards, each decided alone, then all cut to what may be done.

    view ─► boards ─► demanded ─► granted ─► planned ─► status and steps

Pure: the hands (`remediator.reconcile`) observe and apply. Where this program fails on a GPU,
nothing changes for it and its incident records the bug; the others go on.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from remediator.diagnose.fault import Healthy, Sick, Unknown, attempt, or_unknown
from remediator.model.incident import GPU_UUID
from remediator.model.incident_caps import cut_to_limits
from remediator.model.incident_status import STATE_UNKNOWN, IncidentStatus, with_changes
from remediator.plan import events, history, incidents, node_condition, recovery, status
from remediator.plan.board import Board
from remediator.plan.boards import bind_boards
from remediator.plan.brakes import pause
from remediator.plan.events import Event
from remediator.plan.evictions import plan_evictions
from remediator.plan.gpu_decision import decide_or_keep, keep
from remediator.plan.grants import grant_all
from remediator.plan.needs import repair_request
from remediator.plan.node_condition import HandoverOptions
from remediator.plan.phase import kernel
from remediator.plan.spending import Turned, compare_emptied
from remediator.plan.stages import Granted, Planned, Wake, first_wake
from remediator.plan.status import condition
from remediator.plan.steps import (
    DeleteEdited,
    DeleteIncident,
    DeleteReport,
    Disruption,
    Step,
    WriteStatus,
    disruption,
    in_order,
    no_eviction_of_others,
    steps_of,
    within_limit,
)
from remediator.plan.view import Fleet, LeftReport, NodeView
from remediator.plan.words import class_of
from remediator.policy.table import Place, Policy


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
    # Incidents go on recording that the node was gone until they are written: budgets count it at
    # once.
    if view.gone is False:
        fleet = msgspec.structs.replace(fleet, seen_node=view.node)
    stopped = pause(fleet, policy, Place(node=view.node), now)
    plans = gpu_plans(
        Inputs(view=view, fleet=fleet, policy=policy, now=now, options=options, stopped=stopped)
    )
    # A repair may end every pod of the node. So it waits for a stop, a window, the clock and the
    # policy of the leader before, whichever GPU needs it.
    uncalled = stopped or view.trust(policy.disagrees).refusal("begin a call")
    pairs = tuple((plan.board, plan.planned) for plan in plans)
    unsettled = any(plan.turned.emptied for plan in plans)
    conditions = attempt(
        lambda: node_condition.conditions(view, pairs, now, options, uncalled, unsettled=unsettled)
    )
    # By a clock that is ahead every closed incident is old enough to be pruned.
    aged = () if view.clock_doubt else view.stored.incidents
    old = attempt(lambda: history.incidents_to_prune(aged, policy, now, view.boot_id))
    # What they taint is known without a decision about any GPU.
    steps: list[Step] = [DeleteEdited(rule) for rule in view.stored.edited]
    steps += [step for plan in plans for step in plan.steps]
    steps += [step for plan in plans for step in plan.closings]
    steps += () if isinstance(conditions, Unknown) else conditions
    steps += [
        DeleteIncident(incident)
        for incident in (() if isinstance(old, Unknown) else old)
        # What is stored now may be open, or have a user's intent: the copy that is known is older.
        if incident.name not in view.stored.unread
    ]
    steps += () if (left := report_to_prune(view, now)) is None else (DeleteReport(left),)
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


def report_to_prune(view: NodeView, now: datetime) -> LeftReport | None:
    """Return the report of a node that has been gone for as long as ends its incidents.

    None while an incident of it is open or a rule of it stands, or either may be: who decides about
    those next must find what was known of their hardware.
    """
    left, stored = view.agent.left, view.stored
    if left is None or not view.gone or view.trust().refusal("prune a report"):
        return None
    nodes = {incident.node for incident in stored.incidents if incident.open}
    nodes |= {rule.node for rule in (*stored.rules, *stored.unseen)}
    if view.node in nodes or stored.unread:
        return None
    return left if now - left.since >= recovery.NODE_GONE_FOR else None


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """All that the decision about a node rests on."""

    view: NodeView
    fleet: Fleet
    policy: Policy
    now: datetime
    options: HandoverOptions
    stopped: str
    """Why no new disruption may begin on this node now, "" when one may."""


class GpuPlan(msgspec.Struct, frozen=True):
    """One GPU, with the steps for it alone."""

    board: Board
    planned: Planned
    steps: list[Step]
    closings: tuple[WriteStatus, ...] = ()
    """Of younger incidents of the GPU: they follow everything else."""
    turned: Turned = Turned()


def gpu_plans(inputs: Inputs) -> list[GpuPlan]:
    """Return the plan of each GPU of a node."""
    plans = _plan_gpus(inputs)
    if again := frozenset(rule for plan in plans for rule in plan.turned.filled):
        # What pods are under again counts in the caps at once, as it will once that is noted.
        fleet = msgspec.structs.replace(inputs.fleet, filled_again=again)
        plans = _plan_gpus(msgspec.structs.replace(inputs, fleet=fleet))
    return plans


def _plan_gpus(inputs: Inputs) -> list[GpuPlan]:
    policy, now = inputs.policy, inputs.now
    boards = bind_boards(inputs.view, now, policy.disagrees)
    demanded = [decide_or_keep(board, policy, now) for board in boards]
    # All GPUs at once: the last place of a budget must not be given to two of them.
    granted = grant_all(demanded, inputs.fleet, policy, now, calling=inputs.options.enabled)
    by_gpu = {each.uuid: each for each in granted}
    return [_plan_gpu(board, by_gpu[board.uuid], inputs) for board, _ in demanded]


def _plan_gpu(board: Board, granted: Granted, inputs: Inputs) -> GpuPlan:
    """Return the steps of one GPU; where this program fails to give them, nothing changes."""
    undecided = granted.demanded.undecided
    plan = undecided or _with_steps(board, granted, inputs)
    if isinstance(plan, GpuPlan):
        return plan
    same, nothing = keep(board, plan)
    noted = bug_noted(board, plan, inputs.now)
    steps = [] if isinstance(noted, Unknown) else noted  # the log reports the bug all the same
    planned = Planned(granted=Granted(demanded=nothing, rules=nothing.rules))
    # That a name is another GPU's by now is known without a decision about this one.
    return GpuPlan(same, planned, [*no_eviction_of_others(same), *steps])


@or_unknown
def _with_steps(board: Board, granted: Granted, inputs: Inputs) -> GpuPlan:
    now = inputs.now
    planned = plan_evictions(board, granted, now)
    status = _status(board, planned, inputs)
    steps = steps_of(board, planned, status)
    if planned.incident is None or status is None:
        return GpuPlan(board, planned, steps)
    duplicates = planned.demanded.duplicates
    closings = tuple(
        WriteStatus(*closed)
        for closed in incidents.close_duplicates(board, planned.incident, duplicates, now)
    )
    return GpuPlan(
        board, planned, steps, closings, compare_emptied(planned.incident.status, status, now)
    )


def _status(board: Board, planned: Planned, inputs: Inputs) -> IncidentStatus | None:
    """Return how the incident of a GPU should read now, None for a GPU that has none."""
    if planned.incident is None:
        return None
    before, policy, now = planned.incident.status, inputs.policy, inputs.now
    request = repair_request(
        board,
        planned,
        now,
        stopped=inputs.stopped,
        calling=inputs.options.enabled,
        called=inputs.view.repair_called,
    )
    mode = policy.row(class_of(before.fault.fault_class), board.place).mode
    if planned.demanded.repair.stays:  # so does the mode, until the policies agree
        mode = "enforce"
    return status.status(board, planned, mode, request, now)


@or_unknown
def bug_noted(board: Board, why: Unknown, now: datetime) -> list[WriteStatus]:
    """Return the step that records a bug in the GPU's incident, where it can be recorded there."""
    incident = next((candidate for candidate in board.incidents if candidate.open), None)
    # One that cannot be read as it is stored now cannot be written either.
    if incident is None or incident.node != board.node or not why.bug:
        return []
    status = _as_before(board, incident.status, why.why, now)
    return [WriteStatus(incident, status)] if status != incident.status else []


def _as_before(board: Board, old: IncidentStatus, why: str, now: datetime) -> IncidentStatus:
    """Return the status of an incident about whose GPU nothing is decided: as before, and why.

    Health that was seen until now has a gap. Words that differ in figures only are no change.
    """
    known = next((stored for stored in old.conditions if stored.type == STATE_UNKNOWN), None)
    message = known.message if known and kernel(known.message) == kernel(why) else why
    unknown = condition(board, STATE_UNKNOWN, ("ReportUnusable", message), known, now)
    others = (stored for stored in old.conditions if stored.type != STATE_UNKNOWN)
    new = with_changes(
        old,
        message=message,
        recovery={"healthy_since": None, "confirmed_at": None},
        conditions=(*others, unknown),
    )
    return cut_to_limits(new)


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
        f"{board.uuid} {incident.status.fault.cause} ({incident.status.scope.summary}): "
        f"{planned.message}"
        for board, planned in pairs
        if (incident := planned.incident) is not None
    ]
    verdicts = [board.verdict for board, _ in pairs]
    unknown = sorted({verdict.why for verdict in verdicts if isinstance(verdict, Unknown)})
    names = [type(step).__name__ for step in steps if not isinstance(step, WriteStatus)]
    done = ", ".join(f"{name} x{names.count(name)}" for name in dict.fromkeys(names))
    parts = [counts(view, pairs), *gpu_texts, *(f"unknown: {why}" for why in unknown[:2]), done]
    return f"{view.node}: {'; '.join(part for part in parts if part)}"
