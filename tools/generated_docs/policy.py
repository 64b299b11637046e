"""The tables of docs/policy.md, from the schema of the policy file and the shipped policy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import cast

from remediator.policy import schema
from remediator.policy.duration import spell
from remediator.policy.limits import Limits, describe_limits
from remediator.policy.section import Section, keys
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
    kinds = schema.ClassesText.model_fields
    for row in SHIPPED:
        highest = HIGHEST.get(row.fault_class, "NoExecute")
        name = row.fault_class
        yield f"`{name}`", kinds[name].description or "", f"`{highest}`", row.why


def _keys(section: type[Section], path: str) -> Callable[[], Iterator[Sequence[str]]]:
    def rows() -> Iterator[Sequence[str]]:
        yield "key", "written as", "left out", "what it does", "why"
        for name, key in keys(section).items():
            left_out = _LEFT_OUT.get(f"{path}{name}", "")
            why = cast("dict[str, str]", key.json_schema_extra)["why"]
            yield f"`{path}{name}`", key.title or "", left_out, key.description or "", why

    return rows


_LEFT_OUT: Mapping[str, str] = {
    "defaults": "as shipped",
    "classes": "as shipped",
    "overrides": "none",
    "maintenance": "none",
    "exempt": "none",
    "budget": "as shipped",
    "emergency_stop": "off",
    **{f"classes.CLASS.{name}": "as shipped" for name in Row.__struct_fields__},
    "repeat.count": "`3`",
    "repeat.within": "`30d`",
    "evict.within": f"`{spell(Evict().within)}`",
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
    for path, value, meaning in describe_limits(Limits()):
        yield f"`{path}`", f"`{value}`", meaning


def _default(row: Row, name: str) -> str:
    match getattr(row, name):
        case bool(value):
            return "yes" if value else "no"
        case str(value):
            return f"`{value}`"
        case _ if name == "repeat":
            return f"{row.repeat.count} in {spell(row.repeat.within)}"
        case timedelta() as value:
            return spell(value)
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
