"""Which DCGM fields the page shows: dcgm-exporter's counters file, read and checked.

Three columns (DCGM field, Prometheus type, help), `#` comments, blank lines. A row that
cannot be shown is left out, with its line and what to do: one name that only a newer
dcgm-exporter knows must not blind a node. A file that is no text, or has no good row beside
bad ones, is refused as a whole. A name that comes twice counts once, and a note says so.
Pure: bytes come in.
"""

import csv
from collections import Counter as Counted
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Literal, cast, get_args

import msgspec

from exporter.metrics import fields
from exporter.metrics.fields import Field
from exporter.model.given import WrittenRow

CounterType = Literal["gauge", "counter", "histogram", "summary", "label"]
"""`label`: the value is no metric but a label, named like the field, on every series of its
entity."""

MAX_BYTES = 1 << 20
"""Of a counters file; a ConfigMap cannot be larger."""

RowReason = Literal["BadQuotes", "ColumnCount", "UnknownField", "UnknownType"]
"""Why one row is left out."""
Reason = Literal["TooLarge", "NotText", "Unreadable", RowReason]
"""Why a whole file is refused; a `RowReason` when it has rows and none of them is good."""

MOST_REPORTED = 20
"""Sentences about rows that are left out; how many more there are is the last one."""


class CountersError(Exception):
    """A counters file that cannot be used; the message says where and what to do."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class _BadRowError(Exception):
    """A row that cannot be shown; the message says where and what to do."""

    def __init__(self, reason: RowReason, message: str) -> None:
        super().__init__(message)
        self.reason: RowReason = reason


class Counter(msgspec.Struct, frozen=True):
    """One row: a field, shown under the name that the row gives it."""

    name: str
    field: Field
    type: CounterType
    help: str


class Counters(msgspec.Struct, frozen=True):
    """A checked counters file."""

    metrics: tuple[Counter, ...] = ()
    """Rows of every type but `label`, in the file's order."""
    labels: tuple[Counter, ...] = ()
    """Rows of type `label`, by name."""
    notes: tuple[str, ...] = ()
    """Sentences about rows that count for nothing."""
    left_out: Mapping[RowReason, int] = {}
    """How many rows cannot be shown, by reason; the notes say which."""

    @property
    def requested(self) -> tuple[int, ...]:
        """DCGM field ids that a library must read, in order."""
        rows = (*self.metrics, *self.labels)
        requested = {row.field.id for row in rows if not row.field.computed}
        if any(row.field.id in (fields.CLOCK_EVENTS, fields.CLOCK_EVENTS_TOTAL) for row in rows):
            requested.add(fields.CLOCKS_EVENT_REASONS)
        return tuple(sorted(requested))


class Reloads(msgspec.Struct, frozen=True):
    """How reading the file again went."""

    failures: int = 0
    """Files that were refused since the start."""
    last_ok: bool = True
    """Whether the file as it lies there now is the one in force."""


def parse(data: bytes, name: str) -> Counters:
    """Return the rows of a file called `name` in messages; raises CountersError."""
    lines = enumerate(_lines(data, name), start=1)
    return _checked(((number, lambda w, line=line: _row(line, w)) for number, line in lines), name)


def of_rows(rows: Sequence[WrittenRow], name: str) -> Counters:
    """Return rows that were written in a file called `name`; raises CountersError."""
    return _checked(((row.line, lambda w, row=row: _counter(row, w)) for row in rows), name)


def _checked(written: Iterable[tuple[int, Callable[[str], Counter | None]]], name: str) -> Counters:
    """Read each row, which gets its place in the file."""
    rows: dict[str, Counter] = {}
    notes: list[str] = []
    bad: list[_BadRowError] = []
    left_out: Counted[RowReason] = Counted()
    for number, read in written:
        try:
            row = read(f"line {number} of {name}")
        except _BadRowError as error:
            left_out[error.reason] += 1
            if len(bad) < MOST_REPORTED:
                bad.append(error)
            continue
        if row is None:
            continue
        if row.name in rows:
            notes.append(f"line {number} of {name} names {row.name} again; the first line counts")
        elif row.field.type == "binary":
            notes.append(f"line {number} of {name}: {row.name} has no value that can be shown")
        rows.setdefault(row.name, row)
    if bad and not rows:
        raise CountersError(bad[0].reason, f"{bad[0]} (no row of the file can be shown)")
    labels = sorted((row for row in rows.values() if row.type == "label"), key=lambda row: row.name)
    metrics = tuple(row for row in rows.values() if row.type != "label")
    messages = [f"{error} (the row is left out)" for error in bad]
    if (more := left_out.total() - len(bad)) > 0:
        messages.append(f"{more} more rows of {name} are left out")
    return Counters(metrics, tuple(labels), (*messages, *notes), dict(left_out))


@cache
def default() -> Counters:
    """Return dcgm-exporter's default set of 26."""
    path = resources.files("exporter").joinpath("data", "default-counters.csv")
    return parse(path.read_bytes(), "the default counters file")


def _lines(data: bytes, name: str) -> list[str]:
    if len(data) > MAX_BYTES:
        raise CountersError(
            "TooLarge",
            f"{name} is larger than {MAX_BYTES} bytes, which is all that is read; is it a counters "
            "file? Each line is: DCGM field, Prometheus type, help",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CountersError(
            "NotText", f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from None
    if "\0" in text:
        raise CountersError("NotText", f"{name} has zero bytes, so it is not text; give a CSV file")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _row(line: str, where: str) -> Counter | None:
    columns = [column.strip() for column in _columns(line, where)]
    if not columns or columns[0].startswith("#") or columns == [""]:
        return None
    if len(columns) != 3:
        raise _BadRowError(
            "ColumnCount",
            f"{where} has {len(columns)} columns and must have 3: DCGM field, Prometheus type, "
            f"help (put quotes around a help text with commas): {_short(line)}",
        )
    return _counter(WrittenRow(0, *columns), where)


def _counter(row: WrittenRow, where: str) -> Counter:
    field = fields.by_name(row.name)
    if field is None:
        hint = "correct the name or delete the line"
        if row.name.startswith("dcgm_"):
            hint = "the lower-case names of dcgm-exporter 1.x are not known; use the DCGM_FI_* name"
        raise _BadRowError(
            "UnknownField", f"{where}: {_short(row.name)} is not a DCGM field; {hint}"
        )
    if row.type not in get_args(CounterType):
        known = ", ".join(get_args(CounterType))
        raise _BadRowError(
            "UnknownType",
            f"{where}: {_short(row.type)} is not a Prometheus type; use one of {known}",
        )
    return Counter(row.name, field, cast("CounterType", row.type), row.help)


def _columns(line: str, where: str) -> list[str]:
    if line.lstrip().startswith("#"):
        return []
    reader = csv.reader([line], strict=True, skipinitialspace=True)
    try:
        return [column for columns in reader for column in columns]
    except csv.Error as error:
        raise _BadRowError(
            "BadQuotes",
            f"{where} cannot be read ({error}); close each quote on its line and write a quote "
            f"inside quotes twice: {_short(line)}",
        ) from None


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
