"""Which incident a GPU's faults belong to, and what that incident records as found.

A GPU has at most one incident that goes on: the oldest open one that has a status leads, and
younger ones are closed in its favour. It deals with the faults that no closed incident has dealt
with. Its class and evidence only grow; its scope follows the evidence.

Opening an incident takes two writes: the object, then its status. A crash between them leaves an
empty status; so does a backup that is restored without it. It is filled again from the rules that
stand: they name the GPU, class and cause. The number of failures is counted from the GPU's other
incidents, as always. What only the status knew is taken at its worst: the soak starts over, a
confirmed repair must be confirmed again, and every end that the cause may have is awaited.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from kubeapi.types import ObjectMeta
from remediator.diagnose import ends
from remediator.diagnose.fault import (
    SEVERITY,
    Fault,
    FaultClass,
    Unknown,
    faults_of,
    weight,
    worst,
)
from remediator.diagnose.scope import in_words, parts_of
from remediator.model.incident import (
    Incident,
    IncidentSpec,
    concerns,
    incident_name,
    number_of,
)
from remediator.model.incident_caps import cut_to_limits
from remediator.model.incident_status import (
    SCHEMA_VERSION,
    IncidentStatus,
    SeenSignal,
    Target,
    TimelineEntry,
    with_changes,
)
from remediator.model.taint_rule import Rule
from remediator.plan import correlation, history, needs, recovery, signals
from remediator.plan.board import Board
from remediator.plan.clocks import stay_of
from remediator.plan.effects import Demand
from remediator.plan.finding import FRESH
from remediator.plan.overrides import with_inherited
from remediator.plan.signals import is_later
from remediator.plan.words import LOST, RULES_ALONE, class_of, severity, xid_in
from remediator.policy.table import Policy

NOTHING_LEFT = "nothing is tainted for it, and no fault that opens an incident is seen any more"
"""Why an incident ends of which nothing was written down."""


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """The incident that a GPU's faults belong to now."""

    incident: Incident
    """As stored, or as it is about to be opened, or filled again."""
    faults: tuple[Fault, ...] = ()
    """What it deals with, the most informative first."""
    duplicates: tuple[Incident, ...] = ()
    """Younger open incidents of the GPU."""
    ends: str = ""
    """Why it ends at once: nothing was written down for it, and nothing stands."""


def lead(
    board: Board,
    standing: tuple[Rule, ...],
    displaced: tuple[Rule, ...],
    policy: Policy,
    now: datetime,
) -> Lead | str:
    """Return the incident that leads, or why there is none.

    `standing` are the rules that may stay; `displaced` those whose names stand for other hardware,
    so that their own is still to be found.
    """
    opened = _leading_first(board)
    stored = opened[0] if opened else None
    faults = sorted(unhandled_faults(board, policy, now), key=weight)
    if stored is not None and not stored.blank:
        return _lead(stored, faults, standing, opened[1:])
    # The process can die, or rules stop being served, after a rule is made and before the status of
    # its incident lists it: that one is in `unseen` alone.
    rules = standing or displaced or (board.rules.unseen if stored else ())
    empty = not rules and not any(opens(board, fault, policy, now) for fault in faults)
    if stored is not None:
        found = _lead(fill_from_rules(board, stored, rules, now), faults, standing, opened[1:])
        unclear = isinstance(board.verdict, Unknown) or board.trust.refusal("release")
        ends = empty and not (unclear or recovery.unseen_rules(board))
        return msgspec.structs.replace(found, ends=NOTHING_LEFT if ends else "")
    if empty:
        return "nothing to do"
    if _are_of_others(board, rules):
        return "its rules are another node's"
    return _lead(with_inherited(board, new_incident(board, rules), now), faults, standing)


def _lead(
    incident: Incident,
    faults: list[Fault],
    standing: tuple[Rule, ...],
    duplicates: tuple[Incident, ...] = (),
) -> Lead:
    incident = _with_duplicates(incident, duplicates)
    mine = [fault for fault in faults if _may_have_stood(fault, incident, standing)]
    return Lead(
        incident=incident, faults=tuple(without_forged(mine, incident)), duplicates=duplicates
    )


def _with_duplicates(leading: Incident, duplicates: tuple[Incident, ...]) -> Incident:
    """Return the leading incident with what those wait for that are closed in its favour."""
    known = [leading, *(other for other in duplicates if not other.blank)]
    if len(known) == 1:
        return leading
    gravest = max(known, key=lambda it: severity(it.status.fault.fault_class)).status.fault
    awaited = {end for it in known for end in it.status.fault.awaited_ends}
    classes = (name for it in known for name in it.status.fault.classes)
    waits = any(it.status.recovery.untaint == "OnConfirmation" for it in known)
    status = with_changes(
        leading.status,
        fault={
            "fault_class": gravest.fault_class,
            "classes": _by_severity(classes),
            "cause": gravest.cause,
            "awaited_ends": tuple(sorted(awaited)),
        },
        recovery={"untaint": "OnConfirmation" if waits else leading.status.recovery.untaint},
    )
    return msgspec.structs.replace(leading, status=status)


