"""The whole attempt of the scheduler: an error on one node ends it, whatever others have."""

from collections.abc import Sequence

import msgspec
import pytest

from allocation.answers import Answers
from allocation.layers.explanation import Inventory, Known, explain
from allocation.model.claims import (
    CelSelector,
    ClassSpec,
    Consumer,
    DeviceClass,
    Selector,
)
from allocation.model.nodes import Node, NodeTaint
from allocation.model.slices import ResourceSlice
from allocation.selectors.answers import Answer, fails
from allocation.selectors.device import SelectedDevice
from kubeapi.types import ObjectMeta
from tests.allocation.builders import (
    Json,
    device,
    evaluate,
    has,
    in_slice,
    request,
    waiting,
)
from tests.allocation.explanations import (
    ERROR,
    NODES,
    NOW,
    changes,
    claim_on_node,
    explanation,
    gpus,
    pod,
)


def evaluate_strictly(expression: str, devices: Sequence[SelectedDevice]) -> list[Answer]:
    """Evaluate as CEL does: an attribute that a device does not have is an error."""
    name = expression.partition(":")[0]
    return [
        answer if name in each.attributes else fails("no such key")
        for each, answer in zip(devices, evaluate(expression, devices), strict=True)
    ]


def selected(*names: str, request_name: str = "r") -> Json:
    """Return a request whose selectors end with an error where an attribute is missing."""
    selectors = [{"cel": {"expression": f"{name}:x"}} for name in names]
    return request(request_name, selectors=selectors)


def with_x(*names: str) -> Json:
    return {"attributes": {name: {"string": "x"} for name in names}}


class TestAChangeIsEnoughForTheWholeAttempt:
    """The scheduler gives up on the pod where a selector fails, on whichever node."""

    def test_no_other_node_is_opened_on_which_a_selector_fails(self) -> None:
        found = explanation(
            pod("job", nodeSelector={"zone": "c"}),
            waiting(selected("m")),
            slices=(gpus("node-a", **with_x("m")), gpus("node-b")),
            by=evaluate_strictly,
        )

        assert changes(found) == []
        assert found.finding.reason == "NodeAffinity"

    def test_of_two_selectors_that_fail_on_two_nodes_none_is_dropped_alone(self) -> None:
        found = explanation(
            pod("job", status=ERROR),
            waiting(selected("one", "two")),
            slices=(gpus("node-a", **with_x("two")), gpus("node-b", **with_x("one"))),
            by=evaluate_strictly,
        )

        assert found.finding.reason == "SelectorFails"
        assert changes(found) == []

    def test_without_a_taint_another_node_may_come_to_a_selector_that_fails(self) -> None:
        """It is on the first device of both nodes, and the second of node-b fails then."""
        taint = {"key": "team/hold", "effect": "NoSchedule", "rule": "hold"}

        def board(node: str, *more: str) -> ResourceSlice:
            gpu = device(
                "gpu-0", taints=[taint], attributes={"g": {"string": "x"}} | {"n": {"string": "y"}}
            )
            nic = device("nic-0", attributes={"g": {"string": "y"}} | with_x(*more)["attributes"])
            return in_slice(gpu, nic, pool=node, nodeName=node)

        both = waiting(selected("g", request_name="gpu"), selected("n", request_name="nic"))
        well = explanation(
            pod("job"),
            both,
            slices=(board("node-a", "n"), board("node-b", "n")),
            by=evaluate_strictly,
        )
        fails = explanation(
            pod("job"), both, slices=(board("node-a", "n"), board("node-b")), by=evaluate_strictly
        )

        assert changes(well) == [("RemoveRule", "hold")]
        assert changes(fails) == []

    def test_of_all_devices_no_node_is_opened_whose_pool_is_not_complete(self) -> None:
        nodes = tuple(Node(f"node-{zone}", {"zone": zone}) for zone in "abc")
        half = in_slice(device("gpu-0"), pool="node-c", nodeName="node-c", count=2)
        found = explanation(
            pod("job", nodeSelector={"zone": "a"}),
            waiting(request(allocationMode="All")),
            slices=(gpus("node-a"), gpus("node-b"), half),
            others=(has("gpu-0"),),
            nodes=nodes,
        )

        assert changes(found) == [("Free", "team/other")]

    def test_devices_that_are_freed_change_nothing_on_other_nodes(self) -> None:
        """On node-b all devices are requested in vain too, and that is no error."""
        found = explanation(
            pod("job"),
            waiting(request(allocationMode="All")),
            others=(has("gpu-0"), claim_on_node("stranger", "node-b")),
        )

        assert changes(found) == [("Free", "team/other"), ("Free", "team/stranger")]


