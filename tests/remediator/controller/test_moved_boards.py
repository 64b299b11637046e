"""A board that two nodes publish, while the agent of one of them is silent."""

import msgspec
import pytest

from remediator.controller.cache import Cache
from remediator.model.incident import IncidentSpec
from tests.remediator.builders import gpu, report, uuid
from tests.remediator.controller.test_cache import (
    believed,
    health,
    raw_rule,
    reported_elsewhere,
    silent_a,
    slice_of,
)


@pytest.fixture
def twice() -> Cache:
    """A board that was moved: both nodes publish it and reported it."""
    cache = Cache(lambda _: None)
    for node in ("node-a", "node-b"):
        one = slice_of("node-a", 0)
        spec = msgspec.structs.replace(one.spec, node_name=node)
        cache.put_slice(f"of-{node}", None, msgspec.structs.replace(one, spec=spec))
        cache.put_report(node, health(node, report(gpu(0))))
    return cache


def test_a_moved_board_is_of_the_node_that_reports_it_though_the_slices_of_a_dead_one_stay(
    twice: Cache,
) -> None:
    assert twice.view("node-b", silent_a).slices.elsewhere == {}
    assert twice.view("node-a", silent_a).slices.elsewhere == {uuid(0): ("node-b",)}
    assert twice.view("node-b", believed).slices.elsewhere == {uuid(0): ("node-a",)}


def test_a_node_that_is_silent_as_well_takes_no_board_from_a_dead_one(twice: Cache) -> None:
    assert twice.view("node-b", lambda _: "silent").slices.elsewhere == {uuid(0): ("node-a",)}


@pytest.mark.parametrize("has", ["a rule", "an incident"])
def test_a_board_of_which_the_silent_node_has_a_rule_or_an_incident_may_still_be_there(
    twice: Cache, has: str
) -> None:
    """So what the other one reports ends neither (`tests/remediator/test_dead_node.py`)."""
    raw = raw_rule("node-a")
    if has == "a rule":
        twice.put_rule(raw.metadata.name, raw)
    else:
        found = msgspec.structs.replace(reported_elsewhere(), spec=IncidentSpec("node-a", uuid(0)))
        twice.put_incident(found.name, found)

    seen = twice.view("node-b", silent_a).slices
    assert (seen.elsewhere, seen.also_at) == ({}, {uuid(0): ("node-a",)})
    assert seen.decided_by == {}
    assert twice.view("node-a", silent_a).slices.decided_by == {uuid(0): "node-b"}
