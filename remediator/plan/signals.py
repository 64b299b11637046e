"""Which records of a report an incident has taken into account, so that others are new. Pure."""

from datetime import datetime

from exporter.model.node_health import GpuHealth
from remediator.diagnose.fault import Record, Unknown
from remediator.diagnose.xid_table import RuleName, rule_of
from remediator.model.incident import SEEN_LIMIT, SeenSignal
from remediator.plan.case import Case

Seen = tuple[SeenSignal, ...] | None
_NO_FAULT = frozenset[RuleName]({"never", "named"})
"""Rules of XIDs that are never a fault themselves. What another one names ends by dates."""


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


def has_news(case: Case, before: Seen) -> bool:
    """Whether a report has counted an error that an incident has not.

    Also one that is no fault by itself: it may be one soon, by a second source or another policy.
    """
    return any(is_unseen(record, before or ()) for record in _error_records(case))


def last_reported(gpu: GpuHealth | None, signal: datetime | None) -> datetime | None:
    """Return the date of the youngest XID of a report, or of a signal that is younger."""
    dates = [entry.last_seen for entry in gpu.xids] if gpu else []
    return max((*dates, signal) if signal else dates, default=None)


def seen(case: Case, before: Seen) -> Seen:
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
        for record in sorted(_error_records(case))
    }
    if before is None and not reported:
        return None
    kept = {signal.key: signal for signal in before or ()}
    unanswered = [signal for key, signal in kept.items() if key not in reported]
    known = [reported[key] for key in kept if key in reported]
    fresh = [signal for key, signal in reported.items() if key not in kept]
    room = max(SEEN_LIMIT - len(known) - len(fresh), 0)
    found = [*known, *fresh][:SEEN_LIMIT] + unanswered[:room]
    return tuple(sorted(found, key=lambda signal: signal.key))


def named_before(case: Case, before: Seen) -> frozenset[str]:
    """Return the UUIDs of the slices that the errors taken into account named themselves.

    Instance ids are resolved as they are now. An id that was used again adds a slice too many.
    """
    numbers = {signal.gpu_instance for signal in before or () if signal.gpu_instance >= 0}
    instances = case.gpu.instances if case.gpu else ()
    return frozenset(instance.uuid for instance in instances if instance.gi in numbers)


def _error_records(case: Case) -> list[Record]:
    xids = case.gpu.xids if case.gpu and not isinstance(case.verdict, Unknown) else ()
    return [Record.of(entry) for entry in xids if rule_of(entry.code).rule not in _NO_FAULT]
