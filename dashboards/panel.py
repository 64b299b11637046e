"""What a panel is: its title, its queries, and how its values read. Plain data, pure.

A query states the reason if an empty answer can be right. A test runs every query and accepts an
empty answer only with such a reason. Nothing here uses the library that draws panels (`grafana`).
"""

from collections.abc import Collection, Mapping
from typing import ClassVar

import msgspec

from dashboards.catalogue import Board, LinkError

GREEN, YELLOW, ORANGE, RED = "green", "yellow", "orange", "red"
DARK_RED, BLUE = "dark-red", "blue"
UNKNOWN, STALE, SILENT = "purple", "semi-dark-purple", "dark-purple"
"""Unknown has colours of its own, so that it looks neither healthy nor like an empty value."""
PLAIN = "text"

GRID = 24
"""Columns of a dashboard."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """One question to Prometheus."""

    expr: str
    legend: str = ""
    """Of a series, in Grafana's `{{label}}` form; tables have columns instead."""
    value: str = ""
    """In a table: the name by which a column takes this query's value."""
    empty: str = ""
    """Why an empty answer can be right, in words; "" if there is always an answer."""
    whole: str = ""
    """Why a counter is shown as it stands and not as a rate; "" where none is."""


class Meaning(msgspec.Struct, frozen=True):
    """How one value reads, or all of a range."""

    value: float | str
    text: str
    colour: str
    upto: float | None = None
    """The end of the range, where it is one."""


class Step(msgspec.Struct, frozen=True):
    """A colour, and the value from which it applies."""

    value: float
    colour: str


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A way from a value to the dashboard of what it is about, with variables and time."""

    title: str
    board: Board
    labels: Mapping[str, str]
    """Variable of the board to the label, of the row or series, that it is set from."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.labels) - set(self.board.variables))
        missing = sorted(set(self.board.needs) - set(self.labels))
        if unknown or missing:
            raise LinkError(
                f"link {self.title!r} to {self.board.uid}: "
                f"unknown variables {unknown}, missing variables {missing}"
            )

    def of_series(self) -> str:
        """Return the address in Grafana's template language, from the labels of a series."""
        return self._url("__field.labels", self.labels)

    def of_row(self, columns: Collection[str]) -> str:
        """Return the address from a table's row, which has the labels of its columns alone.

        If a row does not show its cluster, the link keeps the clusters chosen at the top.
        """
        return self._url(
            "__data.fields",
            {
                name: label
                for name, label in self.labels.items()
                if label in columns or name != "cluster"
            },
        )

    def _url(self, source: str, found: Mapping[str, str]) -> str:
        kept = [f"${{{name}:queryparam}}" for name in self.labels if name not in found]
        named = [f"var-{name}=${{{source}.{label}:percentencode}}" for name, label in found.items()]
        parts = ["${datasource:queryparam}", *kept, *named, "${__url_time_range}"]
        return f"/d/{self.board.uid}?{'&'.join(parts)}"


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a table."""

    source: str
    """A label, or the `value` of a query."""
    title: str
    unit: str = "none"
    none: str = "Unknown"
    """What stands where there is no value."""
    meanings: tuple[Meaning, ...] = ()
    steps: tuple[Step, ...] = ()
    links: tuple[Link, ...] = ()
    width: int = 0
    """Pixels; 0: as usual for its source."""
    hidden: bool = False
    """Whether it is there for links alone, such as a UUID beside a number."""
    decimals: int | None = None


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """What all panels have."""

    instant: ClassVar[bool] = False
    """Whether it queries only the end of the time range: the last value within the range may come
    from an exporter that is down."""
    title: str
    says: str
    """What it shows and how to read it, for the (i) in its corner."""
    queries: tuple[Query, ...]
    unit: str = "none"
    width: int = 12
    height: int = 8
    none: str = "Unknown"
    """Text for an unknown value; it must not suggest that all is well."""
    meanings: tuple[Meaning, ...] = ()
    steps: tuple[Step, ...] = ()
    """Colours by value; below the first step it is the colour of not knowing."""
    links: tuple[Link, ...] = ()
    decimals: int | None = None


class Stat(Panel, frozen=True, kw_only=True):
    """One large value, or one per series."""

    instant: ClassVar[bool] = True
    filled: bool = False
    """Whether the colour fills it, for values that are states."""
    named: bool = False
    """Whether each value bears its series' name."""
    by: str = ""
    """The label of the rows that they are sorted and named by; "": as they come, by legend."""
    colours: Mapping[str, str] = {}
    """By legend, where a colour means something."""


class TimeSeries(Panel, frozen=True, kw_only=True):
    minimum: float | None = 0
    maximum: float | None = None
    stacked: bool = False
    bars: bool = False
    stepped: bool = False
    sparse: bool = False
    """Whether a series that is 0 all the time is left out, with its legend."""
    always: str = ""
    """The legend of the series that a sparse panel shows even if it is always 0."""
    colours: Mapping[str, str] = {}
    """By legend, where a colour means something."""


class States(Panel, frozen=True, kw_only=True):
    """A state over time, one line per series; `meanings` name the states."""


class BarGauge(Panel, frozen=True, kw_only=True):
    instant: ClassVar[bool] = True
    minimum: float | None = 0
    maximum: float | None = None
    colours: Mapping[str, str] = {}
    """By legend."""


class Table(Panel, frozen=True, kw_only=True):
    """Rows of labels and values.

    Several queries are joined on the labels that all of them have: fill a label that may be empty
    (`promql.filled`), or a query whose rows all lack it is joined to the wrong ones.
    """

    instant: ClassVar[bool] = True
    columns: tuple[Column, ...]
    sort: str = ""
    """The title of the column that it is sorted by, from the greatest; "" as it comes."""
    rising: bool = False
    """Whether from the least."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Panels under one heading, side by side as they fit."""

    title: str
    panels: tuple[Panel, ...]


class Annotation(msgspec.Struct, frozen=True, kw_only=True):
    """Marks on all time series of a dashboard."""

    name: str
    expr: str
    title: str
    text: str
    colour: str
    value_is_time: bool = False
    """Whether a value is the time of the mark, in milliseconds."""
    empty: str
    """Why there may be none."""


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """A choice at the top of a dashboard."""

    name: str
    title: str
    says: str
    query: str = ""
    """`label_values(...)`; "" for the data source."""
    many: bool = False
    """Whether several may be chosen."""
    every: str = ""
    """The pattern that stands for all; "" where one has to be chosen."""
    found: bool = False
    """Whether it is hidden and always has every value that its query returns."""


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    board: Board
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    annotations: tuple[Annotation, ...]
