"""Since when what is true of an incident has been so: one table of clocks, one way to run them.

A clock times one fact. It begins when the fact is first seen, and each row of `CLOCKS` says what
becomes of it where the fact is not so, where it is unknown, and with which change it starts over.
What only says when something was decided (the phase, the end) is no clock.

A board is in one machine for one boot and one driver epoch: its *stay*. A part of it that is
unknown now has not changed. No clock of a repair counts in another stay than its own: that machine,
or the pods that waited there, may be gone.

The dates are ours, by `now`; `evict.within` alone pauses. Pure.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from remediator.diagnose.fault import NEEDS, Need
from remediator.diagnose.readings import MISSING_FOR, NEVER_LISTED
from remediator.model.claim import EXTENDED_RESOURCE
from remediator.model.incident import Incident
from remediator.model.incident_status import (
    STATE_UNKNOWN,
    AffectedPod,
    DeviceEvictions,
    IncidentStatus,
    RepairRequest,
    with_changes,
)
from remediator.plan.board import Board
from remediator.plan.words import need_of
from remediator.policy.table import Evict

ClockName = Literal[
    "cause",
    "tainted",
    "evicting",
    "drained",
    "empty",
    "healthy",
    "confirmed",
    "node gone",
    "missing",
    "call",
    "deadline",
    "condition",
    "request",
]
Change = Literal["cause", "rules", "health", "machine", "boot", "need"]
"""`cause`: one is new to the incident (`correlation`). `rules`: one stands that it has not
recorded. `health`: it has a gap (`health_gap`). `machine`: another Node, or one that was made
anew. `boot`: of the node. `need`: a greater one."""
Then = Literal["ends", "stays"]


class Row(msgspec.Struct, frozen=True):
    """What becomes of a clock."""

    times: str
    """The fact that it times, for the documents."""
    otherwise: Then
    """Where the fact is not so now."""
    unknown: Then
    """Where it is unknown whether it is."""
    restarts: frozenset[Change] = frozenset()


_REPAIR = frozenset[Change]({"machine", "boot", "need"})
CLOCKS: Mapping[ClockName, Row] = {
    # A wave is dated by it. A GPU that is healthy for a while keeps it, and so does one that flaps.
    "cause": Row("what leads the incident does", "stays", "stays", frozenset({"cause"})),
    # What pods have to settle from; rates count it once all rules are gone.
    "tainted": Row("every desired taint is stored", "ends", "stays", frozenset({"rules"})),
    # One that begins again does not move it: budgets see that by the dates of its rules.
    "evicting": Row("pods are evicted, for the first time", "stays", "stays"),
    "drained": Row("no pod is left, for the first time", "stays", "stays"),
    "empty": Row("no pod uses the devices", "ends", "stays"),
    # Unlike the others it ends where it is unknown: the agent may forget an error of the gap.
    "healthy": Row("the GPU is healthy, without a gap", "ends", "ends", frozenset({"health"})),
    # Renewals are counted in memory: a new leader counts from 0, and keeps what is stored.
    "confirmed": Row("the agent has confirmed it", "stays", "ends", frozenset({"health"})),
    # It outlives any stay: the name is all that is left of the machine.
    "node gone": Row("the node is gone, or another machine has its name", "ends", "stays"),
    "missing": Row("NVML lists GPUs without it after a reboot", "ends", "stays"),
    # Not with an epoch: a GPU that flaps must not escape its deadline.
    "call": Row("a repair of the node may be called for", "ends", "stays", _REPAIR),
    "deadline": Row("a class that may evict calls for it", "ends", "stays", _REPAIR),
    # Also one that is False: since when rules are served again, for one.
    "condition": Row("a condition of the incident has its status", "ends", "stays"),
    "request": Row("a user requests it, as was first read", "ends", "stays"),
}


def run(
    clock: ClockName,
    since: datetime | None,
    now: datetime,
    *,
    fact: bool | None,
    changed: frozenset[Change] = frozenset(),
) -> datetime | None:
    """Return since when a fact is so, None while its clock stands still.

    `since` is what is stored; `fact` is None while it is unknown.
    """
    row = CLOCKS[clock]
    # A leader whose clock was ahead may have stored a date of the time to come.
    since = min(since, now) if since and fact is not None else since
    stored = None if changed & row.restarts else since
    if fact:
        return stored or now
    then = row.unknown if fact is None else row.otherwise
    return stored if then == "stays" else None


def unless_dated(board: Board, since: datetime | None, *, fact: bool | None) -> bool | None:
    """Return a fact; None where it has a date that our clock, which is wrong, must not move."""
    return None if since is not None and board.trust.refusal("end a clock") else fact


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """In which machine, boot and driver epoch a board is, or was. What is not known is empty."""

    node: str = ""
    node_uid: str = ""
    boot_id: str = ""
    epoch: int = 0

    def new_machine(self, before: "Stay") -> bool:
        """Whether it is under another Node since then, as far as both are known.

        A machine that is registered again has another UID, too: `in_another_machine` knows more.
        """
        return _differ(self.node, before.node) or _differ(self.node_uid, before.node_uid)

    def new_boot(self, before: "Stay") -> bool:
        """Whether the node was rebooted since then, as far as both are known."""
        return _differ(self.boot_id, before.boot_id)

    def new_epoch(self, before: "Stay") -> bool:
        """Whether the GPU was reset since then, as far as both are known."""
        # A lower one proves no reset: an agent that has lost its state counts from the start again.
        return bool(before.epoch) and self.epoch > before.epoch


def _differ(here: str, before: str) -> bool:
    return bool(here and before) and here != before


def stay_at_signal(status: IncidentStatus) -> Stay:
    """Return the stay in which the last new signal of an incident came."""
    return Stay(node_uid=status.stay.node_uid, boot_id=status.stay.boot_id, epoch=status.stay.epoch)


def stay_to_record(board: Board, old: IncidentStatus, *, signal: bool) -> Stay:
    """Return the stay of the last new signal, or the first that is known; `signal`: one is new.

    What the kernel logs of a board that NVML has not listed in this boot is no sign that it came
    back with it.
    """
    here, before = stay_of(board), stay_at_signal(old)
    signal = signal and not is_never_listed(board)
    return Stay(
        node_uid=(here.node_uid if signal else "") or before.node_uid or here.node_uid,
        boot_id=(here.boot_id if signal else "") or before.boot_id or here.boot_id,
        epoch=(here.epoch if signal else 0) or before.epoch or here.epoch,
    )


def is_never_listed(board: Board) -> bool:
    """Whether only the kernel log has named a GPU in this boot."""
    reported = board.gpu if board.presence.reported else None
    return reported is not None and reported.presence_reason == NEVER_LISTED


def stay_of(board: Board) -> Stay:
    """Return the stay of a board now."""
    facts = board.machine.facts
    return Stay(
        node=board.node,
        node_uid=facts.uid if facts else "",
        boot_id=board.boot_id,
        epoch=board.gpu.epoch if board.gpu else 0,
    )


def stay_of_machine(board: Board) -> Stay:
    """Return the stay of its node's machine, which is known of a GPU that is not listed, too."""
    return msgspec.structs.replace(stay_of(board), boot_id=board.machine.boot_id)


