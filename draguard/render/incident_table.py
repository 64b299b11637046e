"""Incidents into one line each, and into a table. Pure."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from draguard.cluster.incidents import severity, short_name
from draguard.phrases import age
from draguard.render.blocks import Cell, Table
from remediator.model.incident import Incident
from remediator.plan.api_words import ours


class Line(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    node: str
    uuid: str
    fault: str
    cause: str
    scope: str
    phase: str
    mode: str
    opened: datetime | None
    closed: datetime | None
    pods: int
    """Different pods to which a device in scope is, or was, allocated."""
    message: str


def incident_lines(
    incidents: Iterable[Incident], *, closed: bool, node: str = ""
) -> tuple[Line, ...]:
    """Return the open ones, the worst first, and then closed ones, the youngest first."""
    mine = [incident for incident in incidents if not node or incident.node == node]
    found = sorted((incident for incident in mine if incident.open), key=severity)
    if closed:
        over = [incident for incident in mine if not incident.open]
        found += sorted(over, key=lambda incident: str(incident.status.closed_at), reverse=True)
    return tuple(map(_line, found))


def _line(incident: Incident) -> Line:
    status = incident.status
    affected = {(pod.namespace, pod.pod) for pod in status.affected if pod.pod}
    return Line(
        name=incident.name,
        node=incident.node,
        uuid=incident.spec.uuid,
        fault=status.fault,
        cause=status.cause,
        scope=status.scope.summary,
        phase=status.phase,
        mode=ours(status.mode),
        opened=incident.metadata.creation_timestamp,
        closed=status.closed_at,
        pods=len(affected) + status.affected_left_out,
        message=status.message,
    )


def incident_table(found: Iterable[Line], now: datetime, node: str = "") -> Table:
    rows = tuple(
        (
            Cell(line.name, short=short_name(line.name)),
            line.node,
            line.fault,
            line.cause,
            Cell(line.phase, "bad" if line.phase == "NeedsHuman" else "dim" if line.closed else ""),
            age(line.opened, now),
            str(line.pods),
            line.message,
        )
        for line in found
    )
    columns = ("INCIDENT", "NODE", "CLASS", "CAUSE", "PHASE", "AGE", "PODS", "MESSAGE")
    where = f" on {node}" if node else ""
    return Table(columns, rows, nothing=f"no open incidents{where}")
