"""What is written of an incident keeps within the limits of its CRD."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings

from remediator.model import incident_caps
from remediator.model.incident_caps import cut, cut_to_limits, without
from remediator.model.incident_status import AffectedPod, IncidentStatus, TimelineEntry, merge_patch
from tests.remediator.builders import T0, at, make_status, repair_request, with_fields
from tests.remediator.controller.api import apply_merge_patch
from tests.remediator.model.statuses import STATUSES

CRD = Path(__file__).parents[3] / "deploy" / "crds" / "deviceincidents.yaml"
Schema = dict[str, Any]


def status_schema() -> Schema:
    definition: Schema = yaml.safe_load(CRD.read_text(encoding="utf-8"))
    (version,) = definition["spec"]["versions"]
    found: Schema = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    return found


SCHEMA = status_schema()


def walked(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield every field with its path; an entry of a list has the path of the list."""
    for name, below in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        yield where, below
        yield from walked(below, where)
        if "items" in below:
            yield f"{where}[]", below["items"]
            yield from walked(below["items"], where)


def limits(key: str) -> dict[str, Any]:
    return {
        path.removesuffix("[]"): schema[key] for path, schema in walked(SCHEMA) if key in schema
    }


def misfits(value: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """Yield what an API server would refuse, as far as our schema uses its words."""
    match schema["type"]:
        case "string":
            fits = len(value) <= schema.get("maxLength", len(value))
            fits &= value in schema.get("enum", [value])
            fits &= bool(re.search(str(schema.get("pattern", "")), str(value)))
        case "integer":
            size = 2**31 if schema["format"] == "int32" else 2**63
            fits = schema["minimum"] <= value < size
        case "array":
            keys = schema.get("x-kubernetes-list-map-keys")
            reported: list[object] = [
                tuple(entry[key] for key in keys) if keys else str(entry) for entry in value
            ]
            once = schema["x-kubernetes-list-type"] == "atomic" or len(set(reported)) == len(
                reported
            )
            fits = len(value) <= schema["maxItems"] and once
            for entry in value:
                yield from misfits(entry, schema["items"], path)
        case _:
            fits = set(schema.get("required", [])) <= set(value) <= set(schema["properties"])
            for name, below in value.items():
                yield from misfits(below, schema["properties"][name], f"{path}.{name}")
    if not fits:
        yield f"{path}: {str(value)[:80]}"


def stored(status: IncidentStatus) -> Mapping[str, Any]:
    patch: Mapping[str, Any] = msgspec.json.decode(msgspec.json.encode(merge_patch(status)))
    return apply_merge_patch({}, dict(patch))


def test_every_limit_is_that_of_the_crd() -> None:
    lengths = limits("maxLength")
    enums = {path for path, schema in walked(SCHEMA) if "enum" in schema}

    assert limits("maxItems") == incident_caps.ITEMS
    assert {path: most for path, most in lengths.items() if path not in enums} == dict(
        incident_caps.LENGTHS
    )
    assert limits("minimum") == {path: least for path, (least, _) in incident_caps.NUMBERS.items()}
    kinds = limits("x-kubernetes-list-type")
    assert {path for path, kind in kinds.items() if kind != "atomic"} == set(incident_caps.KEYS)


def test_every_text_list_and_number_of_the_schema_has_a_limit() -> None:
    for path, schema in walked(SCHEMA):
        match schema["type"]:
            case "array":
                assert "maxItems" in schema, path
            case "integer":
                assert {"format", "minimum"} <= set(schema), path
            case "string":
                assert {"maxLength", "enum", "format"} & set(schema), path
            case _:
                assert schema["type"] == "object", path


@settings(deadline=None, max_examples=50)
@given(STATUSES)
def test_any_status_that_is_written_is_one_that_the_crd_takes(status: IncidentStatus) -> None:
    once = cut_to_limits(status)

    assert list(misfits(stored(once), SCHEMA)) == []
    assert cut_to_limits(once) == once


def test_what_fits_is_written_as_it_is() -> None:
    status = make_status(message="x" * 2048, evidence=("one", "one"), recurrence=3)

    assert cut_to_limits(status) is status


def test_what_is_cut_shows_it_and_the_opening_is_kept() -> None:
    lines = tuple(TimelineEntry(at(n), "Suspected", str(n)) for n in range(70))
    reported = cut_to_limits(IncidentStatus(message="y" * 3000, timeline=lines))

    assert (len(reported.message), reported.message[-2:]) == (2048, "y…")
    assert cut("as long", 7) == "as long"
    assert [entry.text for entry in reported.timeline] == ["0", *map(str, range(7, 70))]


def test_a_list_that_is_too_long_keeps_its_first_entries_and_a_set_has_each_once() -> None:
    classes = ("b", "a", "b", *(f"class-{n}" for n in range(90)))
    reported = cut_to_limits(make_status(evidence=("x",) * 200, device_classes=classes))

    assert len(reported.fault.evidence) == 128
    assert len(set(reported.policy.device_classes)) == len(reported.policy.device_classes) == 64


AFFECTED = (AffectedPod("team", "train-0", "claim-0", "d", "u"),)
FULL = make_status(
    fault_class="gpu", phase="Tainted", affected=AFFECTED, empty_since=T0, tainted_at=T0
)


@pytest.mark.parametrize(
    ("refusal", "left"),
    [
        ('status.phase: Unsupported value: "Tainted"', {"phase": ""}),
        ("status.scope.affectedPods[0].pod: Too long", {"affected": (), "empty_since": None}),
        ("the request is too large", {}),
    ],
)
def test_what_is_refused_by_name_is_left_out(refusal: str, left: dict[str, object]) -> None:
    assert without(FULL, refusal) == with_fields(FULL, **left)


def test_without_its_bulk_a_status_keeps_what_decisions_rest_on() -> None:
    """And nobody has seen that pods are gone which are not written down."""
    left = without(FULL, "too large", bulk=True)

    assert (left.fault.fault_class, left.phase, left.eviction.tainted_at) == ("gpu", "Tainted", T0)
    assert (left.scope.affected, left.eviction.empty_since) == ((), None)


def test_a_deadline_that_ended_is_not_left_in_the_request_that_goes_on() -> None:
    request = repair_request(T0)
    before = dict(stored(make_status(request=request)))
    after = make_status(request=msgspec.structs.replace(request, deadline_start_time=None))

    patch = msgspec.json.decode(msgspec.json.encode(merge_patch(after)))

    assert msgspec.convert(apply_merge_patch(before, patch), IncidentStatus) == after


def test_a_status_as_a_merge_patch_leaves_nothing_of_the_one_before() -> None:
    patch = merge_patch(make_status(phase="Tainted", dbe_volatile=0))

    assert set(patch) == {field.encode_name for field in msgspec.structs.fields(IncidentStatus)}
    assert {name for name, value in patch.items() if value is not None} == {
        "phase",
        "recovery",
    }
    assert {name for name, value in patch["recovery"].items() if value is not None} == {
        "volatileErrors"
    }
