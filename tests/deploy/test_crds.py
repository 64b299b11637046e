"""The CRDs say what the structs say, and say it in words."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from exporter.report import NodeHealth
from remediator.objects.incident import IncidentSpec, IncidentStatus

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
