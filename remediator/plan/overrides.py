"""Intents of users for the GPU of an incident, and their state.

A user outranks us, for a time and for what was known then: a confirmed repair is for the signals
until then, and for a state that NVML reads until that has ended; `ignore` for the class of fault
that its user could see. What goes beyond that overtakes it. What was read is recorded in the
status, so it is reported once and survives a restart. Pure.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from exporter.model.node_health import GpuHealth
from remediator.diagnose.ends import awaited_ends, not_seen
from remediator.diagnose.fault import SEVERITY, Fault, Record, Surroundings, Unknown
from remediator.model import intent as words
from remediator.model.incident import Incident, with_intent
from remediator.model.incident_status import TimelineEntry, with_changes
from remediator.model.intent import Intent, IntentRecord, Kind, counts
from remediator.plan import clocks, history
from remediator.plan.board import Board
from remediator.plan.signals import is_counted, is_later, last_reported
from remediator.plan.words import severity


def read_intents(
    board: Board,
    incident: Incident,
    signal: datetime | None,
    worst: str,
    now: datetime,
    *,
    news: bool = False,
) -> tuple[IntentRecord, ...]:
    """Return the intents of users, and whether each counts now.

    `signal` is the youngest signal of the incident, by the node's clock; with `news` an error is
    new, whatever its date. `worst` is the worst class that waits for no evidence: a fault that does
    may pass, and what was overtaken stays so.
    """
    before = {record.kind: record for record in incident.status.policy.intents}
    wiped = bool(incident.metadata.uid) and not incident.status.timeline
    found: list[IntentRecord] = []
    for kind, intent in _merged_intents(board.incidents, incident, now).items():
        recorded = before.get(kind)
        known = recorded if recorded is not None and recorded.concerns(intent) else None
        if kind == "RepairConfirmed" and known is None and not board.machine.believed:
            # Which errors it is for is not known before the next report.
            found += [recorded] if recorded is not None and recorded.state != "InForce" else []
            continue
        since = known.seen_time if known else None
        seen = clocks.run("request", since, now, fact=clocks.unless_dated(board, since, fact=True))
        through = known.seen_through_time if known else last_reported(board.gpu, signal)
        later = signal is not None and is_later(signal, through, board.reported_at)
        # With its status an incident has lost which signals a confirmation was given for.
        # One that is read together with a new signal may have been given before that.
        unread = wiped or (news and incident.status.fault.seen_through is not None)
        unread = unread or _is_undated(incident, kind, recorded, intent)
        later |= unread if known is None else news
        seen_fault = known.seen_fault if known else ""
        seen_fault = seen_fault or _class_seen(board, incident, kind, intent)
        worse = bool(seen_fault and worst) and severity(worst) > severity(seen_fault)
        beyond = {"RepairConfirmed": later, "Ignore": worse}.get(kind, False)
        state = _state(intent, known, now, beyond=beyond)
        found.append(
            IntentRecord(
                kind=kind,
                until=intent.until,
                by=intent.by,
                reason=intent.reason,
                state=state,
                seen_time=seen or now,
                seen_through_time=through,
                seen_fault=seen_fault,
            )
        )
    return tuple(found)


def has_begun(board: Board, stored: Incident, faults: Iterable[Fault]) -> bool:
    """Whether a fault that NVML reads as a state has begun since the incident was stored.

    It has no date. But the incident awaits the end of each that it has seen, under a confirmation
    only until the end is seen (`without_seen_ends`): one whose end is not awaited has begun.
    """
    # What the log reports has a date: it can stand again while NVML is away.
    states = [fault for fault in faults if fault.sources == ("Nvml",)]
    gpu = board.gpu
    # A fault may await more than its own end, such as that remaps can be read.
    stand = set(not_seen(gpu, awaited_ends(gpu, states))) if gpu else set[str]()
    status = stored.status
    # By a user's word a GPU is healthy whose state could not be read: that ends no state.
    by_word = in_force(status.policy.intents, "RepairConfirmed") is not None
    was_well = status.recovery.healthy_since is not None and not by_word
    return bool(stand) and (was_well or not stand <= set(status.fault.awaited_ends))


def without_seen_ends(board: Board, incident: Incident, read: tuple[IntentRecord, ...]) -> Incident:
    """Return an incident that no longer awaits what has ended under a confirmation.

    Without one all are awaited until recovery is verified.
    """
    if board.gpu is None or isinstance(board.verdict, Unknown):
        return incident
    if in_force(read, "RepairConfirmed") is None:
        return incident
    left = not_seen(board.gpu, incident.status.fault.awaited_ends)
    status = with_changes(incident.status, fault={"awaited_ends": left})
    return msgspec.structs.replace(incident, status=status)


def _state(intent: Intent, known: IntentRecord | None, now: datetime, *, beyond: bool) -> str:
    """Return the state of an intent; what goes beyond that for which it was given overtakes it."""
    # It stays so: once the node's clock has caught up, the signal looks earlier again.
    if known is not None and known.state == "Overtaken":
        return "Overtaken"
    if not counts(intent, now):
        return "Expired"
    return "Overtaken" if beyond else "InForce"


def _class_seen(board: Board, incident: Incident, kind: Kind, intent: Intent) -> str:
    """Return the worst class that the user of an intent could see, "" while nothing is known.

    That is what was stored: a class that is found in the decision that reads the intent was not
    seen. A new incident has inherited the intent with what was seen of the one before. Where no
    status is left to say it, what is found now counts as seen. But an `ignore` in force leaves no
    rule: beside one it had been overtaken, or begins now.
    """
    stored = {other.name: other for other in board.incidents if other.status.timeline}
    name = incident.name if incident.name in stored else incident.spec.inherited_from
    seen = [
        _class_in(other, kind, intent)
        for other in stored.values()
        if other.open or name in (other.name, other.status.history.duplicate_of)
    ]
    known = [found for found in seen if found]
    if not known and kind == "Ignore" and any(rule.effect != "None" for rule in board.rules.stored):
        return SEVERITY[0]
    return max(known, key=severity) if known else _class_found(incident)


def _class_in(incident: Incident, kind: Kind, intent: Intent) -> str:
    """Return the class for which an incident has an intent, "" where it has none like it."""
    records = (record for record in incident.status.policy.intents if record.kind == kind)
    recorded = next((record for record in records if record.concerns(intent)), None)
    if recorded is None and incident.spec.intents.get(kind) != intent:
        return ""
    return (recorded.seen_fault if recorded else "") or _class_found(incident)


def _class_found(incident: Incident) -> str:
    """Return the class of an incident; one that nothing was found for has none yet."""
    return incident.status.fault.fault_class if incident.status.fault.cause else ""


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
    What else it says of the GPU it says while the incident goes on.
    """
    found = [
        (incident.status.fault.seen_signals, *confirmation)
        for incident in incidents
        if boot_id and incident.status.stay.boot_id == boot_id
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

    repaired = any(
        incident.open and _confirmation(gpu, incidents, incident, now) is not None
        for incident in incidents
    )
    return msgspec.structs.replace(around, confirmed=confirmed, repaired=repaired)


def _confirmation(
    gpu: GpuHealth | None, incidents: tuple[Incident, ...], incident: Incident, now: datetime
) -> tuple[datetime, datetime | None] | None:
    """Return when the repair of an incident was confirmed, and the youngest signal then.

    None where that does not count. A duplicate's counts for the incident that it doubles.
    """
    records = (
        record for record in incident.status.policy.intents if record.kind == "RepairConfirmed"
    )
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
        counted = counted and not incident.status.history.duplicate_of
    return (min(known.seen_time, now), known.seen_through_time) if known and counted else None


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
        and (other.open or other.status.history.duplicate_of == incident.name)
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


def with_read(incident: Incident, read: tuple[IntentRecord, ...], now: datetime) -> Incident:
    """Return an incident with what was read of its intents, and what its timeline says of that.

    It is stored beside what was found: what is found together with an intent must not look as if
    its user had seen it. An incident that is being opened has no timeline yet (`phase`).
    """
    status = incident.status
    texts = [in_words(record) for record in changes(status.policy.intents, read)]
    kinds = {record.kind for record in read}
    texts += [
        f"a user removed: {words.in_words(record.kind, record)}"
        for record in status.policy.intents
        # One that had ended already was reported when it did.
        if record.state == "InForce" and record.kind not in kinds
    ]
    lines = (TimelineEntry(now, status.phase, text) for text in texts if status.timeline)
    status = with_changes(status, policy={"intents": read}, timeline=(*status.timeline, *lines))
    return msgspec.structs.replace(incident, status=status)


def changes(old: Iterable[IntentRecord], new: Iterable[IntentRecord]) -> Iterator[IntentRecord]:
    """Give those that are new, were changed, or of which something else has become."""
    before = {former.kind: former for former in old}
    for record in new:
        known = before.get(record.kind)
        if known is None or known.state != record.state or not known.concerns(record):
            yield record


def in_words(record: IntentRecord) -> str:
    """Report the state of an intent."""
    by = f"a fault worse than {record.seen_fault}" if record.kind == "Ignore" else "a later signal"
    became = {"InForce": "in force", "Expired": "expired", "Overtaken": f"overtaken by {by}"}
    return f"{became.get(record.state, record.state)}: {words.in_words(record.kind, record)}"


def next_expiry(records: Iterable[IntentRecord]) -> datetime | None:
    """Return when the first intent that counts now expires."""
    ends = (record.until for record in records if record.state == "InForce")
    return min((end for end in ends if end is not None), default=None)
