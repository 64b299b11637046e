"""The only module that uses grafanalib: our declarations as JSON, before `finalize`.

What it lacks or writes in an old form is put into `extraJson`, which it merges into every panel,
or is a class of our own: `PromTarget`, `BarGaugePanel`.
"""
# pyright: basic, reportCallIssue=false
# grafanalib has no types, and pyright does not see the constructors that its `attr.s` makes.

import json
from collections.abc import Collection, Sequence

from grafanalib import _gen, core

from dashboards import columns, layout
from dashboards.annotations import STEP
from dashboards.finalize import DATASOURCE, Json
from dashboards.panel import (
    UNKNOWN,
    Annotation,
    BarGauge,
    Dashboard,
    Link,
    Meaning,
    Panel,
    Row,
    Stat,
    States,
    Step,
    Table,
    TimeSeries,
    Variable,
)

TAG = "draguard"
REFRESH_ON_TIME_CHANGE = 2
"""grafanalib's constant for it is 2, too, but its validator knows no name."""


def to_json(dashboard: Dashboard) -> Json:
    """Return a dashboard as grafanalib writes it."""
    made = core.Dashboard(
        title=dashboard.board.title,
        uid=dashboard.board.uid,
        description=dashboard.board.says,
        tags=[TAG],
        refresh="1m",
        timezone="browser",
        graphTooltip=core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
        time=core.Time("now-6h", "now"),
        timePicker=core.TimePicker(["30s", "1m", "5m", "15m", "1h"], []),
        links=[_siblings()],
        templating=core.Templating(list=[_variable(variable) for variable in dashboard.variables]),
        annotations=core.Annotations(
            list=[_annotation(annotation) for annotation in dashboard.annotations]
        ),
        panels=[_placed(drawn, place) for drawn, place in layout.placed(dashboard.rows)],
    )
    return json.loads(json.dumps(made, cls=_gen.DashboardEncoder))


def _siblings() -> core.DashboardLink:
    return core.DashboardLink(
        title="Draguard",
        tags=[TAG],
        asDropdown=True,
        includeVars=True,
        keepTime=True,
        tooltip="Other Draguard dashboards, with the same variables and time range",
    )


def _placed(drawn: Row | Panel, place: layout.Place) -> core.Panel:
    grid = core.GridPos(h=place.height, w=place.width, x=place.x, y=place.y)
    if isinstance(drawn, Row):
        return core.RowPanel(title=drawn.title, gridPos=grid)
    return _DRAWN[type(drawn)](drawn, grid)


class PromTarget(core.Target):
    """A query to Prometheus, with the keys that came after grafanalib."""

    def to_json_data(self) -> Json:
        return super().to_json_data() | {
            "editorMode": "code",
            "range": not self.instant,
        }


def _targets(panel: Panel) -> list[PromTarget]:
    of_rows = isinstance(panel, Table) or (isinstance(panel, Stat) and bool(panel.by))
    return [
        PromTarget(
            expr=query.expr,
            legendFormat=query.legend,
            instant=panel.instant,
            format="table" if of_rows else "time_series",
            refId=columns.ref(number),
        )
        for number, query in enumerate(panel.queries)
    ]


def _shared(panel: Panel, grid: core.GridPos) -> dict[str, object]:
    """Return the arguments that every panel of grafanalib takes."""
    return {
        "title": panel.title,
        "description": panel.says,
        "gridPos": grid,
        "targets": _targets(panel),
        "maxDataPoints": None,
    }


def _read(panel: Panel, *, colour: str = "thresholds") -> Json:
    """Return how values read: unit, words, colours, and what stands for none."""
    return {
        "unit": panel.unit,
        "decimals": panel.decimals,
        "noValue": panel.none,
        "color": {"mode": colour},
        "mappings": meanings(panel.meanings, panel.none),
        "thresholds": steps(panel.steps),
        "links": [data_link(link, link.of_series()) for link in panel.links],
        "min": getattr(panel, "minimum", None),
        "max": getattr(panel, "maximum", None),
    }


