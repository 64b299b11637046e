"""Incidents as a table. Pure."""

from collections.abc import Iterable
from datetime import datetime

from draguard.cluster.incident_lines import Line
from draguard.cluster.incidents import short_name
from draguard.phrases import age
from draguard.render.blocks import Cell, Table, Text

COLUMNS = ("INCIDENT", "NODE", "CLASS", "CAUSE", "PHASE", "AGE", "PODS")
WIDE = ("GPU", "SCOPE", "MODE", "NEEDS")


def incident_table(
    found: Iterable[Line], now: datetime, *, wide: bool = False, title: str = "", nothing: str = ""
) -> Table:
    """Return a row for each incident; `wide` adds columns before the message."""
    columns = (*COLUMNS, *(WIDE if wide else ()), "MESSAGE")
    return Table(columns, tuple(_row(line, now, wide=wide) for line in found), title, nothing)


def _row(line: Line, now: datetime, *, wide: bool) -> tuple[Text, ...]:
    more = (line.uuid, line.scope, line.mode, line.needs) if wide else ()
    return (
        Cell(line.name, short=short_name(line.name)),
        line.node,
        line.fault,
        line.cause,
        Cell(line.phase, "bad" if line.phase == "NeedsHuman" else "dim" if line.closed else ""),
        age(line.opened, now),
        str(line.pods),
        *more,
        line.message,
    )
