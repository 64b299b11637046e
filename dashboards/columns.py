"""How a table gets its columns: which, in which order, under which title. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from dashboards.panel import Column, Table

Json = dict[str, Any]

WIDTHS: Mapping[str, int] = {
    "cluster": 75, "node": 110, "Hostname": 110, "UUID": 345, "gpu": 55, "GPU": 55,
    "incident": 355, "GPU_I_ID": 70, "GPU_I_PROFILE": 100, "gi": 90, "code": 60, "class": 90,
    "source": 130, "phase": 95, "mode": 100, "cause": 90, "scope": 95, "namespace": 120,
    "dra_claim_namespace": 120,
}  # fmt: skip
"""Pixels of columns whose values are about as long everywhere; the others share what is left."""

__all__ = ["WIDTHS", "Column", "fixed_colour", "override", "ref", "transformations"]


def ref(number: int) -> str:
    """Return the letter of a panel's query; it has 26 at most."""
    return chr(ord("A") + number)


def transformations(table: Table) -> list[Json]:
    """Join the queries' rows, keep the columns that are declared, in their order, renamed.

    Raises:
        ValueError: a column takes its values from a query that is not there.

    """
    fields = [field(table, column) for column in table.columns]
    join: list[Json] = [{"id": "merge", "options": {}}] if len(table.queries) > 1 else []
    keep = {"id": "filterFieldsByName", "options": {"include": {"names": fields}}}
    order = {
        "excludeByName": {},
        "includeByName": {},
        "indexByName": {name: number for number, name in enumerate(fields)},
        "renameByName": dict(zip(fields, (column.title for column in table.columns), strict=True)),
    }
    return [*join, keep, {"id": "organize", "options": order}]


def field(table: Table, column: Column) -> str:
    """Return how Grafana calls a column's field: by its label, or by its query's letter."""
    named = {query.value: number for number, query in enumerate(table.queries) if query.value}
    if column.source not in named:
        return column.source
    many = len(table.queries) > 1
    return f"Value #{ref(named[column.source])}" if many else "Value"


def sorted_by(label: str) -> list[Json]:
    """Sort rows by a label; a number among words sorts as the number that it is."""
    return [{"id": "sortBy", "options": {"fields": {}, "sort": [{"field": label, "desc": False}]}}]


def of_row(legend: str) -> str:
    """Return a legend, which names labels of a series, as the name of a row."""
    return re.sub(r"\{\{(\w+)\}\}", r"${__data.fields.\1}", legend)


def override(title: str, properties: Mapping[str, object]) -> Json:
    """Return settings of the field of that name; what is None stays as it is."""
    listed = [{"id": key, "value": value} for key, value in properties.items() if value is not None]
    return {"matcher": {"id": "byName", "options": title}, "properties": listed}


def fixed_colour(name: str, colour: str) -> Json:
    return override(name, {"color": {"mode": "fixed", "fixedColor": colour}})
