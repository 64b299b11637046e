"""Every reason that keeps a device from a request, beside each other."""

from typing import Any

import msgspec
import pytest

from allocation.model.nodes import Node
from allocation.model.slices import TaintRule, with_rules
from allocation.reasons import Outcome
from tests.allocation.builders import (
    cluster,
    device,
    has,
    in_slice,
    outcome,
    request,
    waiting,
    why,
)

KIND = {"attributes": {"type": {"string": "gpu"}}}
LOST = {"key": "draguard.dev/lost", "value": "xid-79", "effect": "NoExecute"}


def test_a_device_has_all_of_its_reasons() -> None:
    one = device("gpu-0", taints=[LOST])
    selectors = [{"cel": {"expression": "type:gpu"}}]

    found = why(cluster([in_slice(one)], has("gpu-0")), waiting(request(selectors=selectors)))

    assert found == {
        "gpu-0": [
            ("Allocated", "", "team/other"),
            ("RequestSelector", "type:gpu"),
            ("Tainted", "draguard.dev/lost"),
        ]
    }


@pytest.mark.parametrize(
    ("tolerations", "reasons"),
    [
        ([], [("Tainted", "draguard.dev/lost")]),
        ([{"operator": "Exists"}], []),
        ([{"key": "draguard.dev/lost", "value": "xid-79"}], []),
        ([{"key": "draguard.dev/lost", "value": "xid-48"}], [("Tainted", "draguard.dev/lost")]),
        (
            [{"key": "draguard.dev/lost", "operator": "Exists", "effect": "NoSchedule"}],
            [("Tainted", "draguard.dev/lost")],
        ),
    ],
)
def test_a_taint_keeps_away_who_does_not_tolerate_it(
    tolerations: list[dict[str, str]], reasons: list[tuple[str, str]]
) -> None:
    given = cluster([in_slice(device("gpu-0", taints=[LOST, {"key": "note", "effect": "None"}]))])

    assert why(given, waiting(request(tolerations=tolerations))) == {"gpu-0": reasons}


def rule(**selector: str) -> TaintRule:
    spec: dict[str, Any] = {"taint": LOST}
    if selector:
        spec["deviceSelector"] = selector
    return msgspec.convert({"metadata": {"name": "ours"}, "spec": spec}, TaintRule)


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        ({"driver": "gpu.nvidia.com", "pool": "node-a", "device": "gpu-1"}, ["gpu-1"]),
        ({"pool": "node-a"}, ["gpu-0", "gpu-1"]),
        ({"driver": "other.example.com"}, []),
        ({}, ["gpu-0", "gpu-1"]),
    ],
)
def test_a_rule_is_named_on_each_device_that_it_taints(
    selector: dict[str, str], tainted: list[str]
) -> None:
    slices = with_rules([in_slice(device("gpu-0"), device("gpu-1"))], [rule(**selector)])

    found = why(cluster(slices), waiting())

    reason = [("Tainted", "draguard.dev/lost", "ours")]
    assert found == {name: reason if name in tainted else [] for name in ("gpu-0", "gpu-1")}


def test_admin_access_looks_at_a_device_that_others_have_and_takes_no_tainted_one() -> None:
    given = cluster([in_slice(device("gpu-0"), device("gpu-1", taints=[LOST]))], has("gpu-0"))

    found = why(given, waiting(request(adminAccess=True)))

    assert found == {"gpu-0": [], "gpu-1": [("Tainted", "draguard.dev/lost")]}


def test_counters_name_the_partitions_that_use_them_up() -> None:
    def part(name: str, slices: str) -> dict[str, Any]:
        counters = {"counterSet": "gpu-0", "counters": {"slices": {"value": slices}}}
        return device(name, consumesCounters=[counters])

    shared = {"name": "gpu-0", "counters": {"slices": {"value": "8"}}}
    given = cluster(
        [
            in_slice(part("gpu-0", "8"), part("mig-0", "4"), part("mig-1", "4"), count=2, name="a"),
            in_slice(count=2, name="b", sharedCounters=[shared]),
        ],
        has("mig-0"),
    )

    found = why(given, waiting())

    assert found["gpu-0"] == [("Counters", "slices", "mig-0")]
    assert found["mig-1"] == []


def test_a_share_that_is_left_and_one_that_is_not() -> None:
    one = device("gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "80Gi"}})
    share: dict[str, Any] = {"shareID": "0-1", "consumedCapacity": {"memory": "60Gi"}}
    given = cluster([in_slice(one)], has("gpu-0", **share))

    def asks(amount: str) -> list[tuple[str, ...]]:
        return why(given, waiting(request(capacity={"requests": {"memory": amount}})))["gpu-0"]

    assert asks("20Gi") == []
    assert asks("21Gi") == [("Capacity", "memory", "team/other")]


def test_a_constraint_needs_its_attribute() -> None:
    given = cluster([in_slice(device("gpu-0"), device("gpu-1", **KIND))])
    constraint = {"matchAttribute": "gpu.nvidia.com/type"}

    assert why(given, waiting(constraints=[constraint])) == {
        "gpu-0": [("Constraint", "gpu.nvidia.com/type")],
        "gpu-1": [],
    }
    assert why(given, waiting(constraints=[constraint | {"requests": ["x"]}]))["gpu-0"] == []


@pytest.mark.parametrize(
    ("slices", "reason"),
    [
        (
            [in_slice(device("gpu-0"), count=2)],
            ("PoolIncomplete", "1 of 2 slices of generation 1 are published"),
        ),
        (
            [in_slice(device("gpu-0"), count=2), in_slice(generation=2, nodeName="elsewhere")],
            (
                "PoolIncomplete",
                "generation 2 replaces 1, and has nothing for this node yet",
            ),
        ),
        (
            [in_slice(device("gpu-0"), device("gpu-0"))],
            ("PoolInvalid", "two of its devices are called gpu-0"),
        ),
        (
            [in_slice(device("gpu-0", consumesCounters=[{"counterSet": "none", "counters": {}}]))],
            ("PoolInvalid", "gpu-0 consumes of none, which no slice has"),
        ),
    ],
)
def test_no_device_of_a_pool_that_is_not_there_as_a_whole(
    slices: list[Any], reason: tuple[str, str]
) -> None:
    given = cluster(slices)

    assert why(given, waiting())["gpu-0"] == [reason]
    assert outcome(given, waiting()) in (
        Outcome("None"),
        Outcome("None", why=f"pool node-a: {reason[1]}"),
    )


def test_an_older_generation_is_not_looked_at() -> None:
    given = cluster([in_slice(device("old")), in_slice(device("gpu-0"), generation=2)])

    assert why(given, waiting()) == {"gpu-0": []}


def test_a_device_of_a_shared_slice_may_be_for_another_node() -> None:
    given = cluster(
        [
            in_slice(
                device("nic-0", allNodes=True),
                device("nic-1", nodeName="node-b"),
                perDeviceNodeSelection=True,
            )
        ]
    )

    assert why(given, waiting()) == {"nic-0": [], "nic-1": [("OtherNode", "")]}
    assert why(given, waiting(), Node("node-b"))["nic-1"] == []


def test_an_attribute_of_a_type_that_is_not_known_is_not_evaluated() -> None:
    one = device("gpu-0", attributes={"speed": {"decimal": "1.5"}})
    selectors = [{"cel": {"expression": "speed:fast"}}]

    (reason,) = why(cluster([in_slice(one)]), waiting(request(selectors=selectors)))["gpu-0"]

    assert reason[0] == "NotEvaluated"
    assert "attribute speed has a type that this version" in reason[2]