class TestWhereTheSchedulerSearches:
    FIRST = claim_on_node("first", "node-a")
    WANTS = waiting(selected("m"), name="second")

    def test_an_error_comes_up_also_where_another_claim_is_not(self) -> None:
        found = explanation(
            pod("first", "second", status=ERROR),
            self.FIRST,
            self.WANTS,
            slices=(gpus("node-a", 2, **with_x("m")), gpus("node-b")),
            by=evaluate_strictly,
        )

        assert found.finding.reason == "SelectorFails"
        assert "m:x fails on gpu.nvidia.com/node-b/gpu-0" in found.finding.message

    def test_no_error_comes_up_on_a_node_that_is_closed_before(self) -> None:
        found = explanation(
            pod("first", "second", status=ERROR),
            self.FIRST,
            self.WANTS,
            slices=(gpus("node-a", 2, **with_x("m")), gpus("node-b")),
            nodes=(Node("node-a"), Node("node-b", unschedulable=True)),
            by=evaluate_strictly,
        )

        assert found.summary
        assert found.summary.verdict == "Allocatable"

    def test_without_nodes_it_is_not_known_where_a_selector_fails(self) -> None:
        found = explanation(
            pod("job", nodeSelector={"zone": "a"}),
            waiting(selected("m")),
            slices=(gpus("node-a", **with_x("m")), gpus("node-b")),
            others=(has("gpu-0"),),
            nodes=(),
            unread={"nodes": "may not list nodes"},
            by=evaluate_strictly,
        )

        assert found.finding.reason == "NotRead"

    def test_a_scheduler_that_refuses_the_nodes_has_met_no_error(self) -> None:
        """Node-b has no CPU left, which is looked at before devices."""
        found = explanation(
            pod("job", message="0/2 nodes are available: 1 Insufficient cpu, 1 cannot allocate."),
            waiting(selected("m")),
            slices=(gpus("node-a", **with_x("m")), gpus("node-b")),
            others=(has("gpu-0"),),
            by=evaluate_strictly,
        )

        assert found.finding.reason == "Allocated"
        assert "  1 on nodes that the scheduler refuses for other reasons" in found.finding.evidence
        assert changes(found) == []

    def test_where_it_refuses_all_nodes_with_devices_its_own_words_are_the_reason(self) -> None:
        found = explanation(
            pod("job", message="0/2 nodes are available: 2 Insufficient cpu."),
            waiting(selected("m")),
            slices=(gpus("node-b"),),
            by=evaluate_strictly,
        )

        assert found.finding.reason == "OtherResources"
        assert found.finding.evidence == ("2 nodes: Insufficient cpu",)

    @pytest.mark.parametrize(
        "conditions", [[], [{"type": "PodScheduled", "reason": "SchedulingGated"}]]
    )
    def test_before_the_first_attempt_an_error_is_foreseen(self, conditions: list[Json]) -> None:
        found = explanation(
            pod("job", status={"conditions": conditions}),
            waiting(selected("m")),
            by=evaluate_strictly,
        )

        assert found.summary
        assert found.summary.verdict == "SelectorFails"

    def test_an_error_that_is_no_selectors_is_not_called_one(self) -> None:
        """All devices are requested, and a pool is incomplete: no selector is evaluated."""
        found = explanation(
            pod("job", status=ERROR),
            waiting(
                request("all", allocationMode="All", selectors=[{"cel": {"expression": "m:x"}}])
            ),
            slices=(in_slice(device("gpu-0"), pool="node-a", nodeName="node-a", count=2),),
            by=evaluate_strictly,
        )

        assert found.finding.reason == "Fails"
        assert "1 of 2 slices of generation 1 are published" in found.finding.message

    def test_a_capacity_that_cannot_be_read_is_no_selector(self) -> None:
        odd = device("gpu-0", capacity={"memory": {"value": "1e999"}})
        found = explanation(
            pod("job", status=ERROR),
            waiting(request(capacity={"requests": {"memory": "1"}})),
            slices=(in_slice(odd, pool="node-a", nodeName="node-a"),),
        )

        assert found.finding.reason == "Fails"
        assert changes(found) == []


