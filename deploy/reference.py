"""The table of values in docs/install.md, made of the chart's schema and its defaults."""

import json
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, cast

import yaml

from deploy.sources import CHART, ROOT

DOCUMENT = ROOT / "docs" / "install.md"
BEGIN, END = "<!-- values: generated -->\n", "<!-- values: end -->"
_LONGEST = 60
Json = dict[str, Any]


class MarksError(Exception):
    """The document has not the marks that the table goes between."""


def documents() -> Mapping[Path, str]:
    """Return the document with its table as it must be. Raises MarksError."""
    return {DOCUMENT: with_table(DOCUMENT.read_text(encoding="utf-8"))}


def with_table(document: str) -> str:
    before, found, rest = document.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise MarksError(f"{DOCUMENT.name} lacks the marks {BEGIN.strip()} and {END}")
    rows = (f"| `{name}` | {shown} | {text} |\n" for name, shown, text in values())
    table = "| value | default | meaning |\n|---|---|---|\n" + "".join(rows)
    return before + BEGIN + table + END + after


def values() -> Iterator[tuple[str, str, str]]:
    """Give every value that the chart takes: its name, its default as written, what it means."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    for name, schema_part in _described(schema, schema["definitions"], ()):
        if name != ("global",):
            default = reduce(getitem, name, defaults)
            yield ".".join(name), _shown(default), schema_part["description"].replace("|", "\\|")


def _described(
    schema: Json, named: Json, name: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Give the leaves of a schema: what is described, and not only made of others."""
    schema = {**named.get(schema.get("$ref", "").removeprefix("#/definitions/"), {}), **schema}
    if "description" in schema:
        yield name, schema
        return
    for key, below in cast("Json", schema["properties"]).items():
        yield from _described(below, named, (*name, key))


def _shown(default: object) -> str:
    if default in ("", None, [], {}):
        return ""
    text = json.dumps(default) if isinstance(default, list | dict | bool) else str(default).strip()
    return f"`{text}`" if len(text) <= _LONGEST else "see values.yaml"