def steps(given: Sequence[Step]) -> Json:
    """Return colours by value; a value below the first step has the colour of unknown."""
    base = {"color": UNKNOWN, "value": None}
    listed = [{"color": step.colour, "value": step.value} for step in given]
    return {"mode": "absolute", "steps": [base, *listed]}


def meanings(given: Sequence[Meaning], none: str) -> list[Json]:
    """Return words by value; null and NaN always read as not known."""
    made: list[Json] = []
    for number, meaning in enumerate(given):
        result = {"text": meaning.text, "color": meaning.colour, "index": number}
        if meaning.upto is None:
            made.append({"type": "value", "options": {str(meaning.value): result}})
        else:
            span = {"from": meaning.value, "to": meaning.upto, "result": result}
            made.append({"type": "range", "options": span})
    result = {"text": none, "color": UNKNOWN, "index": len(given)}
    return [*made, {"type": "special", "options": {"match": "null+nan", "result": result}}]


def data_link(link: Link, url: str) -> Json:
    return {"title": link.title, "url": url, "targetBlank": False}


def _stat(panel: Stat, grid: core.GridPos) -> core.Panel:
    defaults = _read(panel)
    overrides = [columns.fixed_colour(*pair) for pair in panel.colours.items()]
    if panel.by:
        (query,) = panel.queries
        defaults |= {
            "displayName": columns.of_row(query.legend),
            "links": [data_link(link, link.of_row(link.labels.values())) for link in panel.links],
            "mappings": meanings((), panel.none),
        }
        # Only values are shown as words: a number in a row's name stays a number.
        words = meanings(panel.meanings, panel.none)
        overrides.append(columns.override("Value", {"mappings": words}))
    return core.Stat(
        **_shared(panel, grid),
        colorMode="background" if panel.filled else "value",
        graphMode="none",
        reduceCalc="last",
        textMode="value_and_name" if panel.named else "auto",
        format=panel.unit,
        noValue=panel.none,
        transformations=columns.sorted_by(panel.by) if panel.by else [],
        overrides=overrides,
        extraJson={
            "fieldConfig": {"defaults": defaults},
            "options": {"reduceOptions": {"values": bool(panel.by)}},
        },
    )


def _time_series(panel: TimeSeries, grid: core.GridPos) -> core.Panel:
    return core.TimeSeries(
        **_shared(panel, grid),
        drawStyle="bars" if panel.bars else "line",
        fillOpacity=60 if panel.bars or panel.stacked else 0,
        # Stacked, a series that is 0 would draw its line on top of the others.
        lineWidth=0 if panel.stacked else 1,
        lineInterpolation="stepAfter" if panel.stepped else "linear",
        showPoints="never",
        stacking={"mode": "normal" if panel.stacked or panel.bars else "none", "group": "A"},
        tooltipMode="multi",
        tooltipSort="desc",
        axisSoftMax=1 if panel.unit == "short" else None,
        overrides=[
            *(_without_zeros(panel) if panel.sparse else ()),
            *(columns.fixed_colour(*pair) for pair in panel.colours.items()),
        ],
        extraJson={
            "interval": "2m" if panel.bars else None,
            "fieldConfig": {"defaults": _read(panel, colour="palette-classic")},
            "options": {"legend": {"showLegend": True}},
        },
    )


def _without_zeros(panel: TimeSeries) -> list[Json]:
    zeros = {"id": "byValue", "options": {"reducer": "allIsZero", "op": "gte", "value": 0}}
    hidden = {"id": "custom.hideFrom", "value": _NOWHERE}
    shown = dict.fromkeys(_NOWHERE, False)
    kept = columns.override(panel.always, {"custom.hideFrom": shown}) if panel.always else None
    return [{"matcher": zeros, "properties": [hidden]}, *([kept] if kept else [])]


def _states(panel: States, grid: core.GridPos) -> core.Panel:
    return core.StateTimeline(
        **_shared(panel, grid),
        fillOpacity=80,
        showValue="never",
        extraJson={
            "fieldConfig": {"defaults": _read(panel)},
            "options": {"legend": {"showLegend": True}},
        },
    )


