"""Why a claim waits, over all nodes: the question that the API server answers by one sentence."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from allocation.answers import Answers
from allocation.demand import Demand
from allocation.model.claims import Claim
from allocation.model.nodes import Node
from allocation.model.pods import Pod
from allocation.model.slices import ResourceSlice
from allocation.summary import Summary, summarize
from tests.allocation.builders import (
    cluster,
    device,
    evaluate,
    has,
    in_slice,
    request,
    waiting,
)

LOST = {"key": "draguard.dev/lost", "value": "xid-79", "effect": "NoExecute"}
GPU = {"attributes": {"type": {"string": "gpu"}}}


def board(node: str, *names: str, **fields: Any) -> ResourceSlice:
    """Return the GPUs of a node."""
    devices = [device(name, **(GPU | fields)) for name in names]
    return in_slice(*devices, pool=node, nodeName=node)


def summary(
    slices: Sequence[ResourceSlice],
    *claims: Claim,
    waits: Claim | None = None,
    nodes: Sequence[Node] = (Node("node-a"), Node("node-b")),
    pod: Pod | None = None,
) -> Summary:
    return summarize(
        Demand((waits or waiting(),), pod), nodes, cluster(slices, *claims), Answers(evaluate)
    )


def groups(found: Summary) -> list[tuple[str, str, int]]:
    (only,) = found.requests
    return [(each.why, each.what, len(each.devices)) for each in only.groups]


def test_a_claim_that_fits_names_the_node() -> None:
    found = summary([board("node-a", "gpu-0"), board("node-b", "gpu-0")], has("gpu-0"))

    assert (found.verdict, found.node) == ("Allocatable", "node-b")
    assert found.nodes == {"Allocated": 1, "None": 1}


def test_devices_are_counted_by_what_is_hardest_to_take_away() -> None:
    """One is allocated and tainted: it is allocated."""
    slices = [
        board("node-a", "gpu-0", taints=[LOST]),
        board("node-b", "gpu-0", "gpu-1", taints=[LOST]),
    ]

    found = summary(slices, has("gpu-0"))

    assert found.verdict == "TooFew"
    assert groups(found) == [("Tainted", "draguard.dev/lost", 2), ("Allocated", "", 1)]


def test_free_devices_on_a_cordoned_node_are_no_lack_of_gpus() -> None:
    pod = msgspec.convert({"metadata": {"name": "train"}}, Pod)
    nodes = (Node("node-a", unschedulable=True), Node("node-b"))

    found = summary([board("node-a", "gpu-0", "gpu-1")], nodes=nodes, pod=pod)

    assert found.verdict == "TooFew"
    assert groups(found) == [("NodeCordoned", "", 2)]
    assert found.nodes == {"None": 1}


def test_enough_devices_and_not_on_one_node() -> None:
    slices = [board("node-a", "gpu-0"), board("node-b", "gpu-0")]

    found = summary(slices, waits=waiting(request(count=2)))

    assert found.verdict == "TooFewTogether"
    assert [(each.free, each.most_on_a_node) for each in found.requests] == [(2, 1)]


def test_what_was_never_published_here() -> None:
    assert summary([]).verdict == "NoDevices"


def test_a_selector_that_no_device_meets() -> None:
    selectors = [{"cel": {"expression": "type:H200"}}]

    found = summary([board("node-a", "gpu-0")], waits=waiting(request(selectors=selectors)))

    assert found.verdict == "TooFew"
    assert groups(found) == [("RequestSelector", "type:H200", 1)]


@pytest.mark.parametrize(
    ("text", "verdict"), [("fails", "SelectorFails"), ("unknown", "NotEvaluated")]
)
def test_an_error_comes_before_a_number(text: str, verdict: str) -> None:
    selectors = [{"cel": {"expression": text}}]

    found = summary([board("node-a", "gpu-0")], waits=waiting(request(selectors=selectors)))

    assert found.verdict == verdict
    assert text in found.why


def test_a_class_that_is_gone() -> None:
    found = summary([board("node-a", "gpu-0")], waits=waiting(request(deviceClassName="h200")))

    assert (found.verdict, found.why) == ("ClassMissing", "DeviceClass h200 does not exist")


def test_a_device_that_several_nodes_see_counts_once() -> None:
    shared = in_slice(device("nic-0", taints=[LOST]), allNodes=True, pool="nics")

    assert groups(summary([shared])) == [("Tainted", "draguard.dev/lost", 1)]
