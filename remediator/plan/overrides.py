"""Intents of users for the GPU of an incident, and their state.

A user outranks us, for a time. What was read is recorded in the status, so it is reported once and
survives a restart. Pure.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from exporter.model.node_health import GpuHealth
from remediator.diagnose.fault import Record, Surroundings
from remediator.model import intent as words
from remediator.model.incident import Incident, with_intent
from remediator.model.intent import Intent, IntentRecord, Kind, counts
from remediator.plan import history
from remediator.plan.board import Board
from remediator.plan.signals import is_counted, is_later, last_reported


def read_intents(
    board: Board, incident: Incident, signal: datetime | None, now: datetime, *, news: bool = False
) -> tuple[IntentRecord, ...]:
    """Return the intents of users, and whether each counts now.

    `signal` is the youngest signal of the incident, by the node's clock; with `news` an error is
    new, whatever its date.
    """
    before = {record.kind: record for record in incident.status.intents}
    wiped = bool(incident.metadata.uid) and not incident.status.timeline
    found: list[IntentRecord] = []
    for kind, intent in _merged_intents(board.incidents, incident, now).items():
        recorded = before.get(kind)
        known = recorded if recorded is not None and recorded.concerns(intent) else None
        if kind == "RepairConfirmed" and known is None and not board.machine.believed:
            # Which errors it is for is not known before the next report.
            found += [recorded] if recorded is not None and recorded.state != "InForce" else []
            continue
        seen_time = known.seen_time if known else now
        through = known.seen_through_time if known else last_reported(board.gpu, signal)
        later = signal is not None and is_later(signal, through, board.reported_at)
        # With its status an incident has lost which signals a confirmation was given for.
        # One that is read together with a new signal may have been given before that.
        unread = wiped or (news and incident.status.seen_through is not None)
        unread = unread or _is_undated(incident, kind, recorded, intent)
        later |= unread if known is None else news
        state = "InForce" if counts(intent, now) else "Expired"
        # It stays so: once the node's clock has caught up, the signal looks earlier again.
        overtaken = known is not None and known.state == "Overtaken"
        if overtaken or (kind == "RepairConfirmed" and state == "InForce" and later):
            state = "Overtaken"
        found.append(
            IntentRecord(
                kind=kind,
                until=intent.until,
                by=intent.by,
                reason=intent.reason,
                state=state,
                seen_time=seen_time,
                seen_through_time=through,
            )
        )
    return tuple(found)


def with_confirmed(
    around: Surroundings,
    gpu: GpuHealth | None,
    incidents: tuple[Incident, ...],
    boot_id: str,
    now: datetime,
) -> Surroundings:
    """Return the surroundings of a GPU with what users have confirmed of it, by its incidents.

    A confirmation is for the errors that its incident had counted when it was first read. They stay
    in the report until the next boot, so it counts until then, also once the incident is closed.
    """
    found = [
        (incident.status.seen_signals, *confirmation)
        for incident in incidents
        if boot_id and incident.status.opened_boot_id == boot_id
        if (confirmation := _confirmation(gpu, incidents, incident, now)) is not None
    ]

    def confirmed(last_seen: datetime, record: Record | None) -> datetime | None:
        # A count may begin again, and another error may have the key of a counted one.
        dates = (
            at
            for seen, at, through in found
            if not is_later(last_seen, through, around.reported_at)
            and (record is None or is_counted(record, seen))
        )
        return max(dates, default=None)

    return msgspec.structs.replace(around, confirmed=confirmed)


def _confirmation(
    gpu: GpuHealth | None, incidents: tuple[Incident, ...], incident: Incident, now: datetime
) -> tuple[datetime, datetime | None] | None:
    """Return when the repair of an incident was confirmed, and the youngest signal then.

    None where that does not count. A duplicate's counts for the incident that it doubles.
    """
    records = (record for record in incident.status.intents if record.kind == "RepairConfirmed")
    known = next(records, None)
    if incident.open:
        intent = _merged_intents(incidents, incident, now).get("RepairConfirmed")
        if intent is None or not counts(intent, now):
            return None
        if _is_undated(incident, "RepairConfirmed", known, intent):
            return None
        # It counts before it is recorded: in between, pods could be deleted for a GPU that is
        # repaired.
        if known is None or not known.concerns(intent):
            return now, last_reported(gpu, None)
        counted = known.state != "Overtaken"
    else:
        counted = known is not None and known.state == "InForce"
        counted = counted and not incident.status.duplicate_of
    return (known.seen_time, known.seen_through_time) if known and counted else None


def _is_undated(
    incident: Incident, kind: Kind, recorded: IntentRecord | None, intent: Intent
) -> bool:
    """Whether a duplicate's intent is read after one that has ended: it may be older than why."""
    if recorded is None or recorded.state == "InForce" or recorded.concerns(intent):
        return False
    return incident.spec.intents.get(kind) != intent


def _merged_intents(
    incidents: tuple[Incident, ...], incident: Incident, now: datetime
) -> dict[Kind, Intent]:
    """Return the incident's own and, where it has none that counts, those of its duplicates.

    A user sees two open incidents of one GPU and cannot know which of them leads.
    One that has expired hides none that counts; else the oldest leads.
    """
    doubles = [
        other
        for other in incidents
        if other.name != incident.name
        and not other.blank  # it may have been closed long ago
        and (other.open or other.status.duplicate_of == incident.name)
    ]
    doubles.sort(key=lambda other: other.name, reverse=True)
    merged: dict[Kind, Intent] = {}
    for only_counting in (False, True):
        for source in (*doubles, incident):
            merged |= {
                kind: intent
                for kind, intent in source.spec.intents.items()
                if counts(intent, now) >= only_counting
            }
    return merged


def with_inherited(board: Board, begun: Incident, now: datetime) -> Incident:
    """Return a new incident with the former intents of users for its GPU that still hold."""
    before, intents = history.inheritance(board.incidents, board.uuid, now)
    if not intents:
        return begun
    for kind, intent in intents.items():
        begun = with_intent(begun, kind, intent)
    spec = msgspec.structs.replace(begun.spec, inherited_from=before)
    return msgspec.structs.replace(begun, spec=spec)


def in_force(records: Iterable[IntentRecord], kind: Kind) -> IntentRecord | None:
    """Return the intent of a kind that counts now."""
    return next(
        (record for record in records if record.kind == kind and record.state == "InForce"), None
    )


def changes(old: Iterable[IntentRecord], new: Iterable[IntentRecord]) -> Iterator[IntentRecord]:
    """Give those that are new, were changed, or of which something else has become."""
    before = {former.kind: former for former in old}
    for record in new:
        known = before.get(record.kind)
        if known is None or known.state != record.state or not known.concerns(record):
            yield record


def in_words(record: IntentRecord) -> str:
    """Report the state of an intent."""
    became = {
        "InForce": "in force",
        "Expired": "expired",
        "Overtaken": "overtaken by a later signal",
    }
    return f"{became.get(record.state, record.state)}: {words.in_words(record.kind, record)}"


def next_expiry(records: Iterable[IntentRecord]) -> datetime | None:
    """Return when the first intent that counts now expires."""
    ends = (record.until for record in records if record.state == "InForce")
    return min((end for end in ends if end is not None), default=None)
