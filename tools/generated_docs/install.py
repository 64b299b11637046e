"""The table of values in docs/install.md, from the chart's schema and its defaults."""

import json
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import getitem
from typing import Any, cast

import yaml

from deploy.sources import CHART
from tools.generated_docs.table import Tables

_LONGEST = 60
Json = dict[str, Any]


def values() -> Iterator[tuple[str, str, str]]:
    """Give every value that the chart takes: its name, its default as written, what it means."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    for name, one in _described(schema, schema["definitions"], ()):
        default = reduce(getitem, name, defaults)
        plain = json.dumps(default) if isinstance(default, list | dict | bool) else str(default)
        text = plain.strip()
        shown = f"`{text}`" if len(text) <= _LONGEST else "see values.yaml"
        empty = default in ("", None, [], {})
        yield ".".join(name), "" if empty else shown, one["description"]


def _described(
    schema: Json, named: Json, name: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield name and schema of each part that has a description, and look inside the others."""
    schema = {**named.get(schema.get("$ref", "").removeprefix("#/definitions/"), {}), **schema}
    if "description" in schema:
        yield name, schema
        return
    for key, below in cast("Json", schema["properties"]).items():
        yield from _described(below, named, (*name, key))


def _values() -> Iterator[Sequence[str]]:
    yield "value", "default", "meaning"
    for name, shown, text in values():
        yield f"`{name}`", shown, text


TABLES: Tables = {"values": _values}
