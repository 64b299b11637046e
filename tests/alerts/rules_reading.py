"""The rules as lints read them: their expressions, and the queries inside their templates."""

import re
from collections.abc import Iterator
from typing import Any

import promql_parser as promql

from alerts.render import annotations
from alerts.rule import Alert, Recording, Settings

_QUERY = re.compile(r"printf `([^`]*)`")
_VALUE = re.compile(r"%(\[\d+\])?q")


def asked_in_texts(alert: Alert) -> list[str]:
    """Return the queries that an alert's annotations ask, with a value where a label would be."""
    texts = annotations(alert, Settings()).values()
    found = {query for text in texts for query in _QUERY.findall(text)}
    return sorted(_VALUE.sub('"x"', query) for query in found)


def expressions(rule: Alert | Recording) -> Iterator[str]:
    """Return every query that a rule makes."""
    yield rule.expr
    if isinstance(rule, Alert):
        yield from asked_in_texts(rule)


def nodes(expr: Any) -> Iterator[Any]:
    """Return the expression and all that is in it."""
    found: list[Any] = []
    promql.walk(expr, pre_visit=found.append)
    yield from found