def request_in_this_stay(
    board: Board, status: IncidentStatus, need: Need = "nothing"
) -> RepairRequest | None:
    """Return the request for repair that is stored, None where one would begin anew now.

    `need` is what is needed now; nothing: unknown, or no more than before.
    """
    stored = status.repair.request
    if stored is None:
        return None
    here = stay_of_machine(board)
    before = Stay(node=stored.node, node_uid=stored.node_uid, boot_id=stored.boot_id)
    changes: tuple[tuple[Change, bool], ...] = (
        ("machine", here.new_machine(before)),
        ("boot", here.new_boot(before)),
        # A need that falls and rises again does not restart it: a GPU could flap for ever.
        ("need", NEEDS.index(need) > NEEDS.index(need_of(stored.need))),
    )
    changed = {change for change, has_changed in changes if has_changed}
    return None if changed & CLOCKS["call"].restarts else stored


def in_another_machine(board: Board, status: IncidentStatus) -> bool:
    """Whether the node of the last signal is another machine now, or may be.

    A Node that was made anew may stand for either: the GPUs that were beside this one say which.
    """
    roster, others = board.machine.roster, frozenset(status.stay.siblings or ())
    if roster is None:
        return False
    here, strangers = others & roster.slots.keys(), roster.slots.keys() - others - {board.uuid}
    if here and (here == others or not strangers):
        return False
    only_strangers = bool(others and strangers) and not others & roster.known
    return only_strangers or stay_of(board).new_machine(stay_at_signal(status))


