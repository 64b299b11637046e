"""The namespaces take turns, in the order in which they are given."""

from allocation.explainer.turns import in_turn


def test_each_namespace_has_its_first_before_any_has_its_second() -> None:
    entries = ["a1", "a2", "a3", "b1", "c1", "b2"]

    assert in_turn(entries, lambda entry: entry[0]) == ["a1", "b1", "c1", "a2", "b2", "a3"]