def leading_incident(board: Board) -> Incident | None:
    """Return the open incident of a GPU that leads, as stored."""
    return next(iter(_leading_first(board)), None)


def _leading_first(board: Board) -> tuple[Incident, ...]:
    """Return open incidents of one GPU, the leading one first: the oldest that has a status.

    An incident without a status may have been closed long ago, and users may have withdrawn their
    intents since. So of these the one with a standing rule leads, else the youngest.
    """
    opened = [incident for incident in board.incidents if incident.open]
    ruled = {rule.incident for rule in board.rules.stored}
    blank = [incident for incident in opened if incident.blank]
    blank.sort(key=lambda incident: (incident.name not in ruled, -number_of(incident.name)))
    return (*(incident for incident in opened if not incident.blank), *blank)


def _are_of_others(board: Board, rules: tuple[Rule, ...]) -> bool:
    """Whether only rules of another node would open an incident here, of a GPU that is unknown.

    Two nodes may report one board. Its own node has made the rules, and opens the incident.
    """
    mine = any(rule.node == board.node for rule in rules)
    return isinstance(board.verdict, Unknown) and bool(rules) and not mine


def unhandled_faults(board: Board, policy: Policy, now: datetime) -> tuple[Fault, ...]:
    """Return the faults that no closed incident has dealt with, in classes that are not off.

    What was over long before this incident began is none of its business, even when the
    incident that dealt with it has been pruned.
    """
    found = faults_of(board.verdict)
    if not found:
        return ()
    leading = leading_incident(board)
    begun_at = leading.metadata.creation_timestamp if leading else None
    ends = [
        incident.status.history.handled_through for incident in board.incidents if not incident.open
    ]
    handled = max((end for end in ends if end is not None), default=None)
    return tuple(
        fault
        for fault in found
        if policy.row(fault.fault_class, board.place).mode != "off"
        and (
            # What stands is a fault whatever was closed: only one that is over can be dealt with.
            fault.ended is None
            or handled is None
            or is_later(fault.last_seen, handled, board.reported_at)
        )
        and (fault.ended is None or _is_fresh(board, fault, policy, begun_at, now))
    )


def _is_fresh(
    board: Board, fault: Fault, policy: Policy, begun_at: datetime | None, now: datetime
) -> bool:
    """Whether a fault was not over for a soak time when its incident began; None: it begins now.

    By the node's clock where that is behind: else it would lose every contained error. The age of
    a report says how far at most, and much too much where nothing has changed for a while. While
    our clock is not trusted, the node's counts instead. When an incident began is known by the API
    server's clock, and by its agent's Lease how far the node's is behind that.
    """
    moment, behind = begun_at or now, board.machine.agent.behind
    if (
        board.trust.refusal("end a clock")
        and board.reported_at
        and (begun_at is None or behind is None)
    ):
        moment, behind = board.reported_at, timedelta()
    if behind is None:
        behind = max(now - board.reported_at, timedelta()) if board.reported_at else timedelta()
    soak = policy.row(fault.fault_class, board.place).soak
    return moment - behind < fault.last_seen + soak


def opens(board: Board, fault: Fault, policy: Policy, now: datetime) -> bool:
    """A fault that stands opens an incident; a contained one, while it is fresh, too.

    Any other that is over is over by the driver's own word.
    """
    fresh = _is_fresh(board, fault, policy, None, now)
    return fault.ended is None or (fault.fault_class == "contained" and fresh)


def _may_have_stood(fault: Fault, current: Incident, kept: tuple[Rule, ...]) -> bool:
    """Whether a fault stands, is contained, or may have stood earlier in this incident.

    One that is over and worse than anything here was over when it was first seen: it
    opens no incident, so it widens none either, and siblings of a sick slice stay free.
    """
    known = (current.status.fault.fault_class, *(rule.fault for rule in kept))
    listed = severity(fault.fault_class) <= max(map(severity, known))
    return fault.ended is None or fault.fault_class == "contained" or listed


def without_forged(faults: list[Fault], current: Incident) -> list[Fault]:
    """Leave out what a program may have made up, where anything better is known of an incident.

    A forged line must not worsen the class of a real incident, nor begin its soak anew.
    """
    proven = [fault for fault in faults if not fault.forgeable]
    sources = set(current.status.fault.sources) - {"Syslog"}
    return proven if proven or sources else faults


