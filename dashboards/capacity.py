"""Panels on what is published: free, allocated, tainted, by kind. Pure."""

from dashboards.panel import (
    BLUE,
    GREEN,
    ORANGE,
    PLAIN,
    BarGauge,
    Column,
    Panel,
    Query,
    Table,
    TimeSeries,
)
from dashboards.promql import filled, of_cluster, once

_KIND = "driver, type, product, profile"
_STATES = ("free", "allocated", "tainted", "tainted_by_others")
_COLOURS = {"free": GREEN, "allocated": BLUE, "tainted": ORANGE, "tainted_by_others": PLAIN}
_NONE = "no driver publishes a device, or there is no remediator data"
_NOT_COUNTED = "No remediator data"
_SAYS = (
    "Devices that drivers publish, by scheduling state. free: not allocated. "
    "allocated: a claim holds it. tainted: Draguard's taint keeps new pods away. "
    "tainted_by_others: the taint is of another rule or of the driver. With dynamic MIG, each "
    "possible slice is a device, so this is not the number of GPUs. Unknown without remediator "
    "data."
)


def _devices(matchers: str = "") -> str:
    return once(f"{_KIND}, state", of_cluster("draguard_devices", matchers))


def panels() -> tuple[Panel, ...]:
    """Return how many there are by state, by kind, and over time."""
    return _by_state(), _over_time(), _by_kind()


def _by_state() -> BarGauge:
    return BarGauge(
        title="Devices by state",
        says=_SAYS,
        queries=(
            Query(
                expr=f"sum by (state) ({_devices()})",
                legend="{{state}}",
                empty=_NONE,
            ),
        ),
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
        queries=(Query(expr=f"sum by (state) ({_devices()})", legend="{{state}}", empty=_NONE),),
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
    def of(state: str) -> Query:
        selector = of_cluster("draguard_devices", f'state="{state}"')
        kinds = filled(filled(once(_KIND, selector), "profile", "-"), "product", "-")
        return Query(expr=kinds, value=state, empty=f"{_NONE}, or no device is {state}")

    counts = (
        Column(
            source=state,
            title=state.replace("_", " ").capitalize(),
            unit="short",
            decimals=0,
            none="-",
        )
        for state in _STATES
    )
    return Table(
        title="Devices by product and profile",
        says=_SAYS,
        queries=tuple(of(state) for state in _STATES),
        none=_NOT_COUNTED,
        width=24,
        height=5,
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="driver", title="Driver"),
            Column(source="type", title="Type", none="-"),
            Column(source="product", title="Product", none="-"),
            Column(source="profile", title="Profile", none="-"),
            *counts,
        ),
        sort="Allocated",
    )
