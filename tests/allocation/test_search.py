"""What is allocated on one node: the first way that fits, or why there is none."""

from typing import Any

import pytest

from allocation import search
from tests.allocation.builders import (
    cluster,
    device,
    has,
    in_slice,
    names,
    outcome,
    request,
    waiting,
)

PAIRS = tuple(
    device(f"gpu-{number}", attributes={"root": {"string": f"pci-{number // 2}"}})
    for number in range(4)
)
SAME_ROOT = ({"matchAttribute": "gpu.nvidia.com/root"},)


def test_the_first_free_devices_in_the_order_of_the_slice() -> None:
    given = cluster([in_slice(*PAIRS)], has("gpu-1"))

    assert names(outcome(given, waiting(request(count=2)))) == ["gpu-0", "gpu-2"]


def test_it_goes_back_where_the_rest_does_not_fit() -> None:
    """Only the second pair is free as a whole."""
    given = cluster([in_slice(*PAIRS)], has("gpu-1"))

    found = outcome(given, waiting(request(count=2), constraints=SAME_ROOT))

    assert names(found) == ["gpu-2", "gpu-3"]


def test_all_claims_of_a_pod_or_none() -> None:
    given = cluster([in_slice(*PAIRS)], has("gpu-1"))
    pair = waiting(request(count=2), constraints=SAME_ROOT)

    assert names(outcome(given, pair, waiting(name="more"))) == ["gpu-2", "gpu-3", "gpu-0"]
    assert outcome(given, pair, waiting(request(count=2))).ending == "None"


def test_the_first_alternative_that_can_be_had() -> None:
    many = {"name": "many", "deviceClassName": "gpu", "count": 8}
    one = {"name": "one", "deviceClassName": "gpu", "count": 1}
    given = cluster([in_slice(*PAIRS)])

    found = outcome(given, waiting({"name": "r", "firstAvailable": [many, one]}))

    assert [(name, each.device) for _, name, each in found.devices] == [("r/one", "gpu-0")]


def test_all_devices_are_all_that_match_and_each_must_be_free() -> None:
    every = waiting(request(allocationMode="All"))

    assert len(names(outcome(cluster([in_slice(*PAIRS)]), every))) == 4
    assert outcome(cluster([in_slice(*PAIRS)], has("gpu-3")), every).ending == "None"
    assert outcome(cluster([in_slice(*PAIRS, count=2)]), every).ending == "Fails"


def test_of_all_devices_one_that_breaks_a_constraint_is_an_error_before_one_that_is_full() -> None:
    shared: dict[str, Any] = {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "8Gi"}},
    }
    first = device("gpu-0", attributes={"root": {"string": "a"}})
    full = device("gpu-1", attributes={"root": {"string": "b"}}, **shared)
    share = has("gpu-1", shareID="1", consumedCapacity={"memory": "8Gi"})
    every = waiting(request(allocationMode="All"), constraints=SAME_ROOT)

    assert outcome(cluster([in_slice(first, full)], share), every).ending == "Fails"


def test_partitions_are_taken_as_long_as_their_counters_last() -> None:
    counters = {"counterSet": "gpu-0", "counters": {"slices": {"value": "4"}}}
    parts = [device(f"part-{number}", consumesCounters=[counters]) for number in range(3)]
    shared = {"name": "gpu-0", "counters": {"slices": {"value": "8"}}}
    given = cluster(
        [in_slice(*parts, count=2, name="a"), in_slice(count=2, name="b", sharedCounters=[shared])]
    )

    assert names(outcome(given, waiting(request(count=2)))) == ["part-0", "part-1"]
    assert outcome(given, waiting(request(count=3))).ending == "None"


def test_a_selector_that_fails_ends_the_attempt_only_where_it_is_met() -> None:
    fails = waiting(request(selectors=[{"cel": {"expression": "fails"}}]))

    assert outcome(cluster([in_slice(*PAIRS)]), fails).ending == "SelectorFails"
    taken = [has(f"gpu-{number}", f"c{number}") for number in range(4)]
    assert outcome(cluster([in_slice(*PAIRS)], *taken), fails).ending == "None"


LATER: tuple[dict[str, Any], ...] = (
    {"selectors": [{"cel": {"expression": "unknown"}}]},
    {"selectors": [{}]},
    {"allocationMode": "Some"},
    {"derivedAttributes": [{}]},
)


@pytest.mark.parametrize("requested", LATER)
def test_what_is_of_a_later_kubernetes_is_not_evaluated(requested: dict[str, Any]) -> None:
    found = outcome(cluster([in_slice(*PAIRS)]), waiting(request(**requested)))

    assert (found.ending, bool(found.why)) == ("NotEvaluated", True)


@pytest.mark.parametrize("requested", [{"count": 33}, {"deviceClassName": "gone"}])
def test_what_no_node_can_serve_is_an_error(requested: dict[str, Any]) -> None:
    assert outcome(cluster([in_slice(*PAIRS)]), waiting(request(**requested))).ending == "Fails"


def test_a_search_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_STEPS", 50)
    many = [device(f"gpu-{n}", attributes={"root": {"string": str(n)}}) for n in range(40)]

    found = outcome(cluster([in_slice(*many)]), waiting(request(count=3), constraints=SAME_ROOT))

    assert (found.ending, found.why) == ("NotEvaluated", "there are more than 50 devices to try")


@pytest.mark.parametrize(("most", "ending"), [(7, "NotEvaluated"), (8, "None")])
def test_too_few_free_devices_take_as_long_as_there_are_sets_of_them(
    monkeypatch: pytest.MonkeyPatch, most: int, ending: str
) -> None:
    monkeypatch.setattr(search, "MOST_SETS", most)
    free = [device(f"gpu-{n}") for n in range(3)]

    given = cluster([in_slice(*free, device("gpu-3"))], has("gpu-3"))

    assert outcome(given, waiting(request(count=4))).ending == ending


def test_fifteen_of_sixteen_are_too_few_for_sixteen() -> None:
    given = cluster([in_slice(*[device(f"gpu-{n}") for n in range(16)])], has("gpu-0"))

    assert outcome(given, waiting(request(count=16))).ending == "None"


def test_more_requests_than_can_be_tried_within_each_other_are_not_evaluated() -> None:
    shared = in_slice(device("shared", allowMultipleAllocations=True))
    claims = [
        waiting(*[request(name=f"r{number}") for number in range(32)], name=f"c{claim}")
        for claim in range(11)
    ]

    assert outcome(cluster([shared]), *claims[:5]).ending == "Allocated"
    assert outcome(cluster([shared]), *claims).ending == "NotEvaluated"