def new_incident(board: Board, standing: tuple[Rule, ...]) -> Incident:
    """Begin an incident; where rules stand without an incident it starts from them."""
    # Not their count: old incidents are pruned.
    number = max((number_of(incident.name) for incident in board.incidents), default=0) + 1
    # Rules of a deleted incident go on to name it: the one that takes them over has its name.
    named = (rule.incident for rule in standing if concerns(rule.incident, board.uuid))
    number = max((number, *map(number_of, named)))
    meta = ObjectMeta(name=incident_name(board.uuid, number))
    opened = Incident(meta, IncidentSpec(board.node, board.uuid))
    why = (RULES_ALONE,) if standing else ()
    return _from_rules(board, opened, standing, why)


def _from_rules(
    board: Board, current: Incident, standing: tuple[Rule, ...], why: tuple[str, ...] = ()
) -> Incident:
    """Return an incident without a status, filled from the rules that stand."""
    leading = max(standing, key=lambda rule: severity(rule.fault), default=None)
    awaited = {end for rule in standing for end in ends.ends_at_worst(rule.fault, rule.cause)}
    status = with_changes(
        current.status,
        schema_version=SCHEMA_VERSION,
        stay={"node": board.node},
        fault={
            "fault_class": leading.fault if leading else SEVERITY[0],
            "cause": leading.cause if leading else "",
            "evidence": why,
            "classes": _by_severity(rule.fault for rule in standing),
            "awaited_ends": tuple(sorted(awaited)),
        },
        scope={"summary": "", "devices": tuple(sorted(_target(rule) for rule in standing))},
    )
    return msgspec.structs.replace(current, status=status)


def fill_from_rules(
    board: Board, blank: Incident, standing: tuple[Rule, ...], now: datetime
) -> Incident:
    """Return an incident without a status, filled from the rules that stand.

    An error that was reported long ago is not new to it. Instances are numbered anew, so an old
    error must not be read as one of the instance that has its number now.
    """
    # Between the two writes of an opening nothing is lost, and its error is new.
    if not history.is_lost(blank, now):
        return _from_rules(board, blank, standing)
    found = _from_rules(board, blank, standing, (f"{LOST}filled again from the rules that stand",))
    faults = faults_of(board.verdict) if standing else ()
    old = [fault.last_seen for fault in faults if abs(now - fault.last_seen) > FRESH]
    fresh = {
        fault.record for fault in faults if fault.record and abs(now - fault.last_seen) <= FRESH
    }
    keys = {(record.code, record.gi, record.ci, record.start) for record in fresh}
    known: tuple[SeenSignal, ...] = signals.with_reported(board, None) or ()
    others = tuple(signal for signal in known if signal.key not in keys)
    status = with_changes(
        found.status,
        fault={
            "seen_through": max(old, default=None),
            "seen_signals": others if old else None,
        },
    )
    return msgspec.structs.replace(found, status=status)


def _close_empty(board: Board, blank: Incident, now: datetime) -> IncidentStatus:
    """Return the closing status of an incident without one, beside another of its GPU that leads.

    It was closed before: it still counts, and it is no duplicate.
    """
    status = fill_from_rules(board, blank, (), now).status
    return with_changes(
        status, phase="Closed", phase_since=now, message=NOTHING_LEFT, history={"closed_at": now}
    )


def _close_duplicate(incident: Incident, leading: Incident, now: datetime) -> IncidentStatus:
    """Return how a younger open incident of a GPU is closed in favour of the one that leads."""
    why = f"{leading.name} is the older incident of this GPU and continues"
    closed = with_changes(
        incident.status,
        phase="Closed",
        phase_since=now,
        message=why,
        conditions=(),
        scope={"rules": ()},
        history={"closed_at": now, "duplicate_of": leading.name},
        timeline=(*incident.status.timeline, TimelineEntry(now, "Closed", why)),
    )
    return cut_to_limits(closed)


def close_duplicates(
    board: Board, leading: Incident, duplicates: tuple[Incident, ...], now: datetime
) -> tuple[tuple[Incident, IncidentStatus], ...]:
    """Return how younger incidents of the GPU are closed in favour of the one that leads."""
    # Until rules are served again, the status of a duplicate lists those that it has made.
    if recovery.unseen_rules(board):
        return ()
    return tuple(
        (
            double,
            _close_empty(board, double, now)
            if double.blank
            else _close_duplicate(double, leading, now),
        )
        for double in duplicates
    )


def _target(rule: Rule) -> Target:
    return Target(rule.device.driver, rule.device.pool, rule.device.device, rule.uuid)


