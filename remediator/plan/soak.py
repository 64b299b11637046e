"""The soak of a GPU that is healthy again: since when it runs, what proves it, and what it frees.

It is soaked on our own clock, without a gap. Not knowing ends it, as does a time in which our clock
is not trusted. Once it is over and proven, that is stored, and its hardware is recorded as free
(`is_released`); then the rules go. Pure.
"""

from datetime import datetime, timedelta

import msgspec

from remediator.diagnose.fault import Healthy, Sick
from remediator.model.incident import Incident
from remediator.model.incident_status import IncidentStatus
from remediator.plan.board import RENEWALS_NEEDED, Board
from remediator.plan.clocks import Change, run
from remediator.plan.words import class_of
from remediator.policy.table import Policy

LOOK_FOR_RENEWALS = timedelta(seconds=15)
"""While a soak is over and not proven yet."""


class Soak(msgspec.Struct, frozen=True, kw_only=True):
    """Since when health is seen without a gap, and what it is measured by."""

    since: datetime | None = None
    confirmed_at: datetime | None = None
    """When the agent's Lease had confirmed it."""
    epoch: int = 0
    dbe_volatile: int | None = None
    dbe_aggregate: int | None = None
    """Uncorrectable memory errors when it began; None: unknown."""


def run_soak(board: Board, old: IncidentStatus, now: datetime, *, news: bool) -> Soak:
    """Return the soak of a GPU. `news`: a signal is new to us, whatever its date.

    Not knowing ends it, as does a time in which our clock is not trusted.
    """
    healthy = isinstance(board.verdict, Healthy) and not board.trust.refusal("end a clock")
    begins = old.recovery.healthy_since is None or news or health_gap(board, old, now)
    gap = frozenset[Change](("health",) if begins else ())
    since = run("healthy", old.recovery.healthy_since, now, fact=healthy, changed=gap)
    if since is None:
        return Soak()
    confirmed = is_confirmed(board, since)
    volatile, aggregate = _memory_errors(board)
    if not begins and old.recovery.dbe_volatile is not None:
        volatile = volatile_before(board, old)
    if not begins and old.recovery.dbe_aggregate is not None:
        aggregate = old.recovery.dbe_aggregate
    return Soak(
        since=since,
        confirmed_at=run("confirmed", old.recovery.confirmed_at, now, fact=confirmed, changed=gap),
        epoch=board.gpu.epoch if board.gpu else 0,
        dbe_volatile=volatile,
        dbe_aggregate=aggregate,
    )


def health_gap(board: Board, old: IncidentStatus, now: datetime) -> bool:
    """Whether health that is seen now has a gap since it was recorded: by errors, or by a date.

    The node may date it later than we did, and forget why.
    """
    if errors_rose(board, old):
        return True
    # A date after `now` is no gap: it is of a node whose clock is ahead, and would restart the soak
    # at each look.
    dates, verdict = (old.recovery.healthy_since, old.recovery.released_at), board.verdict
    begun = max((date for date in dates if date), default=None)
    return isinstance(verdict, Healthy) and begun is not None and begun < verdict.since <= now


def is_confirmed(board: Board, begun: datetime) -> bool:
    """Whether the agent has confirmed its reports often enough since a soak began."""
    return sum(renewal > begun for renewal in board.machine.agent.renewals) >= RENEWALS_NEEDED


def errors_rose(board: Board, status: IncidentStatus) -> bool:
    """Whether the GPU counts more uncorrected memory errors than when its health began."""
    before = volatile_before(board, status), status.recovery.dbe_aggregate
    pairs = zip(_memory_errors(board), before, strict=True)
    return any(new is not None and old is not None and new > old for new, old in pairs)


def _memory_errors(board: Board) -> tuple[int | None, int | None]:
    """Return the uncorrectable errors since the driver loaded, and in the GPU's life."""
    memory = board.gpu.memory if board.gpu else None
    return (memory.dbe_volatile, memory.dbe_aggregate) if memory else (None, None)


def volatile_before(board: Board, status: IncidentStatus) -> int | None:
    """Return the errors since the driver loaded, as counted when health began.

    A driver that was loaded since then counts from zero, and all its errors are new: it shows by
    another epoch, or by a count that fell.
    """
    if board.gpu is None or status.recovery.dbe_volatile is None:
        return status.recovery.dbe_volatile
    counted = board.gpu.memory.dbe_volatile
    loaded = bool(status.recovery.soak_epoch) and board.gpu.epoch != status.recovery.soak_epoch
    fell = counted is not None and counted < status.recovery.dbe_volatile
    return 0 if loaded or fell else status.recovery.dbe_volatile


def verified_at(board: Board, incident: Incident, policy: Policy, now: datetime) -> datetime | None:
    """Return when recovery will have held for the soak time, None while health is not recorded.

    It counts from when we recorded health, without a gap; a younger date of the
    node counts too, unless the node's clock is ahead of ours. Memory errors that
    rose since then are a gap, and so is a time in which our clock was not trusted. While two
    policies disagree, it is unknown how long it must hold.
    """
    recorded = incident.status.recovery.healthy_since
    if (
        not isinstance(board.verdict, Healthy)
        or recorded is None
        or board.trust.refusal("end a soak")
    ):
        return None
    if errors_rose(board, incident.status):
        return None
    claimed = board.verdict.since
    begun = max(recorded, claimed) if claimed <= now else recorded
    return begun + _longest_soak(board, incident.status, policy)


def _longest_soak(board: Board, status: IncidentStatus, policy: Policy) -> timedelta:
    """Return the longest soak of the classes that were found in an incident, and of its taints.

    What the policy does not look at, or only observes, keeps nothing else tainted.
    """
    leading = class_of(status.fault.fault_class)
    found = {*status.fault.classes, *(part.fault for part in status.scope.hardware)}
    rows = {each: policy.row(each, board.place) for each in map(class_of, {leading, *found})}
    return max(row.soak for each, row in rows.items() if each == leading or row.restricts)


def is_released(board: Board, status: IncidentStatus, *, news: bool) -> bool:
    """Whether verified recovery has set a GPU free, so that no rule that is gone is made again.

    Some may be gone: a leader may end, or a write fail, between the first of them and the end of
    the incident. Only `news` or a fault that stands takes that back. What still stands goes by the
    soak alone: while nothing is known, it stays.
    """
    taken_back = news or isinstance(board.verdict, Sick)
    return status.recovery.released_at is not None and not taken_back


def missing_proof(board: Board, incident: Incident, *, waits_for_user: bool = False) -> str:
    """Return what the agent has still to confirm, "" when the soak is proven.

    One report of long ago proves no soak. While the agent observes, it renews its Lease with the
    hash of its observation. The soak is proven by renewals since it began that carry the hash of
    the report that was stored then. Before an untaint the last one must carry that of the present
    report, also of a soak that was proven before; an incident that `waits_for_user` stays proven
    until then, whatever else changes on its node. An agent without hashes proves nothing: a user
    confirms the repair, or the agent is upgraded.
    """
    begun = incident.status.recovery.healthy_since
    stored = incident.status.recovery.confirmed_at
    proven = begun is not None and (stored is not None or is_confirmed(board, begun))
    if proven and (waits_for_user or not board.machine.agent.overtaken):
        return ""
    if not board.machine.agent.confirmable:
        return "the agent does not confirm its reports: upgrade it, or confirm the repair"
    return "waiting for the agent to confirm its report by renewing its Lease"
