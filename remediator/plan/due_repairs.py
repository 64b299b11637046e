"""Which GPUs of a node need a node-level act, since when, and until when pods are waited for.

Pure.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from remediator.diagnose.fault import NEEDS, NODE_LEVEL, Healthy, Need, Sick, most_needed
from remediator.model.incident import Incident
from remediator.plan.api_words import MODES, need_of
from remediator.plan.board import Board
from remediator.plan.needs import Waiting, deadline_start
from remediator.plan.stages import ONLY_NEW, Planned


class Due(msgspec.Struct, frozen=True):
    """A GPU, sick or unknown, whose enforced incident needs a node-level act."""

    board: Board
    incident: Incident
    need: Need
    deferred: str
    joins: bool
    """Nothing but a budget holds it: it joins the call that another GPU of the node may make."""
    stands: bool
    """The need is known now. Otherwise the GPU is unknown, and the need is that of before."""
    insists: Need
    """The need of a class that may evict: for that, pods are waited for until the deadline."""

    def until(self, deadline: timedelta, now: datetime) -> datetime | None:
        """Return until when pods are waited for; None: without an end, as by a wrong clock."""
        since = self.incident.status.deadline_start_time
        if (
            since is None
            or self.insists not in NODE_LEVEL
            or self.board.trust.refusal("end a clock")
        ):
            return None
        return min(since, now) + deadline

    def is_overdue(self, deadline: timedelta, now: datetime) -> bool:
        until = self.until(deadline, now)
        return until is not None and now >= until


def due_gpus(pairs: Iterable[tuple[Board, Planned]]) -> tuple[Due, ...]:
    """Return the GPUs of these incidents, by the name of the incident."""
    found = [_of_gpu(board, planned, incident) for board, planned, incident in enforced(pairs)]
    return tuple(
        sorted((due_gpu for due_gpu in found if due_gpu), key=lambda due_gpu: due_gpu.incident.name)
    )


def waits_for_call(
    board: Board,
    planned: Planned,
    now: datetime,
    *,
    stopped: str,
    calling: bool,
    called: bool,
) -> Waiting | None:
    """Return since when a node-level act may be called for, and the deadline counts.

    A hold before the first call ends both; without `calling` neither begins. Nor does it while our
    clock is not trusted: once the clock is right, the deadline would be over at once.
    """
    for due_gpu in due_gpus([(board, planned)]):
        old, held = due_gpu.incident.status.needs_since, bool(due_gpu.deferred or stopped)
        free = not (held or board.trust.refusal("begin a call"))
        begins = calling and due_gpu.stands and free
        since = old or (now if begins else None)
        deadline = due_gpu.incident.status.deadline_start_time
        if due_gpu.stands:
            deadline = deadline_start(deadline, due_gpu.insists, now if begins else None)
        if since is not None and (called or not held):
            return Waiting(since, deadline)
    return None


def enforced(
    pairs: Iterable[tuple[Board, Planned]],
) -> Iterable[tuple[Board, Planned, Incident]]:
    """Yield the incidents that go on in mode enforce, as stored: a message refers to them."""
    for board, planned in pairs:
        incident = planned.incident
        if incident is None or not incident.metadata.uid or not incident.open:
            continue
        ends = planned.course.is_over
        ignored = any(
            intent.kind == "Ignore" and intent.state == "InForce"
            for intent in planned.record.intents
        )
        if incident.status.mode == MODES["enforce"] and not ends and not ignored:
            yield board, planned, incident


def _of_gpu(board: Board, planned: Planned, incident: Incident) -> Due | None:
    """The need of a GPU is its need now; of an unknown one, what it was before."""
    hold = any(
        intent.kind == "Hold" and intent.state == "InForce" for intent in planned.record.intents
    )
    granted, call = planned.granted, planned.granted.call
    held = granted.repair_held_back or (call.why if call else "")
    held = held or ("on hold by a user" if hold else "")
    if isinstance(board.verdict, Healthy):
        return None
    repair = planned.demanded.repair
    need, stands = repair.calls, isinstance(board.verdict, Sick) or repair.calls in NODE_LEVEL
    if not stands:
        need = most_needed(
            kind for kind in NEEDS if kind in {repair.needs, need_of(incident.status.needs)}
        )
    if need not in NODE_LEVEL:
        return None
    only_budget = call is None or call.by == "Budget"
    joins = not hold and granted.deferred_by in ONLY_NEW and only_budget
    return Due(board, incident, need, held, joins, stands, repair.insists)
