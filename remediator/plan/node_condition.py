"""Node-level acts are handed over: a condition of the Node names the repair that it needs.

Draguard reboots and replaces nothing. A repair system (medik8s, EKS or Karpenter node repair, a
user) may act on the condition at once, so it disrupts like an eviction. The condition is True only
when

- a standing fault of an enforced incident needs a node-level act, and
- nothing defers it (budget, correlation, maintenance, emergency stop, a user), and
- no pod holds a GPU of the node, or the deadline has passed of a class that may evict and no pod
  that is left was promised more (`node_pods`).

Until then it is False and names what is waited for. An unknown state of a GPU that it names, of the
pods or of the stored condition changes it in neither direction. A pod that is known to hold a GPU
sets it back to False, also under a hold. A call belongs to the GPUs that it names and to one boot:
the next boot has answered it. Pure.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from remediator.diagnose.fault import NEEDS, Healthy, most_needed
from remediator.model.node import (
    HARDWARE_READY,
    PROBLEM,
    REPAIR_NEEDED,
    SIGNATURE,
    NodeCondition,
    is_call,
    short_boot,
)
from remediator.plan.board import Board
from remediator.plan.needs import NODE_REPAIRS, Due, due_gpus, enforced_incidents
from remediator.plan.node_pods import Neighbours, in_words, neighbours, with_promises
from remediator.plan.recovery import unseen_rules
from remediator.plan.stages import Planned, Wake, first_wake
from remediator.plan.steps import WriteNodeConditions
from remediator.plan.view import NodeView
from remediator.plan.words import some

MESSAGE_LIMIT = 1024
"""Bytes of a condition's message."""
NAMED_LIMIT = 5
"""GPUs, or pods, that a message names before it only counts."""

WAITING = "WaitingForNeighbours"
HELD = "Deferred"
VERIFYING = "RepairBeingVerified"
"""The hardware answers as healthy again; the incident is still being soaked."""
OTHER_REPAIR = "OtherRepairNeeded"
"""A GPU with an open incident is not healthy, and no repair of the node is requested for it."""
NOTHING_NEEDED = "NoRepairNeeded"
SWITCHED_OFF = "HandoverOff"


class HandoverOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator allows to be written on Nodes. Off: conditions are only removed."""

    enabled: bool = False
    deadline: timedelta = timedelta(hours=1)
    """From when a class that may evict calls for the act until pods are waited for no longer."""
    accelerated_hardware_ready: bool = False
    """Also write EKS' and Karpenter's `AcceleratedHardwareReady`. Not beside an agent that writes
    it itself: two writers of one condition undo each other."""


OFF = HandoverOptions()


class _Answer(msgspec.Struct, frozen=True):
    """What a condition should read."""

    needed: bool
    reason: str
    message: str
    causes: tuple[str, ...] = ()
    """Of the incidents that a call names."""


_SWITCHED_OFF = _Answer(False, SWITCHED_OFF, "writing this condition is switched off")  # noqa: FBT003 - `needed`


def conditions(
    view: NodeView,
    pairs: Iterable[tuple[Board, Planned]],
    now: datetime,
    options: HandoverOptions = OFF,
    stopped: str = "",
    *,
    unsettled: bool = False,
) -> tuple[WriteNodeConditions, ...]:
    """Return the write of the conditions that the node should get; none where nothing changes.

    `stopped` is the reason why no new disruption may begin on this node now, such as the emergency
    stop; "" when one may. `unsettled`: this decision makes room in the caps, so the next one may
    promise time to pods that a call would override. Nor is anything called for before an incident
    has recorded it: the budgets and the limit of repeats count what is recorded.
    """
    # Conditions that were not read may say True: what is not known is neither repeated nor taken
    # back.
    if view.facts is None or view.facts.conditions is None:
        return ()
    stored = {condition.type: condition for condition in view.facts.conditions}
    decided = tuple(pairs)
    due = due_gpus(decided)
    answer: _Answer | None = _SWITCHED_OFF
    if options.enabled:
        old = stored.get(REPAIR_NEEDED)
        recorded = any(due_gpu.stands and due_gpu.request for due_gpu in due)
        begins = recorded and not unsettled
        answer = _answer(view, decided, due, old, now, options.deadline, stopped, begins=begins)
    if answer is None:
        return ()
    # Where the option is off, an alias of before is taken back, in the same write as the condition:
    # a leader that ends in between must not leave two that contradict each other.
    alias = _alias(answer if options.accelerated_hardware_ready else _SWITCHED_OFF)
    answers = ((REPAIR_NEEDED, answer), (HARDWARE_READY, alias))
    # Two writers of one condition undo each other. A problem that another agent reports is for that
    # agent to end.
    theirs = {
        condition.type
        for condition in view.facts.others
        if condition.status == PROBLEM[condition.type]
    }
    found = [
        _condition(kind, outcome, stored.get(kind), now)
        for kind, outcome in answers
        if kind not in theirs
    ]
    written = tuple(condition for condition in found if condition is not None)
    return (WriteNodeConditions(view.node, written),) if written else ()


def deadline_wake(
    pairs: Iterable[tuple[Board, Planned]], now: datetime, options: HandoverOptions = OFF
) -> Wake | None:
    """Return when the next deadline passes, which alone can change the answer."""
    ends = (due_gpu.until(options.deadline, now) for due_gpu in due_gpus(pairs) if options.enabled)
    why = "the deadline of the node's repair"
    return first_wake(*(Wake(at, why) for at in ends if at is not None and at > now))


def _gpus_in_soak(pairs: Iterable[tuple[Board, Planned]]) -> tuple[str, ...]:
    found = (
        incident
        for board, _, incident in enforced_incidents(pairs)
        if isinstance(board.verdict, Healthy)
    )
    return tuple(sorted(f"{incident.spec.uuid} (incident {incident.name})" for incident in found))


def _others(pairs: Iterable[tuple[Board, Planned]], due: tuple[Due, ...]) -> tuple[str, ...]:
    """Return the GPUs that have an open incident, are not healthy and need no node-level act."""
    named = {due_gpu.board.uuid for due_gpu in due}
    return tuple(
        sorted(
            f"{board.uuid} (needs {planned.demanded.repair.needs}, incident {incident.name})"
            for board, planned, incident in enforced_incidents(pairs)
            if board.uuid not in named and not isinstance(board.verdict, Healthy)
        )
    )


def _answer(  # noqa: PLR0917 - everything that the answer rests on
    view: NodeView,
    pairs: tuple[tuple[Board, Planned], ...],
    due: tuple[Due, ...],
    old: NodeCondition | None,
    now: datetime,
    deadline: timedelta,
    stopped: str,
    *,
    begins: bool,
) -> _Answer | None:
    """Return what the condition should read, None where an unknown state leaves it as it is.

    `begins`: a call may begin in this decision; one that was made before stays without.
    """
    undecided = [board for board, planned in pairs if _is_undecided(board, planned)]
    stated = old is not None and old.status == PROBLEM[REPAIR_NEEDED]
    stands = old is not None and is_call(old, view.boot_id) and _still_stands(pairs, due, old)
    if not due:
        if undecided and (stands or not stated):
            return None
        return _answer_for_none(_gpus_in_soak(pairs), _others(pairs, due), undecided, old)
    standing = tuple(due_gpu for due_gpu in due if due_gpu.stands)
    free = tuple(due_gpu for due_gpu in standing if not due_gpu.deferred and not stopped)
    seen = with_promises(neighbours(view, (due_gpu.incident for due_gpu in due)), pairs, now)
    answer = None
    if free:
        boot = view.boot_id or ""
        answer = _answer_for(free, standing, seen, deadline, now, boot=boot, stated=stands)
    elif standing:
        why = stopped or "; ".join(sorted({due_gpu.deferred for due_gpu in standing}))
        message = _cut_message(f"{_needs(standing)}; deferred: {why}")
        answer = _Answer(needed=False, reason=HELD, message=message)
    # Of one whose call is deferred now, the deadline may be over: below.
    certain = len(free) == len(due) and not undecided
    if not stands:
        # A lost incident of one GPU may count against a call for another.
        waits = bool(undecided) or not begins
        answer = None if waits and answer and answer.needed else answer
        if answer or not stated:
            return answer
        since = "nothing is known since then" if undecided else "the next call is not recorded yet"
        over = f"what was called for is over, and {since}: {_needs(due)}"
        return _Answer(needed=False, reason=VERIFYING, message=_cut_message(over))
    if (answer and answer.needed) or (free and certain):
        return answer
    # Neither a hold nor an unknown state sets it back. A pod that holds a GPU does, unless a
    # deadline has passed for one of them.
    overdue = any(due_gpu.is_overdue(deadline, now) for due_gpu in due)
    kept = overdue or not seen.pods
    return None if kept else answer or _wait(due, seen, deadline, now)


def _still_stands(
    pairs: Iterable[tuple[Board, Planned]], due: tuple[Due, ...], call: NodeCondition
) -> bool:
    """Whether a call of this boot may still be that of a GPU that it names."""
    named = call.message.partition(";")[0]

    def names(board: Board) -> bool:
        return board.uuid in named or " more" in named

    return any(names(due_gpu.board) for due_gpu in due) or any(
        _is_undecided(board, planned) and (names(board) or _is_new(board, planned))
        for board, planned in pairs
    )


def _is_undecided(board: Board, planned: Planned) -> bool:
    """Whether it is not known if a GPU needs an act on its node.

    An incident that has lost its status is in no mode that calls for an act. An incident that this
    decision opens has no mode yet. Neither means that no act is needed. Where rules stood and none
    are served now, it is not known which pods leave under them.
    """
    opened = [incident for incident in board.incidents if incident.open]
    lost = any(incident.blank or not incident.status.policy.mode for incident in opened)
    new, undecided = _is_new(board, planned), planned.demanded.undecided is not None
    return lost or new or undecided or bool(unseen_rules(board))


def _is_new(board: Board, planned: Planned) -> bool:
    """Whether this decision opens an incident: the next one knows whether it needs an act."""
    mine = planned.incident
    return mine is not None and mine.name not in [it.name for it in board.incidents if it.open]


def _answer_for_none(
    soaked: tuple[str, ...],
    others: tuple[str, ...],
    undecided: list[Board],
    old: NodeCondition | None,
) -> _Answer:
    """Return the answer when nothing is due: a repair is being verified, or is over."""
    # The soak of a GPU that never stopped the node is its incident's matter alone.
    if soaked and old is not None and old.reason not in (NOTHING_NEEDED, SWITCHED_OFF):
        text = f"healthy again, recovery is being verified: {some(soaked, NAMED_LIMIT)}"
        return _Answer(needed=False, reason=VERIFYING, message=_cut_message(text))
    if others:
        text = f"not healthy, but no repair of the node is needed: {some(others, NAMED_LIMIT)}"
        return _Answer(needed=False, reason=OTHER_REPAIR, message=_cut_message(text))
    text = "no GPU needs a node-level repair"
    if undecided:
        unknown = some(sorted(board.uuid for board in undecided), NAMED_LIMIT)
        text = f"what called for a repair is over; nothing is known of {unknown}"
    return _Answer(needed=False, reason=NOTHING_NEEDED, message=_cut_message(text))


def _answer_for(
    free: tuple[Due, ...],
    standing: tuple[Due, ...],
    seen: Neighbours,
    deadline: timedelta,
    now: datetime,
    *,
    boot: str,
    stated: bool,
) -> _Answer:
    """Return whether a node-level act may begin, in words that name the pods in the way."""
    # A deadline overrides pods for what its class needs, and for nothing greater that another class
    # of the GPU needs.
    overdue = tuple(
        msgspec.structs.replace(due_gpu, need=due_gpu.insists)
        for due_gpu in free
        if due_gpu.is_overdue(deadline, now)
    )
    if not seen.pods and not seen.unknown:
        return _call(_with_joining(free, standing), _pods_in_words(seen), boot)
    # A promise that is made after the call takes no call back: the repair may have begun.
    if overdue and (stated or not seen.promised):
        # Only for this act may pods be overridden: other needs are not requested yet.
        pods = f"{_pods_in_words(seen)}; waited until the deadline"
        return _call(_with_joining(overdue, standing), pods, boot)
    # Pods that cannot be listed take no call back, and make none.
    if not seen.pods and stated:
        return _call(_with_joining(free, standing), _pods_in_words(seen), boot)
    return _wait(free, seen, deadline, now)


def _with_joining(due: tuple[Due, ...], standing: tuple[Due, ...]) -> tuple[Due, ...]:
    """Return the same with the GPUs of the node that this act repairs too, and a budget defers.

    The node is repaired once for all of them; none of them asks for more.
    """
    needed = NEEDS.index(most_needed(due_gpu.need for due_gpu in due))
    named = {due_gpu.board.uuid for due_gpu in due}
    joining = (
        due_gpu
        for due_gpu in standing
        if due_gpu.joins and due_gpu.board.uuid not in named and NEEDS.index(due_gpu.need) <= needed
    )
    return (*due, *joining)


def _call(due: tuple[Due, ...], pods: str, boot: str) -> _Answer:
    reason = NODE_REPAIRS[most_needed(due_gpu.need for due_gpu in due)]
    due = tuple(sorted(due, key=lambda due_gpu: due_gpu.board.uuid))
    causes = tuple(due_gpu.incident.status.fault.cause for due_gpu in due)
    where = f"in boot {short_boot(boot)}; " if boot else ""
    message = _cut_message(f"{_needs(due)}; {where}{pods}")
    return _Answer(needed=True, reason=reason, message=message, causes=causes)


def _wait(due: tuple[Due, ...], seen: Neighbours, deadline: timedelta, now: datetime) -> _Answer:
    ends = (due_gpu.until(deadline, now) for due_gpu in due)
    until = min((end for end in ends if end is not None), default=None)
    last = [until, *(promise.until for promise in seen.promised)]
    known = [end for end in last if end is not None]
    limit = f" until {max(known):%Y-%m-%dT%H:%M:%SZ} at most" if known == last else ""
    pods = "; ".join((*in_words(seen.promised), _pods_in_words(seen)))
    text = f"{_needs(due)}; waiting{limit}: {pods}"
    return _Answer(needed=False, reason=WAITING, message=_cut_message(text))


def _pods_in_words(seen: Neighbours) -> str:
    """Name the pods that hold a device, and what is unknown about them."""
    named = f"pods with devices: {some(seen.pods, NAMED_LIMIT)}" if seen.pods else ""
    return "; ".join(text for text in (named, seen.unknown) if text) or "no pod holds a GPU"


def _alias(answer: _Answer) -> _Answer:
    """Return the same in the words of EKS' node monitoring agent, as far as it has them, signed."""
    text = _cut_message(f"{SIGNATURE}{answer.message}")
    if not answer.needed:
        return msgspec.structs.replace(answer, message=text)
    # Karpenter reads the reason and knows some XIDs, for which it waits less.
    codes = [cause.removeprefix("xid-") for cause in answer.causes if cause.startswith("xid-")]
    known = [code for code in codes if code.isdecimal()]
    reason = f"NvidiaXID{known[0]}Error" if known else "NvidiaDeviceRepairNeeded"
    return msgspec.structs.replace(answer, reason=reason, message=text)


