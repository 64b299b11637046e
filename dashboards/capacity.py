"""Panels on what is published: free, allocated, tainted, by kind. Pure."""

from dashboards.panel import (
    BLUE,
    GREEN,
    ORANGE,
    STALE,
    UNKNOWN,
    YELLOW,
    BarGauge,
    Column,
    Panel,
    Query,
    Table,
    TimeSeries,
)
from dashboards.promql import filled, of_cluster, once

_KIND = "driver, type, product, profile"
_TAINTS = {
    "": 'taint="none"',
    ", tainted": 'taint=~"draguard|driver|other"',
    ", taint unknown": 'taint="unknown"',
}
_COLOURS = {
    "free": GREEN,
    "free, tainted": YELLOW,
    "allocated": BLUE,
    "allocated, tainted": ORANGE,
    "unknown": UNKNOWN,
    "unknown, tainted": STALE,
}
_COLUMNS = {
    "Free": 'state="free"',
    "Free, untainted": 'state="free", taint="none"',
    "Allocated": 'state="allocated"',
    "State unknown": 'state="unknown"',
    "Tainted by Draguard": 'taint="draguard"',
    "Tainted by driver": 'taint="driver"',
    "Tainted by others": 'taint="other"',
}
_NONE = "no driver publishes a device, or there is no remediator data"
_NOT_COUNTED = "No remediator data"
_SAYS = (
    "Devices that drivers publish. allocated: a claim holds it. free: none does. unknown: some "
    "claim cannot be read. tainted: a taint of Draguard, the driver or another rule keeps new pods "
    "away, whatever the state. With dynamic MIG, each possible slice is a device, so this is not "
    "the number of GPUs. Unknown without remediator data."
)


def _devices(matchers: str) -> str:
    return once(f"{_KIND}, state, taint", of_cluster("draguard_devices", matchers))


def panels() -> tuple[Panel, ...]:
    """Return how many there are by state, by kind, and over time."""
    return _by_state(), _over_time(), _by_kind()


def _states() -> tuple[Query, ...]:
    return tuple(
        Query(
            expr=f"sum by (state) ({_devices(matchers)})",
            legend=f"{{{{state}}}}{words}",
            empty=f"{_NONE}, or none is so",
        )
        for words, matchers in _TAINTS.items()
    )


def _by_state() -> BarGauge:
    return BarGauge(
        title="Devices by state",
        says=_SAYS,
        queries=_states(),
        unit="short",
        decimals=0,
        colours=_COLOURS,
        width=8,
        height=6,
    )


def _over_time() -> TimeSeries:
    return TimeSeries(
        title="Devices by state over time",
        says=f"{_SAYS} Series that are 0 are not drawn.",
        queries=_states(),
        unit="short",
        decimals=0,
        stacked=True,
        sparse=True,
        stepped=True,
        colours=_COLOURS,
        none=_NOT_COUNTED,
        width=16,
        height=6,
    )


def _by_kind() -> Table:
    def of(title: str, matchers: str) -> Query:
        counts = f"sum by (cluster, {_KIND}) ({_devices(matchers)})"
        kinds = filled(filled(counts, "profile", "-"), "product", "-")
        return Query(expr=kinds, value=title, empty=f"{_NONE}, or none is so")

    return Table(
        title="Devices by product and profile",
        says=_SAYS,
        queries=tuple(of(*column) for column in _COLUMNS.items()),
        none=_NOT_COUNTED,
        width=24,
        height=5,
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="driver", title="Driver"),
            Column(source="type", title="Type", none="-"),
            Column(source="product", title="Product", none="-"),
            Column(source="profile", title="Profile", none="-"),
            *(
                Column(source=title, title=title, unit="short", decimals=0, none="-")
                for title in _COLUMNS
            ),
        ),
        sort="Allocated",
    )
