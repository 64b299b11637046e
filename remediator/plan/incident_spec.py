"""What an incident records as found: how it opens, and its status after each look. Pure."""

from datetime import datetime, timedelta

import msgspec

from kubeapi.types import ObjectMeta
from remediator.diagnose.fault import SEVERITY, Fault, FaultClass, Unknown, faults_of, weight, worst
from remediator.diagnose.scope import in_words, parts_of
from remediator.model import incident as words
from remediator.model.incident import (
    SCHEMA_VERSION,
    Incident,
    IncidentSpec,
    IncidentStatus,
    ScopeRecord,
    Target,
)
from remediator.model.taint_rule import Rule
from remediator.plan import history
from remediator.plan.case import Case
from remediator.plan.escalation import Demand, is_later
from remediator.plan.words import class_of, severity, xid_in
from remediator.policy.table import Policy


def open_incidents(case: Case) -> tuple[Incident, ...]:
    """Return the open incidents of a GPU, the one that leads first: the oldest."""
    return tuple(incident for incident in case.incidents if incident.open)


def unhandled(case: Case, policy: Policy, now: datetime) -> tuple[Fault, ...]:
    """Return the faults that no closed incident has dealt with, in classes that are not off.

    What was over long before this incident began is none of its business, even when the
    incident that dealt with it has been pruned.
    """
    found = faults_of(case.verdict)
    if not found:
        return ()
    opened = open_incidents(case)
    begun_at = opened[0].metadata.creation_timestamp if opened else None
    ends = [incident.status.handled_through for incident in case.incidents if not incident.open]
    handled = max((end for end in ends if end is not None), default=None)
    return tuple(
        fault
        for fault in found
        if policy.row(fault.fault_class, case.place).mode != "off"
        and (
            fault.ended is None
            or handled is None
            or is_later(fault.last_seen, handled, case.reported_at)
        )
        and (fault.ended is None or _is_fresh(case, fault, policy, begun_at, now))
    )


def _is_fresh(
    case: Case, fault: Fault, policy: Policy, begun_at: datetime | None, now: datetime
) -> bool:
    """Whether a fault was not over for a soak time when its incident began; None: it begins now.

    By the node's clock where that is behind: else it would lose every contained error. The age of
    a report says how far at most, and much too much where nothing has changed for a while. While
    our clock is not trusted, the node's counts instead. When an incident began is known by the API
    server's clock, and by its agent's Lease how far the node's is behind that.
    """
    moment, behind = begun_at or now, case.behind
    if case.clock_doubt and case.reported_at and (begun_at is None or behind is None):
        moment, behind = case.reported_at, timedelta()
    if behind is None:
        behind = max(now - case.reported_at, timedelta()) if case.reported_at else timedelta()
    soak = policy.row(fault.fault_class, case.place).soak
    return moment - behind < fault.last_seen + soak


def opens(case: Case, fault: Fault, policy: Policy, now: datetime) -> bool:
    """A fault that stands opens an incident; a contained one, while it is fresh, too.

    Any other that is over is over by the driver's own word.
    """
    fresh = _is_fresh(case, fault, policy, None, now)
    return fault.ended is None or (fault.fault_class == "contained" and fresh)


def stood(fault: Fault, current: Incident, kept: tuple[Rule, ...]) -> bool:
    """Whether a fault stands, is contained, or may have stood earlier in this incident.

    One that is over and worse than anything here was over when it was first seen: it
    opens no incident, so it widens none either, and siblings of a sick slice stay free.
    """
    known = (current.status.fault, *(rule.fault for rule in kept))
    listed = severity(fault.fault_class) <= max(map(severity, known))
    return fault.ended is None or fault.fault_class == "contained" or listed


def credible(faults: list[Fault], current: Incident) -> list[Fault]:
    """Leave out what a program may have made up, where anything better is known of an incident.

    A forged line must not worsen the class of a real incident, nor begin its soak anew.
    """
    proven = [fault for fault in faults if not fault.forgeable]
    sources = set(current.status.sources) - {"Syslog"}
    return proven if proven or sources else faults


