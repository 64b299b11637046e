"""The tables of docs/policy.md, from the schema of the policy file and the shipped policy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import cast

from msgspec import inspect

from remediator.policy import schema
from remediator.policy.duration import spelled
from remediator.policy.limits import Limits, described
from remediator.policy.table import HIGHEST, SHIPPED, Evict, Row
from tools.generated_docs.table import Tables


def _shipped() -> Iterator[Sequence[str]]:
    names = (
        "mode",
        "ceiling",
        "settle",
        "soak",
        "patient",
        "repeat",
        "sticky",
        "probation",
        "evict",
    )
    yield "class", *names
    for row in SHIPPED:
        yield f"`{row.fault_class}`", *(_default(row, name) for name in names)


def _reasons() -> Iterator[Sequence[str]]:
    yield "class", "what it is", "highest ceiling", "why it is shipped so"
    kinds = {field.encode_name: _described(field)[1] for field in _fields(schema.ClassesText)}
    for row in SHIPPED:
        highest = HIGHEST.get(row.fault_class, "NoExecute")
        name = row.fault_class
        yield f"`{name}`", kinds[name], f"`{highest}`", row.why


def _keys(kind: type, path: str) -> Callable[[], Iterator[Sequence[str]]]:
    def rows() -> Iterator[Sequence[str]]:
        yield "key", "written as", "left out", "what it does", "why"
        for field in _fields(kind):
            title, what, why = _described(field)
            left_out = _LEFT_OUT.get(f"{path}{field.encode_name}", "")
            yield f"`{path}{field.encode_name}`", title, left_out, what, why

    return rows


_LEFT_OUT: Mapping[str, str] = {
    "defaults": "as shipped",
    "classes": "as shipped",
    "overrides": "none",
    "maintenance": "none",
    "exempt": "none",
    "budget": "as shipped",
    "emergency_stop": "not pulled",
    **{f"classes.CLASS.{name}": "as shipped" for name in Row.__struct_fields__},
    "repeat.count": "`3`",
    "repeat.within": "`30d`",
    "evict.within": f"`{spelled(Evict().within)}`",
    "evict.then": f"`{Evict().then}`",
    "evict.extendedResources": f"`{Evict().extended_resources}`",
    **{f"match.{name}": "any" for name in ("deviceClass", "driver", "pool", "node")},
    "overrides[].match": "refused",
    "maintenance[].name": "refused",
    "weekly.day": "refused",
    "weekly.start": "refused",
    "weekly.duration": "refused",
    "weekly.timezone": "`UTC`",
    "exempt[].why": "refused",
    "exempt[].until": "for ever",
    "emergency_stop.by": "refused",
    "emergency_stop.why": "refused",
}


def _budget() -> Iterator[Sequence[str]]:
    yield "key", "shipped", "what it limits"
    for path, value, meaning in described(Limits()):
        yield f"`{path}`", f"`{value}`", meaning


def _fields(kind: type) -> tuple[inspect.Field, ...]:
    found = inspect.type_info(kind)
    return found.fields if isinstance(found, inspect.StructType) else ()


def _described(field: inspect.Field) -> tuple[str, str, str]:
    """Return how a key is written, what it does, and why it is there."""
    if not isinstance(field.type, inspect.Metadata):
        raise TypeError(f"the key {field.encode_name} is not described in the schema")
    said = cast("dict[str, str]", field.type.extra_json_schema)  # pyright: ignore[reportUnknownMemberType] - msgspec says dict
    extra = cast("dict[str, str]", field.type.extra or {})  # pyright: ignore[reportUnknownMemberType] - msgspec says dict
    return said["title"], said["description"], extra.get("why", "")


def _default(row: Row, name: str) -> str:
    match getattr(row, name):
        case bool(value):
            return "yes" if value else "no"
        case str(value):
            return f"`{value}`"
        case _ if name == "repeat":
            return f"{row.repeat.count} in {spelled(row.repeat.within)}"
        case timedelta() as value:
            return spelled(value)
        case value:
            return str(value)


TABLES: Tables = {
    "shipped": _shipped,
    "reasons": _reasons,
    "top": _keys(schema.PolicyText, ""),
    "row": _keys(schema.RowText, "classes.CLASS."),
    "repeat": _keys(schema.RepeatText, "repeat."),
    "evict": _keys(schema.EvictText, "evict."),
    "override": _keys(schema.OverrideText, "overrides[]."),
    "match": _keys(schema.MatchText, "match."),
    "window": _keys(schema.WindowText, "maintenance[]."),
    "weekly": _keys(schema.WeeklyText, "weekly."),
    "exempt": _keys(schema.ExemptText, "exempt[]."),
    "emergency": _keys(schema.EmergencyText, "emergency_stop."),
    "budget": _budget,
}
