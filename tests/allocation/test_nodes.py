"""Which nodes a selector of a slice chooses."""

from typing import Any

import msgspec
import pytest

from allocation.model.nodes import Node, NodeSelector, NodeSelectorError

BEYOND = str(1 << 63)
"""The least number that Kubernetes cannot read."""
NODE = Node("node-a", {"zone": "a", "gen": "2", "huge": BEYOND, "last": str((1 << 63) - 1)})


def selector(*terms: dict[str, Any]) -> NodeSelector:
    return msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector)


def expressions(*requested: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in requested]}


@pytest.mark.parametrize(
    ("key", "operator", "values", "met"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "In", ["b"], False),
        ("none", "In", ["a"], False),
        ("zone", "NotIn", ["a"], False),
        ("none", "NotIn", ["a"], True),
        ("zone", "Exists", [], True),
        ("none", "DoesNotExist", [], True),
        ("gen", "Gt", ["1"], True),
        ("gen", "Gt", ["2"], False),
        ("gen", "Lt", ["3"], True),
        ("zone", "Lt", ["3"], False),
        ("none", "Gt", ["1"], False),
        ("huge", "Gt", ["1"], False),
        ("huge", "Lt", ["1"], False),
        ("last", "Gt", ["00000000000000000000001"], True),
    ],
)
def test_an_expression_about_labels(key: str, operator: str, values: list[str], met: bool) -> None:
    assert NODE.meets(selector(expressions((key, operator, values)))) is met


@pytest.mark.parametrize(
    ("operator", "name", "met"), [("In", "node-a", True), ("NotIn", "node-a", False)]
)
def test_the_name_is_a_field(operator: str, name: str, met: bool) -> None:
    field = {"key": "metadata.name", "operator": operator, "values": [name]}

    assert NODE.meets(selector({"matchFields": [field]})) is met


def test_any_term_is_enough_with_all_of_its_requirements_and_an_empty_one_chooses_none() -> None:
    zone, other = ("zone", "In", ["a"]), ("gen", "In", ["9"])

    assert NODE.meets(selector(expressions(other), expressions(zone)))
    assert not NODE.meets(selector(expressions(zone, other)))
    assert not NODE.meets(selector({}))


@pytest.mark.parametrize(
    "term",
    [
        expressions(("zone", "Near", ["a"])),
        expressions(("zone", "In", [])),
        expressions(("zone", "Exists", ["a"])),
        expressions(("gen", "Gt", ["many"])),
        expressions(("gen", "Lt", [BEYOND])),
        {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
    ],
)
def test_what_kubernetes_cannot_read_is_an_error_beside_a_term_that_is_met(
    term: dict[str, Any],
) -> None:
    with pytest.raises(NodeSelectorError):
        NODE.meets(selector(expressions(("zone", "In", ["a"])), term))