def begun(case: Case, standing: tuple[Rule, ...]) -> Incident:
    """Begin an incident; where rules stand without an incident it starts from them."""
    number = max((words.number_of(incident.name) for incident in case.incidents), default=0) + 1
    meta = ObjectMeta(name=words.incident_name(case.uuid, number))
    opened = Incident(meta, IncidentSpec(case.node, case.uuid))
    why = ("rules of ours stand and their incident is gone",) if standing else ()
    return adopted(case, opened, standing, why)


def adopted(
    case: Case, current: Incident, standing: tuple[Rule, ...], why: tuple[str, ...] = ()
) -> Incident:
    """Return an incident without a status, filled from the rules that stand."""
    leading = max(standing, key=lambda rule: severity(rule.fault), default=None)
    status = msgspec.structs.replace(
        current.status,
        schema_version=SCHEMA_VERSION,
        node=case.node,
        fault=leading.fault if leading else SEVERITY[0],
        cause=leading.cause if leading else "",
        evidence=why,
        scope=ScopeRecord("", tuple(sorted(_target(rule) for rule in standing))),
    )
    return msgspec.structs.replace(current, status=status)


def _target(rule: Rule) -> Target:
    return Target(rule.device.driver, rule.device.pool, rule.device.device, rule.uuid)


def recorded(
    case: Case,
    current: Incident,
    demands: tuple[Demand, ...],
    kept: tuple[Rule, ...],
    now: datetime,
) -> Incident:
    """Return the incident so far: class and evidence only grow, the scope follows the evidence.

    It goes on under the node that has the board now.
    """
    node = current.node if isinstance(case.verdict, Unknown) else case.node
    status = msgspec.structs.replace(current.status, node=node)
    if demands:
        status = _found(case, msgspec.structs.replace(current, status=status), demands, kept, now)
    return msgspec.structs.replace(current, status=status)


def _found(
    case: Case,
    current: Incident,
    demands: tuple[Demand, ...],
    kept: tuple[Rule, ...],
    now: datetime,
) -> IncidentStatus:
    faults = tuple(demand.fault for demand in demands)
    fault_class = worst((class_of(current.status.fault), *(fault.fault_class for fault in faults)))
    targets = {target for demand in demands for target in demand.targets}
    targets |= {_target(rule) for rule in kept}
    # What was in scope stays so while it is not published, or not under its UUID.
    known = {device.device for device in case.inventory if device.uuid is not None}
    targets |= {target for target in current.status.scope.devices if target.name not in known}
    found = tuple(sorted(targets))
    sources = {*current.status.sources, *(source for fault in faults for source in fault.sources)}
    mine = parts_of(case.gpu, case.inventory) if case.gpu else []
    # XIDs that are no longer reported: each is recorded once, one line for each code, and stays
    # true. `recovery` needs to see the end of those, too.
    xids = {str(fault.xid) for fault in faults} | {""}
    earlier = (line for line in current.status.evidence if xid_in(line) not in xids)
    seen = (
        *_kept(current, history.LOST),
        *_relapse(case, current, now),
        *(fault.evidence for fault in faults),
        *earlier,
        *case.remarks,
    )
    return msgspec.structs.replace(
        current.status,
        fault=fault_class,
        cause=_cause(current.status, faults, fault_class),
        evidence=tuple(dict.fromkeys(seen)),
        sources=tuple(sorted(sources)),
        scope=ScopeRecord(in_words(found, mine), found) if case.gpu else current.status.scope,
    )


def _relapse(case: Case, current: Incident, now: datetime) -> tuple[str, ...]:
    """Return the line that reports a relapse: found at the opening, and kept."""
    if current.status.phase_since:
        return _kept(current, history.RELAPSE)
    before = history.relapse_of(case.incidents, current, now)
    return (history.relapse_in_words(before),) if before else ()


def _kept(current: Incident, begin: str) -> tuple[str, ...]:
    """Return the lines of an incident that begin so."""
    return tuple(line for line in current.status.evidence if line.startswith(begin))


def _cause(status: IncidentStatus, faults: tuple[Fault, ...], fault_class: FaultClass) -> str:
    """Return the signal that names the incident; once chosen it stays while its class leads."""
    leading = {fault.cause: fault for fault in faults if fault.fault_class == fault_class}
    if not leading or (status.fault == fault_class and status.cause in leading):
        return status.cause
    return min(leading.values(), key=weight).cause
