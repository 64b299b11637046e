"""A slice that selects nodes by labels is found for each node that it is for, and for no other."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation.by_label import ByLabel
from allocation.model.nodes import Node, NodeSelectorError
from allocation.model.slices import ResourceSlice
from allocation.pools import Published
from tests.allocation.builders import device, in_slice
from tests.lab.examples import examples

KEYS, VALUES = ("zone", "rack", "metadata.name"), ("a", "b", "node-a")
UNREADABLE = {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
nodes = st.builds(Node, st.sampled_from(VALUES), labels)
accepted = st.lists(st.sampled_from(VALUES), min_size=1, max_size=2)
expressions = st.one_of(
    st.fixed_dictionaries(
        {"key": st.sampled_from(KEYS), "operator": st.just("In"), "values": accepted}
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(KEYS), "operator": st.sampled_from(("Exists", "DoesNotExist"))}
    ),
)
fields = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(("In", "NotIn")),
        "values": st.lists(st.sampled_from(VALUES), min_size=1, max_size=1),
    }
)
terms = st.fixed_dictionaries(
    {
        "matchExpressions": st.lists(expressions, max_size=2),
        "matchFields": st.lists(fields, max_size=1),
    }
)


def selecting(number: int, *selected: dict[str, Any], **fields: Any) -> ResourceSlice:
    where = {"nodeSelector": {"nodeSelectorTerms": selected}}
    return in_slice(device("gpu-0"), pool=f"pool-{number}", **where, **fields)


def in_zone(zone: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}


@settings(max_examples=examples(300))
@given(st.lists(st.lists(terms, max_size=2), max_size=5), nodes)
def test_each_slice_of_a_node_is_found_once(drawn: list[list[dict[str, Any]]], node: Node) -> None:
    slices = [selecting(number, *each) for number, each in enumerate(drawn)]

    found = [pool.slices for pool in Published(slices).pools_of(node)]

    assert found == [(each,) for each in slices if each.is_for(node)]


def test_only_slices_that_require_a_label_of_the_node_are_compared() -> None:
    everyone = {"key": "gpu", "operator": "In", "values": ["yes"]}
    slices = [
        selecting(
            n,
            {"matchExpressions": [everyone, {"key": "rack", "operator": "In", "values": [f"{n}"]}]},
        )
        for n in range(9)
    ]
    shared = in_slice(device("gpu-0"), pool="shared", allNodes=True)

    near = ByLabel([*slices, shared]).near(Node("node-a", {"gpu": "yes", "rack": "7"}))

    assert near == [slices[7], shared]


@pytest.mark.parametrize("zone", ["a", "b"])
def test_what_kubernetes_cannot_read_is_an_error_on_each_node(zone: str) -> None:
    published = Published([selecting(0, in_zone("a")), selecting(1, in_zone("a"), UNREADABLE)])

    with pytest.raises(NodeSelectorError, match="zone Near"):
        published.pools_of(Node("node-a", {"zone": zone}))


def test_the_first_selector_that_cannot_be_read_is_named() -> None:
    other = {"matchExpressions": [{"key": "gen", "operator": "Near", "values": ["1"]}]}

    with pytest.raises(NodeSelectorError, match="gen Near"):
        Published([selecting(0, other), selecting(1, UNREADABLE)]).pools_of(Node("node-a"))


def test_a_slice_for_all_nodes_needs_no_selector_that_can_be_read() -> None:
    given = selecting(0, UNREADABLE, allNodes=True)

    (pool,) = Published([given]).pools_of(Node("node-a"))

    assert pool.slices == (given,)
