"""The tables of docs/architecture.md, from those that the decisions are made by."""

import inspect
from collections.abc import Iterator, Sequence
from functools import partial

from remediator.plan.brakes import CALL, FLEET, OWN
from remediator.plan.caps import CAPS
from remediator.plan.clocks import CLOCKS
from remediator.plan.stages import DEFERRAL_REASONS
from remediator.plan.view import NEEDED
from tools.generated_docs.table import Tables


def _acts() -> Iterator[Sequence[str]]:
    yield "act", "is refused while one of these is in doubt"
    for act, groups in NEEDED.items():
        yield act, "; ".join(", ".join(group) for group in groups)


def _caps() -> Iterator[Sequence[str]]:
    yield "cap", "what it does"
    for cap in CAPS:
        yield cap.__name__.strip("_").replace("_", " "), _first_line(cap)


def _brakes() -> Iterator[Sequence[str]]:
    yield "group", "reason", "where one of these begins", "a device gets at most", "what it does"
    for group, brakes in (("own", OWN), ("fleet", FLEET), ("call", CALL)):
        for brake in brakes:
            most = brake.most or "no rule"
            begins = ", ".join(sorted(brake.begins))
            applies = brake.applies
            rule = applies.func if isinstance(applies, partial) else applies
            yield group, f"`{brake.by}`", begins, most, _first_line(rule)


def _reasons() -> Iterator[Sequence[str]]:
    yield "reason", "meaning", "evictions by request that go on", "a call for repair of the node"
    for name, reason in DEFERRAL_REASONS.items():
        stops = "stop" if reason.ongoing else "go on"
        yield f"`{name}`", reason.meaning, stops, reason.repair


def _clocks() -> Iterator[Sequence[str]]:
    yield "clock", "since when", "where it is not so", "where that is unknown", "restarts with"
    for name, row in CLOCKS.items():
        yield name, row.times, row.otherwise, row.unknown, ", ".join(sorted(row.restarts)) or "-"


def _first_line(rule: object) -> str:
    text = inspect.getdoc(rule)
    if not text:
        raise ValueError(f"{rule} needs a docstring: it is a row of docs/architecture.md")
    return text.partition("\n")[0]


TABLES: Tables = {
    "acts": _acts,
    "caps": _caps,
    "brakes": _brakes,
    "reasons": _reasons,
    "clocks": _clocks,
}
