"""Expressions of the rules and queries in their templates, for lints."""

import re
from collections.abc import Iterator
from typing import Any

import promql_parser as promql

from alerts.render import annotations
from alerts.rule import Alert, Recording, Settings

_QUERY = re.compile(r"printf `([^`]*)`")
_VALUE = re.compile(r"%(\[\d+\])?q")


def queried_in_texts(alert: Alert) -> list[str]:
    """Return the queries in an alert's annotations, with values in place of labels."""
    texts = annotations(alert, Settings()).values()
    found = {query for text in texts for query in _QUERY.findall(text)}
    return sorted(_VALUE.sub('"x"', query) for query in found)


def expressions(rule: Alert | Recording) -> Iterator[str]:
    """Return every query of a rule."""
    yield rule.expr
    if isinstance(rule, Alert):
        yield from queried_in_texts(rule)


def nodes(expr: Any) -> Iterator[Any]:
    """Return the expression and all its nodes."""
    found: list[Any] = []
    promql.walk(expr, pre_visit=found.append)
    yield from found
