"""A PromQL expression as a test reads it: its selectors, what is done to them, its labels."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import promql_parser as promql

from dashboards.panel import Dashboard

RATE_INTERVAL = "4321s"
"""What `$__rate_interval` becomes, so that it is known again."""
_GRAFANA = {
    "$__rate_interval": RATE_INTERVAL,
    "$__interval_ms": "60000",
    "$__interval": "60s",
    "$__range_s": "3600",
    "$__range": "1h",
}
_LEFT = re.compile(r"\$\{?[a-zA-Z_]\w*")


class Selected(NamedTuple):
    name: str
    labels: frozenset[str]
    window: int | None
    """Seconds, where it is a range."""
    within: tuple[str, ...]
    """Functions and aggregations around it, from the outside."""


def substituted(expr: str, dashboard: Dashboard) -> str:
    """Put values where Grafana would; fails on a variable that the dashboard does not have."""
    for name, value in _GRAFANA.items():
        expr = expr.replace(name, value)
    for variable in sorted(dashboard.variables, key=lambda entry: -len(entry.name)):
        expr = expr.replace(f"${variable.name}", ".+" if variable.found else variable.every or "x")
    assert not _LEFT.findall(expr), f"{dashboard.board.uid} has no such variable: {expr}"
    return expr


def selectors(expr: Any, within: tuple[str, ...] = ()) -> Iterator[Selected]:
    match expr:
        case promql.VectorSelector():
            yield _selected(expr, None, within)
        case promql.MatrixSelector():
            yield _selected(expr.vector_selector, int(expr.range.total_seconds()), within)
        case promql.Call():
            for argument in expr.args:
                yield from selectors(argument, (*within, expr.func.name))
        case promql.AggregateExpr():
            yield from selectors(expr.expr, (*within, str(expr.op)))
        case promql.BinaryExpr():
            yield from selectors(expr.lhs, within)
            yield from selectors(expr.rhs, within)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            yield from selectors(expr.expr, within)
        case _:
            assert isinstance(expr, promql.NumberLiteral | promql.StringLiteral), type(expr)


def _selected(
    selector: promql.VectorSelector, window: int | None, within: tuple[str, ...]
) -> Selected:
    labels = frozenset(matcher.name for matcher in selector.matchers.matchers)
    return Selected(selector.name or "", labels, window, within)


def named_labels(expr: Any) -> Iterator[str]:
    """Return the labels that aggregations and joins name."""
    match expr:
        case promql.AggregateExpr():
            yield from expr.modifier.labels if expr.modifier else ()
            yield from named_labels(expr.expr)
        case promql.BinaryExpr():
            if expr.modifier:
                yield from expr.modifier.matching.labels if expr.modifier.matching else ()
                yield from expr.modifier.group_labels or ()
            yield from named_labels(expr.lhs)
            yield from named_labels(expr.rhs)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            yield from named_labels(expr.expr)
        case promql.Call():
            for argument in expr.args:
                yield from named_labels(argument)
        case _:
            return