class BarGaugePanel(core.Panel):
    """The bar gauge of today; grafanalib's own writes what Grafana 6 read."""

    def to_json_data(self) -> Json:
        return self.panel_json(
            {
                "type": "bargauge",
                "options": {
                    "displayMode": "basic",
                    "orientation": "horizontal",
                    "showUnfilled": True,
                    "valueMode": "color",
                    "reduceOptions": {"calcs": ["last"], "fields": "", "values": False},
                },
            }
        )


def _bar_gauge(panel: BarGauge, grid: core.GridPos) -> core.Panel:
    return BarGaugePanel(
        **_shared(panel, grid),
        extraJson={
            "fieldConfig": {
                "defaults": _read(panel),
                "overrides": [columns.fixed_colour(*pair) for pair in panel.colours.items()],
            }
        },
    )


def _table(panel: Table, grid: core.GridPos) -> core.Panel:
    shown = {column.source for column in panel.columns}
    sort = (
        [core.TableSortByField(displayName=panel.sort, desc=not panel.rising)] if panel.sort else []
    )
    return core.Table(
        **_shared(panel, grid),
        transformations=columns.transformations(panel),
        overrides=[_column(column, shown) for column in panel.columns],
        sortBy=sort,
        extraJson={
            "fieldConfig": {"defaults": _read(panel) | {"custom": {"cellOptions": _PLAIN_CELL}}},
            "options": {"cellHeight": "sm", "footer": {"show": False, "reducer": ["sum"]}},
        },
    )


_PLAIN_CELL = {"type": "auto"}
_COLOURED_CELL = {"type": "color-text"}
_NOWHERE = {"viz": True, "legend": True, "tooltip": True}


def _column(column: columns.Column, shown: Collection[str]) -> Json:
    coloured = bool(column.meanings or column.steps)
    given: dict[str, object] = {
        "unit": column.unit,
        "noValue": column.none,
        "mappings": meanings(column.meanings, column.none),
        "thresholds": steps(column.steps),
        "custom.cellOptions": _COLOURED_CELL if coloured else _PLAIN_CELL,
        "custom.align": "left" if column.meanings else None,
        "links": [data_link(link, link.of_row(shown)) for link in column.links] or None,
        "custom.width": column.width or columns.WIDTHS.get(column.source),
        # The name until Grafana 11; since then it is `hideFrom`.
        "custom.hidden": column.hidden or None,
        "custom.hideFrom": _NOWHERE if column.hidden else None,
        "decimals": column.decimals,
    }
    return columns.override(column.title, given)


_DRAWN = {
    Stat: _stat,
    TimeSeries: _time_series,
    States: _states,
    BarGauge: _bar_gauge,
    Table: _table,
}


def _variable(variable: Variable) -> core.Template | Json:
    if not variable.query:
        kept = {"type": "datasource", "query": DATASOURCE["type"], "refresh": 1}
        return kept | {
            "name": variable.name,
            "label": variable.title,
            "description": variable.says,
            "hide": 0,
        }
    made = core.Template(
        name=variable.name,
        label=variable.title,
        query={"query": variable.query, "refId": "StandardVariableQuery"},
        includeAll=bool(variable.every) or variable.found,
        allValue=variable.every or None,
        multi=variable.many or variable.found,
        hide=core.HIDE_VARIABLE if variable.found else core.SHOW,
        refresh=REFRESH_ON_TIME_CHANGE,
        sort=core.SORT_ALPHA_ASC,
    ).to_json_data()
    every = {"text": ["All"], "value": ["$__all"], "selected": True}
    return made | {
        "current": every if variable.every or variable.found else {},
        "skipUrlSync": variable.found,
        "definition": variable.query,
        "description": variable.says,
    }


def _annotation(annotation: Annotation) -> Json:
    return {
        "name": annotation.name,
        "enable": True,
        "hide": False,
        "iconColor": annotation.colour,
        "expr": annotation.expr,
        "titleFormat": annotation.title,
        "textFormat": annotation.text,
        "tagKeys": "",
        "step": STEP,
        "useValueForTime": annotation.value_is_time,
    }