def _condition(
    kind: str, answer: _Answer, old: NodeCondition | None, now: datetime
) -> NodeCondition | None:
    """Return what to write, None when it reads so already or a healthy Node would get it."""
    reported = answer.needed or (kind == REPAIR_NEEDED and answer.reason in (WAITING, HELD))
    if old is None and not reported:
        return None
    status = PROBLEM[kind] if answer.needed else _GOOD[PROBLEM[kind]]
    if old and (old.status, old.reason, old.message) == (status, answer.reason, answer.message):
        return None
    since = old.last_transition_time if old and old.status == status else None
    return NodeCondition(
        type=kind,
        status=status,
        reason=answer.reason,
        message=answer.message,
        # Kubernetes keeps the times of conditions in whole seconds.
        last_transition_time=since or now.replace(microsecond=0),
    )


_GOOD: Mapping[Literal["True", "False"], Literal["True", "False"]] = {
    "True": "False",
    "False": "True",
}


def _needs(due: tuple[Due, ...]) -> str:
    named = (
        f"{due_gpu.board.uuid} ({due_gpu.incident.status.fault.cause}, "
        f"incident {due_gpu.incident.name})"
        for due_gpu in due
    )
    names = some(named, NAMED_LIMIT)
    return f"{most_needed(due_gpu.need for due_gpu in due)} needed by {names}"


def _cut_message(text: str) -> str:
    """Cut to what a condition may hold, never inside a character."""
    if len(text.encode()) <= MESSAGE_LIMIT:
        return text
    return text.encode()[: MESSAGE_LIMIT - 3].decode(errors="ignore") + "..."