def is_replaced(board: Board, status: IncidentStatus) -> bool | None:
    """Whether as many GPUs answer as before without this one, so that no one seems missing.

    None: after a reboot, where it is not known which were there before. That ends no incident:
    `recovery.other_board` asks for more.
    """
    roster, others = board.machine.roster, status.stay.siblings
    if roster is None or board.uuid in roster.known:
        return False
    if others is None:
        rebooted = Stay(boot_id=roster.boot_id).new_boot(stay_at_signal(status))
        return None if rebooted else False
    return len(roster.slots) > len(others)


def whole_taint_since(
    board: Board, old: IncidentStatus, now: datetime, *, tainted: bool
) -> datetime | None:
    """Return since when the taint is whole; a rule that is new in it restarts the time.

    Once all rules are gone it keeps the time of the last one: rates count that (`spending`).
    """
    recorded = {record.uid for record in old.scope.rules if record.effect != "None"}
    standing = {rule.uid for rule in board.rules.stored if rule.effect != "None"}
    changed = frozenset[Change](("rules",) if standing - recorded else ())
    fact = tainted if tainted or board.rules.stored else None
    since = old.eviction.tainted_at
    return run("tainted", since, now, fact=unless_dated(board, since, fact=fact), changed=changed)


def is_machine_gone(board: Board, status: IncidentStatus) -> bool | None:
    """Whether the node is gone, or has come back as a machine of other boards alone.

    None while Nodes are not read.
    """
    roster, former = board.machine.roster, frozenset(status.stay.siblings or ())
    if roster is None or not (roster.complete and former):
        return board.machine.gone
    others = bool(roster.slots) and not (former | {board.uuid}) & roster.known
    another = others and stay_of(board).new_machine(stay_at_signal(status))
    return another or board.machine.gone


def node_gone_since(board: Board, old: IncidentStatus, now: datetime) -> datetime | None:
    gone = is_machine_gone(board, old)
    unsure = gone and bool(board.trust.refusal("end a clock"))
    return run("node gone", old.stay.node_gone_since, now, fact=None if unsure else gone)


def missing_since(
    board: Board, old: IncidentStatus, now: datetime, *, signal: bool = False
) -> datetime | None:
    """Return since when a GPU has been missing after a reboot; as before while it is unknown.

    `signal`: one is new. Then the GPU was there in this boot, and no reboot has been tried yet.
    """
    roster, fact = board.machine.roster, None
    if board.trust.refusal("end a clock"):
        roster = None
    # Hung, or let go: NVML knows it, and cannot read it now.
    gpu = board.gpu if board.presence.reported else None
    unread = gpu and gpu.presence == "Unknown" and not is_never_listed(board)
    before = stay_to_record(board, old, signal=signal)
    replaced = is_replaced(board, old)
    if roster is not None and (
        board.uuid in roster.slots
        or unread
        or roster.aside
        or in_another_machine(board, old)
        or replaced
    ):
        fact = False
    # Without a reboot it says nothing new: NVML may not list a GPU that is lost.
    elif roster is not None and Stay(boot_id=roster.boot_id).new_boot(before):
        fact = None if replaced is None else True
    return run("missing", old.repair.missing_since, now, fact=fact)


def may_come_back(board: Board, status: IncidentStatus, now: datetime) -> bool:
    """Whether the last reboot may still bring a GPU back: NVML has not answered since, or just now.

    It is no GPU of which NVML says itself that it is lost.
    """
    if board.gpu is not None and board.gpu.presence == "Lost":
        return False
    unanswered = board.machine.roster is None and stay_of_machine(board).new_boot(
        stay_at_signal(status)
    )
    return unanswered or missing_since(board, status, now) is not None


def not_brought_back(board: Board, status: IncidentStatus, now: datetime) -> bool:
    """Whether the node was rebooted and has been without the GPU for long enough since then."""
    since = status.repair.missing_since
    seen = missing_since(board, status, now)
    return since is not None and since == seen and now - since >= MISSING_FOR