def with_findings(
    board: Board,
    current: Incident,
    demands: tuple[Demand, ...],
    kept: tuple[Rule, ...],
    now: datetime,
) -> Incident:
    """Return the incident so far: class and evidence only grow, the scope follows the evidence.

    It goes on under the node that has the board now.
    """
    status = with_changes(current.status, repair={"request": needs.seen_call(board, current, now)})
    if current.node != board.node and not isinstance(board.verdict, Unknown):
        # Another machine, with neighbours and boots of its own. That its faults of before are over
        # is shown by the date of the epoch there.
        here = stay_of(board)
        status = with_changes(
            status,
            stay={
                "node": board.node,
                "node_uid": here.node_uid,
                "boot_id": here.boot_id,
                "epoch": here.epoch,
                "siblings": None,
                # What it has copied from the other node is not moved by this one's clock.
                "clock_set_back_ms": None,
            },
        )
    if demands:
        status = _findings(
            board, msgspec.structs.replace(current, status=status), demands, kept, now
        )
    return msgspec.structs.replace(current, status=status)


def _findings(
    board: Board,
    current: Incident,
    demands: tuple[Demand, ...],
    kept: tuple[Rule, ...],
    now: datetime,
) -> IncidentStatus:
    faults = tuple(demand.fault for demand in demands)
    fault_class = worst(
        (class_of(current.status.fault.fault_class), *(fault.fault_class for fault in faults))
    )
    targets = {target for demand in demands for target in demand.targets}
    targets |= {_target(rule) for rule in kept}
    # What was in scope stays so while it is not published, or not under its UUID.
    known = {device.device for device in board.inventory if device.uuid is not None}
    targets |= {target for target in current.status.scope.devices if target.name not in known}
    found = tuple(sorted(targets))
    sources = {
        *current.status.fault.sources,
        *(source for fault in faults for source in fault.sources),
    }
    mine = parts_of(board.gpu, board.inventory) if board.gpu else []
    awaited = {*current.status.fault.awaited_ends}
    if board.gpu:
        # Once a reset was seen, no later signal takes it back: what stands is awaited anew.
        if recovery.was_reset(board, board.gpu, current.status):
            awaited = {*ends.left_after_reset(awaited)}
        awaited |= {*ends.awaited_ends(board.gpu, faults)}
    # A forged line begins no longer soak.
    classes = (fault.fault_class for fault in faults if not fault.forgeable)
    # XIDs that are no longer reported: each is recorded once, one line for each code, and stays
    # true. `recovery` needs to see the end of those, too.
    xids = {str(fault.xid) for fault in faults} | {""}
    earlier = (line for line in current.status.fault.evidence if xid_in(line) not in xids)
    seen = (
        *_lines_beginning(current, LOST),
        *_lines_beginning(current, RULES_ALONE),
        *_relapse(board, current, now),
        *(fault.evidence for fault in faults),
        *earlier,
        *board.remarks,
    )
    status = with_changes(
        current.status,
        fault={
            "fault_class": fault_class,
            "classes": _by_severity((*current.status.fault.classes, *classes)),
            "cause": _cause(current.status, faults, fault_class),
            "evidence": tuple(dict.fromkeys(seen)),
            "sources": tuple(sorted(sources)),
            "awaited_ends": tuple(sorted(awaited)),
        },
        scope={"summary": in_words(found, mine), "devices": found} if board.gpu else {},
    )
    # Here and not with the other dates: the class that it belongs to is stored beside a new rule.
    since = correlation.cause_since(board, current, status.fault, now)
    return with_changes(status, fault={"cause_since": since})


def _by_severity(classes: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(classes), key=lambda each: (severity(each), each)))


def _relapse(board: Board, current: Incident, now: datetime) -> tuple[str, ...]:
    """Return the line that reports a relapse: found at the opening, and kept."""
    if current.status.phase_since:
        return _lines_beginning(current, history.RELAPSE)
    before = history.relapse_of(board.incidents, current, now)
    return (history.relapse_in_words(before),) if before else ()


def _lines_beginning(current: Incident, begin: str) -> tuple[str, ...]:
    """Return the lines of an incident that begin so."""
    return tuple(line for line in current.status.fault.evidence if line.startswith(begin))


def _cause(status: IncidentStatus, faults: tuple[Fault, ...], fault_class: FaultClass) -> str:
    """Return the signal that names the incident; once chosen it stays while its class leads."""
    leading = {fault.cause: fault for fault in faults if fault.fault_class == fault_class}
    if not leading or (status.fault.fault_class == fault_class and status.fault.cause in leading):
        return status.fault.cause
    return min(leading.values(), key=weight).cause
