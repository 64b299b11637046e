"""Incidents in a table, one line each. Pure."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from draguard.cluster.find_incident import short
from draguard.cluster.fleet_status import severity
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
    """Different pods that hold, or held, a device in scope."""
    says: str


def lines(incidents: Iterable[Incident], *, closed: bool, node: str = "") -> tuple[Line, ...]:
    """Return the open ones, the worst first; and closed ones after them, the youngest first."""
    mine = [one for one in incidents if not node or one.node == node]
    found = sorted((one for one in mine if one.open), key=severity)
    if closed:
        over = [one for one in mine if not one.open]
        found += sorted(over, key=lambda one: str(one.status.closed_at), reverse=True)
    return tuple(map(_line, found))


def _line(one: Incident) -> Line:
    affected = {(hold.namespace, hold.pod) for hold in one.status.affected if hold.pod}
    return Line(
        name=one.name,
        node=one.node,
        uuid=one.spec.uuid,
        fault=one.status.fault,
        cause=one.status.cause,
        scope=one.status.scope.summary,
        phase=one.status.phase,
        mode=ours(one.status.mode),
        opened=one.metadata.creation_timestamp,
        closed=one.status.closed_at,
        pods=len(affected) + one.status.affected_left_out,
        says=one.status.message,
    )


def table(found: Iterable[Line], now: datetime, node: str = "") -> Table:
    rows = tuple(
        (
            Cell(one.name, short=short(one.name)),
            one.node,
            one.fault,
            one.cause,
            Cell(one.phase, "bad" if one.phase == "NeedsHuman" else "dim" if one.closed else ""),
            age(one.opened, now),
            str(one.pods),
            one.says,
        )
        for one in found
    )
    columns = ("INCIDENT", "NODE", "CLASS", "CAUSE", "PHASE", "AGE", "PODS", "MESSAGE")
    where = f" on {node}" if node else ""
    return Table(columns, rows, nothing=f"no open incidents{where}")