def not_brought_back_at(status: IncidentStatus) -> datetime | None:
    """Return when a GPU that is missing after a reboot will have been missing for long enough."""
    since = status.repair.missing_since
    return since + MISSING_FOR if since else None


INTERRUPTED_FOR = timedelta(minutes=10)
"""Evictions that are interrupted for longer fill no budget any more, and a budget must grant them
before they go on."""
COUNTS_LEAST, COUNTS_MOST = timedelta(seconds=10), timedelta(minutes=1)
"""How long an attempt counts of `within` at most, between these: a tenth of it. A refused eviction
is requested again within a minute."""


def start_of_within(of: DeviceEvictions | None, plan: Evict, now: datetime) -> datetime | None:
    """Return from when `evict.within` counts for a device: the one clock that pauses.

    It is moved on by the time without an attempt. Without the last attempt (an older CRD does not
    store it) all time counts.
    """
    start, last = (of.start_time, of.attempt_time) if of else (None, None)
    if start is None or last is None:
        return start
    # If each pause restarted the time, recurring pauses would postpone NoExecute without limit. If
    # pauses counted, pods would be deleted without a request to evict them.
    return start + max(now - last - _counts(plan), timedelta())


def without_time_of_others(incident: Incident, holders: Iterable[AffectedPod]) -> Incident:
    """Return an incident without the times of devices that only pods of other claims hold now.

    The time was that of the pods before them. Who shares a claim with those shares their time, too:
    a claim that pods join for ever must not postpone NoExecute for ever.
    """
    status = incident.status
    # Where not all pods could be recorded it is unknown whose time it is.
    if status.scope.affected_left_out or status.eviction.evicted_left_out:
        return incident
    before = _claims_by_device((*status.scope.affected, *status.eviction.evicted))
    here = _claims_by_device(holders)
    entries = tuple(
        msgspec.structs.replace(entry, start_time=None, attempt_time=None)
        if (had := before.get(entry.device)) and here.get(entry.device, had).isdisjoint(had)
        else entry
        for entry in status.eviction.by_device
    )
    if entries == status.eviction.by_device:
        return incident
    new = with_changes(status, eviction={"by_device": entries})
    return msgspec.structs.replace(incident, status=new)


def _claims_by_device(pods: Iterable[AffectedPod]) -> dict[str, set[tuple[str, str]]]:
    found: dict[str, set[tuple[str, str]]] = {}
    for pod in pods:
        if pod.via in {"", EXTENDED_RESOURCE}:
            found.setdefault(pod.device, set()).add((pod.namespace, pod.claim))
    return found


def are_interrupted(status: IncidentStatus, now: datetime) -> bool:
    """Whether evictions by request have ended, or stop because the GPU is Unknown for long.

    Where none is recorded some may go on: the status may be lost.
    """
    unknown = unknown_since(status, now)
    ended = status.eviction.evicting_at is not None and status.eviction.started_at is None
    return ended or (unknown is not None and now - unknown >= INTERRUPTED_FOR)


def unknown_since(status: IncidentStatus, now: datetime) -> datetime | None:
    """Return since when a GPU is Unknown, None while it is not."""
    return true_since(status, STATE_UNKNOWN, now)


def true_since(status: IncidentStatus, kind: str, now: datetime) -> datetime | None:
    """Return since when a condition of an incident is True, None while it is not.

    Not later than now: it may be as a leader has stored it whose clock was ahead.
    """
    dates = (
        condition.last_transition_time
        for condition in status.conditions
        if (condition.type, condition.status) == (kind, "True")
    )
    return next((min(date, now) for date in dates), None)


def run_within(of: DeviceEvictions, plan: Evict, now: datetime) -> tuple[datetime, datetime | None]:
    """Return from when `within` counts and until when attempts are known, to be stored.

    Once the time is over, and between two attempts that are near enough, nothing is written.
    """
    start = start_of_within(of, plan, now)
    if start is None or of.start_time is None:
        return now, now
    last = of.attempt_time
    if now - start >= plan.within:
        return of.start_time, last
    return start, now if last is None or now - last >= _counts(plan) / 2 else last


def _counts(plan: Evict) -> timedelta:
    return min(max(plan.within / 10, COUNTS_LEAST), COUNTS_MOST)
