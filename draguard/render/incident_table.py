"""Incidents as a table, in which those that are alike share a row. Pure."""

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from draguard.cluster.incident_lines import Line
from draguard.phrases import age, gpu_name, some
from draguard.render.blocks import Cell, Table, Text

COLUMNS = ("INCIDENT", "GPU", "CLASS", "CAUSE", "PHASE", "AGE", "PODS")
WIDE = ("UUID", "SCOPE", "MODE", "NEEDS")
GROUPED_FROM = 3
"""Fewer incidents of one cause have a row each."""
_NUMBER = re.compile(r"\d+(?:[.:]\d+)*[smhd]?")
"""Counts and times, which differ from GPU to GPU and from look to look."""
ALL_ROWS = "incidents that differ only in place and numbers share a row; --all-rows shows each"


def add_rows_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--all-rows", action="store_true", help="a row for each incident, also of one cause"
    )


def grouped_lines(found: Iterable[Line]) -> tuple[tuple[Line, ...], ...]:
    """Return the incidents by row: those that differ in place, time and numbers only, if many.

    Closed ones are in order of time, so they share a row with those of the same day.
    """
    groups: dict[object, list[Line]] = {}
    for line in found:
        texts = (_NUMBER.sub("N", text) for text in (line.scope, line.message))
        day = line.closed and line.closed.date()
        same = (line.fault, line.cause, line.phase, line.deferred, line.mode, line.needs)
        groups.setdefault((*same, *texts, day), []).append(line)
    rows: list[tuple[Line, ...]] = []
    for group in groups.values():
        rows += [tuple(group)] if len(group) >= GROUPED_FROM else [(line,) for line in group]
    return tuple(rows)


def incident_table(
    found: Iterable[Line],
    now: datetime,
    *,
    wide: bool = False,
    grouped: bool = False,
    most: int | None = None,
    title: str = "",
    nothing: str = "",
) -> Table:
    """Return a row for each incident, or group; `wide` adds columns before the message."""
    columns = (*COLUMNS, *(WIDE if wide else ()), "MESSAGE")
    groups = grouped_lines(found) if grouped else tuple((line,) for line in found)
    rows = (
        _row(*group, now=now, wide=wide) if len(group) == 1 else _group(group, now)
        for group in groups[:most]
    )
    return Table(columns, tuple(rows), title, nothing)


def _row(line: Line, *, now: datetime, wide: bool) -> tuple[Text, ...]:
    more = (line.uuid, line.scope, line.mode, line.needs) if wide else ()
    return (
        line.name if wide else line.short,
        gpu_name(line.node, line.index),
        line.fault,
        line.cause,
        _phase(line),
        age(line.opened, now),
        str(line.pods),
        *more,
        line.message,
    )


def _phase(line: Line) -> Cell:
    return Cell(line.phase, "bad" if line.phase == "NeedsHuman" else "dim" if line.closed else "")


def _group(lines: Sequence[Line], now: datetime) -> tuple[Text, ...]:
    """Return one row. A pod may be on several GPUs, so the pods are not added up."""
    first = lines[0]
    nodes = some(dict.fromkeys(line.node for line in lines))
    pods = sorted({line.pods for line in lines})
    each = f"{pods[0]}" if len(pods) == 1 else f"{pods[0]} to {pods[-1]}"
    (message, _), *others = Counter(line.message for line in lines).most_common()
    more = " (numbers differ)" if others else ""
    return (
        f"{len(lines)} incidents",
        f"{len(lines)} on {nodes}",
        first.fault,
        first.cause,
        _phase(first),
        age(min((line.opened for line in lines if line.opened), default=None), now),
        f"{each} each",
        f"{message}{more}",
    )