def test_a_claim_that_is_full_comes_before_devices_of_another() -> None:
    """The scheduler looks at no node then, and no device is enough."""
    users = [{"name": f"p{n}", "resource": "pods", "uid": f"u{n}"} for n in range(256)]
    mine = claim_on_node("full", "node-a")
    status = msgspec.structs.replace(
        mine.status, reserved_for=msgspec.convert(users, tuple[Consumer, ...])
    )
    found = explanation(
        pod("full", "job"),
        msgspec.structs.replace(mine, status=status),
        waiting(),
        others=(claim_on_node("stranger", "node-b"),),
    )

    assert (found.finding.layer, found.finding.reason) == ("Scheduling", "ClaimInUse")
    assert changes(found) == []


class TestAPoolThatChoosesNoNode:
    RACK: Json = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}
        ]
    }

    def test_its_devices_are_there_and_for_no_node(self) -> None:
        rack = in_slice(device("gpu-0"), pool="rack-1", nodeSelector=self.RACK)
        found = explanation(pod("job"), waiting(), slices=(rack,))

        assert found.finding.reason == "NoNodeChosen"
        assert found.finding.message == (
            "devices of class gpu are published, but for no node that there is: pool rack-1"
        )

    def test_what_a_newer_generation_has_no_more_is_gone(self) -> None:
        old = in_slice(device("gpu-0"), pool="rack-1", nodeSelector=self.RACK)
        new = in_slice(pool="rack-1", generation=2, nodeSelector=self.RACK)
        found = explanation(pod("job"), waiting(), slices=(old, new))

        assert found.finding.reason == "NoDevices"

    def test_one_of_another_class_is_none(self) -> None:
        other = DeviceClass(
            msgspec.convert({"name": "tpu"}, ObjectMeta),
            ClassSpec((Selector(CelSelector("type:tpu")),)),
        )
        wants = waiting(request(deviceClassName="tpu"))
        stock = Inventory(
            slices=(in_slice(device("gpu-0"), pool="rack-1", nodeSelector=self.RACK),),
            classes=(other,),
            nodes=NODES,
        )
        known = Known(at=NOW, pod=pod("job"), claims=(wants,), inventory=stock)
        found = explain(known, Answers(evaluate)).finding

        assert found.reason == "NoDevices"
        assert found.message.startswith("no published device is of class tpu;")


@pytest.mark.parametrize(
    ("node", "fits"),
    [
        (Node("node-a", unschedulable=True), False),
        (
            Node("node-a", taints=(NodeTaint("node.kubernetes.io/not-ready", "", "NoSchedule"),)),
            False,
        ),
        (Node("node-a", taints=(NodeTaint("nvidia.com/gpu", "", "NoSchedule"),)), True),
    ],
    ids=["cordoned", "not ready", "for pods that tolerate it"],
)
def test_a_claim_without_a_pod_fits_where_some_pod_may_run(node: Node, *, fits: bool) -> None:
    found = explanation(None, waiting(), nodes=(node,)).finding

    assert found.message.endswith("it would fit on node-a") == fits
