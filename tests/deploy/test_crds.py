"""The CRDs say what the structs say, and say it in words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from exporter.agent.report import limits
from exporter.model.node_health import NodeHealth
from remediator.diagnose.fault import SEVERITY
from remediator.model.incident import IncidentSpec
from remediator.model.incident_status import IncidentStatus

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
Schema = dict[str, Any]


def load(name: str) -> Schema:
    found: Schema = yaml.safe_load((CRDS / f"{name}.yaml").read_text(encoding="utf-8"))
    return found


def schema_of(name: str) -> Schema:
    (version,) = load(name)["spec"]["versions"]
    found: Schema = version["schema"]["openAPIV3Schema"]
    return found


def names_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the field names of a struct as written, each with its own tree below it."""
    return {field.encode_name: _below(field.type) for field in msgspec.structs.fields(kind)}


def _below(annotation: Any) -> Any:
    inner = msgspec.inspect.type_info(annotation)
    if isinstance(inner, msgspec.inspect.UnionType):  # something, or None
        inner = next(o for o in inner.types if not isinstance(o, msgspec.inspect.NoneType))
    if isinstance(inner, msgspec.inspect.VarTupleType):
        inner = inner.item_type
    if isinstance(inner, msgspec.inspect.StructType):
        return names_of(inner.cls)
    return None


def names_in(schema: Schema) -> dict[str, Any] | None:
    schema = schema.get("items", schema)
    if "properties" not in schema:
        return None
    return {name: names_in(below) for name, below in schema["properties"].items()}


@pytest.mark.parametrize(
    ("crd", "part", "struct"),
    [
        ("nodedevicehealths", "status", NodeHealth),
        ("deviceincidents", "spec", IncidentSpec),
        ("deviceincidents", "status", IncidentStatus),
    ],
)
def test_the_schema_has_exactly_the_fields_that_are_written(
    crd: str, part: str, struct: type[msgspec.Struct]
) -> None:
    assert names_of(struct) == names_in(schema_of(crd)["properties"][part])


def test_the_reports_limits_and_words_are_those_that_the_agent_keeps() -> None:
    assert dict(_bounds_of(NodeHealth)) == dict(
        _bounds_in("", schema_of("nodedevicehealths")["properties"]["status"])
    )


def _bounds_of(struct: type[msgspec.Struct], path: str = "") -> Iterator[tuple[str, Schema]]:
    """Give what the code holds each field to, by its path."""
    for field in msgspec.structs.fields(struct):
        spelled, inner = f"{path}.{field.encode_name}", msgspec.inspect.type_info(field.type)
        if isinstance(inner, msgspec.inspect.UnionType):
            inner = next(o for o in inner.types if not isinstance(o, msgspec.inspect.NoneType))
        found: Schema = {}
        match limits.LIMITS[struct].get(field.name):
            case limits.Text(longest, pattern):
                found = {"maxLength": longest} | ({"pattern": pattern} if pattern else {})
            case limits.Number(most, least):
                found = {"format": _FORMATS.get(most, "int64"), "minimum": least}
                found |= {} if most in _FORMATS else {"maximum": most}
            case limits.Items(most):
                found = {"maxItems": most}
            case _:
                pass
        if isinstance(inner, msgspec.inspect.EnumType):
            found = {"enum": sorted(str(word.value) for word in inner.cls)}
        if found:
            yield spelled, found
        if isinstance(inner, msgspec.inspect.VarTupleType):
            inner = inner.item_type
        if isinstance(inner, msgspec.inspect.StructType):
            yield from _bounds_of(inner.cls, spelled)


def _bounds_in(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Give what the CRD holds each field to that the code has a limit for."""
    for name, field in schema["properties"].items():
        spelled = f"{path}.{name}"
        found = {word: value for word, value in field.items() if word in _BOUNDS}
        if "enum" in found:
            found["enum"] = sorted(found["enum"])
        if field.get("format") in _FORMATS.values():
            found["format"] = field["format"]
        if found and spelled not in _MADE_HERE:
            yield spelled, found
        below = field.get("items", field)
        if "properties" in below:
            yield from _bounds_in(spelled, below)


_BOUNDS = ("maxLength", "pattern", "minimum", "maximum", "maxItems", "enum")
_FORMATS = {limits.MAX_INT32: "int32", limits.MAX_INT64: "int64"}
_MADE_HERE = {
    ".schemaVersion",
    ".truncated",
    ".omitted",
    ".gpus.omitted",
    ".contentHash",
    ".summary.gpus",
    ".summary.present",
    ".gpus.recoveryAction.action",
    ".gpus.recoveryAction.loggedSource",
    ".gpus.fabric.state",
    ".gpus.fabric.healthSummary",
    ".gpus.slowdowns.reason",
}
"""Made by the agent from its own tables: they cannot be too long."""


@pytest.mark.parametrize("crd", ["nodedevicehealths", "deviceincidents"])
def test_every_field_is_described_and_every_list_says_how_it_merges(crd: str) -> None:
    def walk(path: str, schema: Schema) -> None:
        described = bool(schema.get("description")) or path.endswith(("[]", ".metadata"))
        assert described, f"{path} has no description"
        if schema["type"] == "array":
            assert schema.get("x-kubernetes-list-type"), f"{path} has no list type"
            walk(f"{path}[]", schema["items"])
        for name, below in schema.get("properties", {}).items():
            walk(f"{path}.{name}", below)

    walk(crd, schema_of(crd))


def test_the_incidents_schema_names_every_class_of_fault() -> None:
    fault = schema_of("deviceincidents")["properties"]["status"]["properties"]["fault"][
        "properties"
    ]["class"]

    assert [word for word in SEVERITY if word not in fault["enum"]] == []
