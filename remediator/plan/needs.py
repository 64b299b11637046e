"""What would repair a GPU, which acts that stop its node are requested, and since when.

Each need is one fault's own, and the greatest of them counts; an act that stops the node is greater
than any other, so nothing masks it. A need ends with its proof: a reboot that did not bring the GPU
back is not requested again, a replacement is. Pods are waited for until the deadline of a class
that may evict, and for a replacement without one.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from remediator.diagnose.fault import (
    NEEDS,
    NODE_LEVEL,
    Fault,
    Healthy,
    Need,
    Sick,
    Unknown,
    most_needed,
)
from remediator.model.incident import Incident
from remediator.model.incident_status import RepairRequest
from remediator.model.node import is_call
from remediator.plan.board import Board
from remediator.plan.clocks import (
    Stay,
    in_another_machine,
    is_replaced,
    may_come_back,
    not_brought_back,
    request_in_this_stay,
    run,
    stay_of_machine,
)
from remediator.plan.effects import Demand
from remediator.plan.stages import Planned, Repair
from remediator.plan.words import MODES, class_of, knows_little, need_of
from remediator.plan.words import NEEDS as NEED_WORDS
from remediator.policy.table import HIGHEST, Policy, Row

NODE_REPAIRS: Mapping[Need, str] = {
    "node-reboot": "NodeRebootNeeded",
    "replacement": "ReplacementNeeded",
}
"""Reason of a condition that requests an act, or would, by the greatest need."""


INSISTED: Need = "node-reboot"
"""The only act that overrides pods after the deadline: it may bring the GPU back. A board that only
a replacement helps holds no pod any more, and those of its neighbours need not die for it."""


class _FaultNeed(msgspec.Struct, frozen=True):
    """What one fault needs, by which row."""

    need: Need
    row: Row
    alone: bool = False
    """Only the kernel log reports it, or it waits for the last reboot to bring the GPU back: that
    requests no act that stops a node."""


def needs(
    board: Board,
    incident: Incident,
    demands: tuple[Demand, ...],
    policy: Policy,
    now: datetime,
    *,
    repeats: bool = False,
    failed: int = 0,
) -> Repair:
    """Return what would repair a GPU: as it was while nothing is known, nothing once healthy.

    `repeats`: it has failed again and again, and waits for a user. Then no deadline overrides the
    pods of its neighbours for one more repair. Nor is one more reboot called for where `failed`, so
    many of this incident, have not helped: each boot begins with an empty node.
    """
    found = _needs(board, incident, demands, policy, now)
    if repeats and failed and found.calls == INSISTED:
        found = msgspec.structs.replace(found, calls="nothing")
    return msgspec.structs.replace(found, insists="nothing") if repeats else found


def _needs(
    board: Board, incident: Incident, demands: tuple[Demand, ...], policy: Policy, now: datetime
) -> Repair:
    row = policy.row(class_of(incident.status.fault.fault_class), board.place)
    status = incident.status
    gone = not_brought_back(board, status, now)
    # What was requested already stays requested while two policies disagree, and by when, too.
    requested = request_in_this_stay(board, status) if policy.disagrees else None
    stays = requested is not None
    insisted = requested is not None and requested.deadline_start_time is not None
    match board.verdict:
        case Healthy():
            return Repair()
        case Unknown():
            before = need_of(status.repair.needs)
            if before == "human" and status.repair.request:  # of a board that was away
                before = need_of(status.repair.request.need)
            # No act on the node helps a board that may not be in this machine any more.
            away = in_another_machine(board, status) or is_replaced(board, status) is not False
            if away and before in NODE_LEVEL:
                return Repair(needs="human", away=True)
            # A GPU that is not back after a reboot may be in no report, and so Unknown: that it is
            # missing is known all the same.
            if gone and before in NODE_LEVEL:
                return _sum([_FaultNeed("replacement", row)], row, stays=stays, insisted=insisted)
            # What it needed is lost with the status, and nothing reads it now.
            if before == "nothing" and knows_little(incident):
                return Repair(needs="human")
            insists = insisted or (row.mode == "enforce" and _may_evict(row))
            insists &= before == INSISTED
            return Repair(needs=before, insists=before if insists else "nothing", stays=stays)
        case Sick():
            # A fault that is over still has its taint for the soak time, and needs no act on the
            # node.
            standing = [demand for demand in demands if demand.fault.ended is None]
            # Not for one more reboot, while the last one may still bring it back.
            waits = not gone and may_come_back(board, status, now)
            fault_needs = [
                _FaultNeed(
                    _need(demand.fault, gone=gone),
                    demand.row,
                    demand.fault.alone or (waits and demand.fault.fault_class == "lost"),
                )
                for demand in standing
            ]
            if stays:
                fault_needs += _needs_of_classes_off(board, board.verdict, policy, gone=gone)
            return _sum(fault_needs, row, stays=stays, insisted=insisted)


def _needs_of_classes_off(
    board: Board, verdict: Sick, policy: Policy, *, gone: bool
) -> list[_FaultNeed]:
    """Return what faults need whose class is off, so that nothing is demanded for them."""
    rows = [(fault, policy.row(fault.fault_class, board.place)) for fault in verdict.faults]
    return [
        _FaultNeed(_need(fault, gone=gone), row, fault.alone)
        for fault, row in rows
        if row.mode == "off" and fault.ended is None
    ]


def _sum(fault_needs: list[_FaultNeed], leading: Row, *, stays: bool, insisted: bool) -> Repair:
    """Return what all faults need; `leading` is the row of the incident's own class.

    A class in mode enforce calls for nothing while that one is in a milder mode.
    """
    # A line that only the kernel log has may quote a program: it shows a need, and calls for
    # nothing.
    sure = [fault_need for fault_need in fault_needs if not fault_need.alone]
    enforced = [
        fault_need
        for fault_need in sure
        if stays or (fault_need.row.mode == leading.mode == "enforce")
    ]
    insisting: list[Need] = [
        fault_need.need
        for fault_need in enforced
        if fault_need.need == INSISTED and (insisted or _may_evict(fault_need.row))
    ]
    calls = most_needed(fault_need.need for fault_need in enforced)
    spared = [
        fault_need
        for fault_need in sure
        if fault_need.need in NODE_LEVEL and NEEDS.index(fault_need.need) > NEEDS.index(calls)
    ]
    return Repair(
        needs=most_needed(fault_need.need for fault_need in fault_needs),
        calls=calls,
        would_call=most_needed(fault_need.need for fault_need in spared),
        would_insist=any(
            fault_need.need == INSISTED and _may_evict(fault_need.row) for fault_need in spared
        ),
        insists=most_needed(insisting),
        stays=stays,
    )


def _need(fault: Fault, *, gone: bool) -> Need:
    """Return what one fault needs: of a GPU that a reboot did not bring back, a replacement."""
    return "replacement" if gone and fault.fault_class == "lost" else fault.needs


def _may_evict(row: Row) -> bool:
    """Whether pods are ended for this class: by its row, and by the nature of its evidence."""
    return "NoExecute" == row.highest == HIGHEST.get(row.fault_class, "NoExecute")


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
    request: RepairRequest | None
    """As stored; None where it begins now, also anew."""

    def until(self, deadline: timedelta, now: datetime) -> datetime | None:
        """Return until when pods are waited for; None: without an end, as by a wrong clock."""
        since = self.request.deadline_start_time if self.request else None
        if (
            since is None
            or self.insists not in NODE_LEVEL
            or self.board.trust.refusal("end a clock")
        ):
            return None
        # A leader whose clock was ahead may have recorded a date of the time to come: pods must not
        # wait for longer than the deadline by that.
        return min(since, now) + deadline

    def is_overdue(self, deadline: timedelta, now: datetime) -> bool:
        until = self.until(deadline, now)
        return until is not None and now >= until


def due_gpus(pairs: Iterable[tuple[Board, Planned]]) -> tuple[Due, ...]:
    """Return the GPUs of these incidents, by the name of the incident."""
    found = [
        _of_gpu(board, planned, incident) for board, planned, incident in enforced_incidents(pairs)
    ]
    return tuple(
        sorted((due_gpu for due_gpu in found if due_gpu), key=lambda due_gpu: due_gpu.incident.name)
    )


def seen_call(board: Board, incident: Incident, now: datetime) -> RepairRequest | None:
    """Return the stored request of an incident, dated if its Node's condition has called for it.

    The condition names its boot. So a leader that comes after the reboot, such as from the same
    node, still counts the call that the reboot has answered.
    """
    request, facts = incident.status.repair.request, board.machine.facts
    if request is None or request.called_time or facts is None or request.node != facts.name:
        return request
    same = not request.node_uid or request.node_uid == facts.uid
    called = same and any(is_call(each, request.boot_id) for each in facts.conditions or ())
    return msgspec.structs.replace(request, called_time=now) if called else request


def repair_request(
    board: Board,
    planned: Planned,
    now: datetime,
    *,
    stopped: str,
    calling: bool,
    called: bool | None,
) -> RepairRequest | None:
    """Return since when a node-level act may be called for, and the deadline counts.

    `called`: the Node condition calls for one in this boot; None: that is not known.
    A hold before the first call ends both; without `calling` neither begins. Nor does it while our
    clock is not trusted: once the clock is right, the deadline would be over at once.
    """
    stored = planned.incident.status.repair.request if planned.incident else None
    if planned.demanded.repair.away:
        return stored
    here = stay_of_machine(board)
    for due_gpu in due_gpus([(board, planned)]):
        old, held = due_gpu.request, bool(due_gpu.deferred or stopped)
        free = not (held or board.trust.refusal("begin a call"))
        # What was called for stands until it is known not to be needed.
        begins = True if calling and due_gpu.stands and free else None
        begun, insisted = (old.since_time, old.deadline_start_time) if old else (None, None)
        since = run("call", begun, now, fact=False if held and called is False else begins)
        insists = begins if due_gpu.insists in NODE_LEVEL or not due_gpu.stands else False
        if since is None:
            continue
        known = need_of(old.need) if old else "nothing"
        moved = stored is None or here.new_machine(Stay(node=stored.node, node_uid=stored.node_uid))
        return RepairRequest(
            since_time=since,
            first_time=since if stored is None or moved else stored.first_time,
            deadline_start_time=run("deadline", insisted, now, fact=insists),
            called_time=old.called_time if old else None,
            need=NEED_WORDS[most_needed((due_gpu.need, known))],
            node=here.node,
            node_uid=here.node_uid or (old.node_uid if old else ""),
            boot_id=here.boot_id or (old.boot_id if old else ""),
        )
    return None


def enforced_incidents(
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
        if incident.status.policy.mode == MODES["enforce"] and not ends and not ignored:
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
    # A replacement that a reboot has proven stands, although its GPU is Unknown.
    need, stands = repair.calls, isinstance(board.verdict, Sick) or repair.calls in NODE_LEVEL
    request = request_in_this_stay(board, incident.status, need if stands else "nothing")
    if not stands:
        # What an unknown GPU needs is what it needed before. Of that, a need that only the kernel
        # log reports has called for nothing.
        before: set[Need] = {repair.needs, need_of(incident.status.repair.needs)}
        need = need_of(request.need) if request else most_needed(before)
    if need not in NODE_LEVEL:
        return None
    joins = not hold and granted.may_join
    insists: Need = repair.insists
    lesser = request_in_this_stay(board, incident.status)
    if request is None and lesser is not None and held and joins:
        # A greater need waits for its budget: what was granted for the lesser one goes on.
        request, need, held = lesser, need_of(lesser.need), ""
        insists = need if lesser.deadline_start_time else "nothing"
    return Due(board, incident, need, held, joins, stands, insists, request)
