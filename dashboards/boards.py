"""All dashboards: as declared, as JSON, and as their queries. Pure."""

from collections.abc import Iterator, Mapping

import msgspec

from dashboards import claim, device, fleet, node, remediation
from dashboards.finalize import Json, finalized
from dashboards.panel import Dashboard, Panel

DASHBOARDS: tuple[Dashboard, ...] = (
    fleet.DASHBOARD,
    node.DASHBOARD,
    device.DASHBOARD,
    claim.DASHBOARD,
    remediation.DASHBOARD,
)
"""From the whole to the part, as in the catalogue."""


class BoardQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One query of one panel, mark or variable, to be run or read."""

    dashboard: str
    """Its uid."""
    panel: str
    """The panel's title; `annotation NAME` or `variable NAME` for what is none."""
    expr: str
    """As written, with Grafana's variables; of a variable, `label_values(...)`."""
    legend: str = ""
    instant: bool = False
    empty: str = ""
    """Why an empty answer is right; "" if there must be an answer."""
    whole: str = ""
    """Why a counter is shown as its raw value and not as a rate."""


def queries() -> Iterator[BoardQuery]:
    """Return every query of panels."""
    for dashboard in DASHBOARDS:
        for panel in panels(dashboard):
            for query in panel.queries:
                yield BoardQuery(
                    dashboard=dashboard.board.uid,
                    panel=panel.title,
                    expr=query.expr,
                    legend=query.legend,
                    instant=panel.instant,
                    empty=query.empty,
                    whole=query.whole,
                )


def annotation_queries() -> Iterator[BoardQuery]:
    """Return the queries of the marks on time series."""
    for dashboard in DASHBOARDS:
        for annotation in dashboard.annotations:
            name = f"annotation {annotation.name}"
            yield BoardQuery(
                dashboard=dashboard.board.uid,
                panel=name,
                expr=annotation.expr,
                empty=annotation.empty,
            )


def variable_queries() -> Iterator[BoardQuery]:
    """Return the queries that list the choices of variables; for claims there may be none."""
    for dashboard in DASHBOARDS:
        for variable in dashboard.variables:
            if variable.query:
                yield BoardQuery(
                    dashboard=dashboard.board.uid,
                    panel=f"variable {variable.name}",
                    expr=variable.query,
                )


def panels(dashboard: Dashboard) -> Iterator[Panel]:
    """Return a dashboard's panels in the order in which they stand."""
    for row in dashboard.rows:
        yield from row.panels


def rendered() -> Mapping[str, Json]:
    """Return the JSON of each dashboard by its file's name."""
    from dashboards.grafana import to_json  # loads grafanalib, which readers of queries need not

    return {dashboard.board.file: finalized(to_json(dashboard)) for dashboard in DASHBOARDS}
