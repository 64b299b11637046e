"""Converts grafanalib's output to the form that Grafana 10 to 13 read without changes.

grafanalib 0.7.1 writes the form of 2019: schema version 12, which makes Grafana run thirty
migrations (one overwrites the thresholds of panels), nulls and keys that are long gone, and data
sources as bare names. One pass puts that right for all panels alike. Pure.
"""

from collections.abc import Mapping
from typing import Any, cast

Json = dict[str, Any]

SCHEMA_VERSION = 42
"""The newest of the classic form; an older Grafana reads a newer number as its own."""
PLUGIN_VERSION = "10.4.0"
"""The oldest Grafana whose forms are written here; newer ones know the changes since."""
DATASOURCE: Mapping[str, str] = {"type": "prometheus", "uid": "${datasource}"}
_BUILT_IN: Mapping[str, str] = {"type": "grafana", "uid": "-- Grafana --"}

_GONE: Mapping[str, frozenset[str]] = {
    "dashboard": frozenset(
        {"__inputs", "gnetId", "hideControls", "id", "rows", "sharedCrosshair", "style"}
    ),
    "panel": frozenset(
        {
            "cacheTimeout", "color", "columns", "editable", "error", "fontSize", "height",
            "mappings", "minSpan", "span", "styles",
        }
    ),
    "row": frozenset(
        {
            "cacheTimeout", "editable", "error", "fieldConfig", "height", "hideTimeOverride",
            "links", "maxDataPoints", "minSpan", "span", "targets", "transformations",
            "transparent",
        }
    ),
    "target": frozenset({"intervalFactor", "metric", "query", "step", "target", "interval"}),
    "variable": frozenset(
        {"auto", "auto_count", "auto_min", "tagValuesQuery", "tagsQuery", "useTags"}
    ),
    "timepicker": frozenset({"nowDelay", "time_options"}),
}  # fmt: skip
"""Keys that only old Grafana versions read or that grafanalib invented, by where they occur."""
_OFF: Mapping[str, frozenset[str]] = {
    "panel": frozenset({"hideTimeOverride", "links", "transformations", "transparent"}),
    "target": frozenset({"hide"}),
}
"""Keys that say by false or an empty list what their absence says. Helm keeps a release with all of
its dashboards in one Secret, of 1 MiB at most."""


def finalized(dashboard: Json) -> Json:
    """Return the dashboard as it is stored; the same input gives the same output, sorted."""
    made = _without(dashboard, "dashboard")
    made["schemaVersion"] = SCHEMA_VERSION
    made["editable"] = False
    made["timepicker"] = _without(made["timepicker"], "timepicker")
    made["panels"] = [_panel(number, panel) for number, panel in enumerate(made["panels"], 1)]
    made["templating"] = {"list": [_variable(variable) for variable in made["templating"]["list"]]}
    marks = [mark | {"datasource": DATASOURCE} for mark in made["annotations"]["list"]]
    made["annotations"] = {"list": [_ALERTS, *marks]}
    return cast("Json", _sorted(_stripped(made)))


_ALERTS: Mapping[str, object] = {
    "builtIn": 1,
    "datasource": _BUILT_IN,
    "enable": True,
    "hide": True,
    "iconColor": "rgba(0, 211, 255, 1)",
    "name": "Annotations & Alerts",
    "type": "dashboard",
}
"""Grafana adds it to a dashboard without it, and then calls the dashboard changed."""


def _without(part: Mapping[str, Any], place: str) -> Json:
    off = _OFF.get(place, frozenset())
    return {
        key: value
        for key, value in part.items()
        if key not in _GONE[place] and (value or key not in off)
    }


def _panel(number: int, panel: Json) -> Json:
    if panel["type"] == "row":
        return _without(panel, "row") | {"id": number}
    made = _without(panel, "panel")
    made |= {"id": number, "pluginVersion": PLUGIN_VERSION, "datasource": DATASOURCE}
    made["targets"] = [
        _without(target, "target") | {"datasource": DATASOURCE} for target in panel["targets"]
    ]
    if panel["type"] == "table":
        made["fieldConfig"]["defaults"]["custom"].pop("displayMode", None)
    return made


def _variable(variable: Json) -> Json:
    made = _without(variable, "variable")
    if made["type"] == "datasource":
        return {key: value for key, value in made.items() if key != "datasource"}
    return made | {"datasource": DATASOURCE}


def _stripped(value: object) -> object:
    """Drop nulls; but that of the first threshold, which means "from minus infinity"."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        base = set(cast("Mapping[str, object]", value)) == {"color", "value"}
        return {key: _stripped(entry) for key, entry in items if entry is not None or base}
    if isinstance(value, list | tuple):
        return [_stripped(entry) for entry in cast("list[object]", value)]
    return value


def _sorted(value: object) -> object:
    if isinstance(value, Mapping):
        items = sorted(cast("Mapping[str, object]", value).items())
        return {key: _sorted(entry) for key, entry in items}
    if isinstance(value, list):
        return [_sorted(entry) for entry in cast("list[object]", value)]
    return value
