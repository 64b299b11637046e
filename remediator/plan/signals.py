"""Which signals of a report an incident has taken into account, so that others are new to it.

Dates of signals are by the node's clock, and sources date one moment differently. So an incident
records the signals themselves, and a date decides only where there is no record. After a node's
clock was set back, the agent moves all dates of its report along and adds up by how much
(`clock_set_back_ms`); an incident keeps the sum that its dates were copied under, and moves them
when the sum grows. In another boot the sum begins at 0, and the dates stay.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from exporter.model.node_health import MOST_SET_BACK, GpuHealth, NodeHealth
from kubeapi.types import EARLIEST
from remediator.diagnose.fault import Fault, Record, Unknown
from remediator.diagnose.xid_table import RuleName, rule_of
from remediator.model.incident import Incident
from remediator.model.incident_status import SEEN_LIMIT, SeenSignal, with_changes
from remediator.model.intent import IntentRecord
from remediator.plan.board import Board

Seen = tuple[SeenSignal, ...] | None
_NO_FAULT = frozenset[RuleName]({"never", "named"})
"""Rules of XIDs that are never a fault themselves. What another one names ends by dates."""


def is_new(board: Board, incident: Incident, fault: Fault) -> bool:
    """Whether the incident has not recorded a signal: by its record, or by a later date.

    Sources date one moment differently, so an error may be dated before one that came first.
    """
    later = is_later(fault.last_seen, incident.status.fault.seen_through, board.reported_at)
    return later or is_unseen(fault.record, incident.status.fault.seen_signals)


def is_later(signal: datetime, known: datetime | None, clock: datetime | None) -> bool:
    """Whether a signal is younger than the recorded ones; all three by the node's clock.

    A date ahead of that clock as it is now was written before the clock was set back: it proves
    nothing about later signals.
    """
    if known is None or signal > known:
        return True
    return clock is not None and signal <= clock < known


def youngest(board: Board, incident: Incident, faults: Iterable[Fault]) -> datetime | None:
    """Return the youngest signal of an incident, by the node's clock.

    A recorded signal ahead of that clock gives way to those that are still reported.
    """
    known, clock = incident.status.fault.seen_through, board.reported_at
    dates = [fault.last_seen for fault in faults]
    ahead = known is not None and clock is not None and known > clock
    if known is not None and not (dates and ahead):
        dates.append(known)
    return max(dates, default=None)


def is_unseen(record: Record | None, seen: Seen) -> bool:
    """Whether a record has counted an error that `seen` has not, whatever its date.

    A record that counts from the start again began later. A second source of one error only dates
    it earlier. Without a record, or where `seen` is full, dates alone decide.
    """
    if record is None or seen is None or is_counted(record, seen):
        return False
    return len(seen) < SEEN_LIMIT or any(signal.key == record.key for signal in seen)


def is_counted(record: Record, seen: Seen) -> bool:
    """Whether `seen` has counted all errors of a record."""
    return any(
        signal.key == record.key
        and record.count <= signal.count
        and record.first_seen <= signal.first_seen_time
        for signal in seen or ()
    )


def has_news(board: Board, before: Seen) -> bool:
    """Whether a report has counted an error that an incident has not.

    Also one that is no fault by itself: it may be one soon, by a second source or another policy.
    """
    return any(is_unseen(record, before or ()) for record in _error_records(board))


def last_reported(gpu: GpuHealth | None, signal: datetime | None) -> datetime | None:
    """Return the date of the youngest XID of a report, or of a signal that is younger."""
    dates = [entry.last_seen for entry in gpu.xids] if gpu else []
    return max((*dates, signal) if signal else dates, default=None)


def with_reported(board: Board, before: Seen) -> Seen:
    """Return what is taken into account from now on: all that is reported, and what was before.

    Also what is no fault while another one stands, as the timeouts behind an error are. A report
    without an error proves nothing, so an earlier one is dropped only for want of room.
    """
    reported = {
        record.key: SeenSignal(
            code=record.code,
            gpu_instance=record.gi,
            compute_instance=record.ci,
            placement_start=record.start,
            count=record.count,
            first_seen_time=record.first_seen,
        )
        for record in sorted(_error_records(board))
    }
    if before is None and not reported:
        return None
    kept = {signal.key: signal for signal in before or ()}
    unanswered = [signal for key, signal in kept.items() if key not in reported]
    known = [reported[key] for key in kept if key in reported]
    fresh = [signal for key, signal in reported.items() if key not in kept]
    room = max(SEEN_LIMIT - len(known) - len(fresh), 0)
    # What the report lacks goes first: if it comes back, its date decides whether it is new.
    found = [*known, *fresh][:SEEN_LIMIT] + unanswered[:room]
    return tuple(sorted(found, key=lambda signal: signal.key))


def slices_named(board: Board, before: Seen) -> frozenset[str]:
    """Return the UUIDs of the slices that the errors taken into account named themselves.

    Instance ids are resolved as they are now. An id that was used again adds a slice too many.
    """
    numbers = {signal.gpu_instance for signal in before or () if signal.gpu_instance >= 0}
    instances = board.gpu.instances if board.gpu else ()
    return frozenset(instance.uuid for instance in instances if instance.gi in numbers)


def _error_records(board: Board) -> list[Record]:
    xids = board.gpu.xids if board.gpu and not isinstance(board.verdict, Unknown) else ()
    return [Record.of(entry) for entry in xids if rule_of(entry.code).rule not in _NO_FAULT]


def by_clock_of_now(incident: Incident, node: str, report: NodeHealth) -> Incident:
    """Return an incident of a node with its dates by the clock that the node has now."""
    status, now = incident.status, min(max(report.clock_set_back_ms, 0), MOST_SET_BACK)
    noted, fault = status.stay.clock_set_back_ms, status.fault
    # Without a recorded sum it is unknown by which clock the dates were copied: they stay.
    before = now if noted is None else noted
    back = timedelta(milliseconds=max(now - before, 0))
    if now == noted or incident.node != node:
        return incident

    def moved(moment: datetime) -> datetime:
        # The sum is the node's own: it must not make a date that cannot be read again.
        return moment - min(back, moment - EARLIEST)

    def kept(moment: datetime | None) -> datetime | None:
        return moment and moved(moment)

    def with_seen(intent: IntentRecord) -> IntentRecord:
        return msgspec.structs.replace(intent, seen_through_time=kept(intent.seen_through_time))

    def with_first(seen: SeenSignal) -> SeenSignal:
        return msgspec.structs.replace(seen, first_seen_time=moved(seen.first_seen_time))

    status = with_changes(
        status,
        stay={"clock_set_back_ms": now},
        fault={
            "seen_through": kept(fault.seen_through),
            "seen_signals": fault.seen_signals and tuple(map(with_first, fault.seen_signals)),
        },
        history={"handled_through": kept(status.history.handled_through)},
        policy={"intents": tuple(map(with_seen, status.policy.intents))},
    )
    return msgspec.structs.replace(incident, status=status)
