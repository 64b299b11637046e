"""A pod or a claim explained from what was read of a cluster, whole."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from allocation.answers import Answers
from allocation.layers.explanation import Explanation, Inventory, Known, explain
from allocation.model.claims import (
    Claim,
    DeviceClass,
)
from allocation.model.nodes import Node, NodeTaint
from allocation.model.pods import EXTENDED_RESOURCES
from allocation.model.slices import ResourceSlice, TaintRule, with_rules
from allocation.selectors.answers import MATCHES, NO_MATCH, Answer, not_evaluated
from allocation.selectors.device import SelectedDevice
from exporter.model.device import Device
from tests.allocation.builders import (
    DRIVER,
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
    GPU,
    GPU_CLASS,
    NIC,
    NODES,
    NOW,
    changes,
    claim_on_node,
    explanation,
    gpus,
    pod,
)


def test_a_claim_that_is_placed_nowhere_in_particular_closes_no_node() -> None:
    """Such as one of a device of the network."""
    anywhere = msgspec.convert(
        {
            "metadata": {"name": "net", "namespace": "team"},
            "status": {"allocation": {"devices": {"results": []}}},
        },
        Claim,
    )
    found = explanation(pod("net", "job"), anywhere, waiting(name="job"))

    assert found.finding.reason == "Allocatable"


def failing(name: str, selector: str) -> Claim:
    return waiting(request(selectors=[{"cel": {"expression": selector}}]), name=name)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [(("one", "two"), "RequestSelector"), (("two", "one"), "SelectorFails")],
)
def test_claims_are_allocated_in_the_order_of_the_pod(spec: tuple[str, ...], reason: str) -> None:
    """The first that cannot be had ends the attempt, whatever comes after it."""
    one, two = failing("one", "type:none"), failing("two", "fails")

    for claims in ((one, two), (two, one)):
        assert explanation(pod(*spec, status=ERROR), *claims).finding.reason == reason


def test_a_claim_that_a_pod_names_twice_is_allocated_twice() -> None:
    names = [{"name": name, "resourceClaimName": "job"} for name in ("one", "two")]
    twice = pod(resourceClaims=names)

    found = explanation(twice, waiting(name="job"), slices=(gpus("node-a"),))

    assert found.finding.message == "2 requests of class gpu need 1 more devices than can be had"


class TestARuleThatSelectsByMoreThanIsKnown:
    CRITERIA = ({"deviceClassName": "gpu"}, {"selectors": [{"cel": {"expression": "true"}}]})

    @pytest.fixture(params=CRITERIA)
    def slices(self, request: pytest.FixtureRequest) -> tuple[ResourceSlice, ...]:
        """Return the slices of two nodes with such a rule for one of them."""
        selector = {"pool": "node-a", "driver": None, **request.param}
        taint = {"key": "sick", "effect": "NoSchedule"}
        rule = {"metadata": {"name": "old"}, "spec": {"taint": taint, "deviceSelector": selector}}
        return tuple(
            with_rules([gpus("node-a"), gpus("node-b")], [msgspec.convert(rule, TaintRule)])
        )

    def test_leaves_the_other_devices_as_they_are(self, slices: tuple[ResourceSlice, ...]) -> None:
        free = explanation(pod("job"), waiting(name="job"), slices=slices)

        assert free.finding.message.startswith("its claims could be allocated on node-b now")

    def test_makes_unknown_what_rests_on_it(self, slices: tuple[ResourceSlice, ...]) -> None:
        used = claim_on_node("other", "node-b")
        found = explanation(pod("job"), waiting(name="job"), slices=slices, others=(used,))

        assert found.finding.reason == "NotEvaluated"
        assert "DeviceTaintRule old is not evaluated on" in found.finding.message
        assert any("DeviceTaintRule old cannot be" in each for each in found.finding.evidence)
        assert ("RemoveRule", "old") not in changes(found)

    def test_does_not_matter_to_a_device_that_is_tainted_for_sure_or_used(
        self, slices: tuple[ResourceSlice, ...]
    ) -> None:
        used = claim_on_node("other", "node-b")
        has_it = claim_on_node("third", "node-a")
        found = explanation(pod("job"), waiting(name="job"), slices=slices, others=(used, has_it))

        assert found.summary is not None
        assert found.summary.verdict == "TooFew"

    def test_calls_no_device_tainted_that_a_pod_has(
        self, slices: tuple[ResourceSlice, ...]
    ) -> None:
        runs = pod("job", nodeName="node-a", status={"phase": "Running"})

        assert explanation(runs, claim_on_node("job", "node-a"), slices=slices).finding.reason == (
            "Running"
        )


class TestAPodWithAClaimThatIsPlaced:
    """Claim `first` is on node-a already, so all of the pod has to be there."""

    def test_devices_elsewhere_do_not_help_and_no_stranger_is_named(self) -> None:
        found = explanation(
            pod("first", "second"),
            claim_on_node("first", "node-a"),
            waiting(name="second"),
            others=(claim_on_node("stranger", "node-b"),),
        )

        assert changes(found) == []

    def test_a_free_device_elsewhere_is_not_allocatable(self) -> None:
        found = explanation(
            pod("first", "second"),
            claim_on_node("first", "node-a"),
            waiting(request(count=2), name="second"),
            slices=(gpus("node-a"), gpus("node-b", 2)),
        )

        assert found.finding.reason == "ClaimElsewhere"
        assert changes(found) == []

    def test_where_it_is_the_rest_is_looked_for(self) -> None:
        found = explanation(
            pod("first", "second"),
            claim_on_node("first", "node-a"),
            waiting(name="second"),
            slices=(gpus("node-a", 2), gpus("node-b")),
            others=(has("gpu-1", "other"),),
        )

        assert changes(found) == [("Free", "team/other")]

    def test_a_cordoned_node_where_it_is_not_is_closed_by_the_claim(self) -> None:
        found = explanation(
            pod("first", "second"),
            claim_on_node("first", "node-a"),
            waiting(request(count=2), name="second"),
            slices=(gpus("node-a"), gpus("node-b", 2)),
            nodes=(Node("node-a"), Node("node-b", unschedulable=True)),
        )

        assert found.finding.reason == "ClaimElsewhere"

    def test_two_on_two_nodes_are_together_nowhere(self) -> None:
        found = explanation(
            pod("first", "second"),
            claim_on_node("first", "node-a"),
            claim_on_node("second", "node-b"),
        )

        assert found.finding.reason == "ClaimElsewhere"
        assert found.finding.message.endswith("no node has all of them, or none is left")


class TestNodesThatKeepThePodAway:
    def test_a_taint_of_a_pool_is_tolerated_and_not_removed(self) -> None:
        taints = (NodeTaint("nvidia.com/gpu", "present", "NoSchedule"),)
        found = explanation(pod("job"), waiting(), nodes=(Node("node-a", taints=taints),))

        assert found.finding.reason == "NodeTainted"
        assert changes(found) == [("Tolerate", "nvidia.com/gpu of node node-a")]

    def test_two_taints_are_tolerated_together(self) -> None:
        taints = (NodeTaint("a", "", "NoSchedule"), NodeTaint("b", "", "NoExecute"))
        found = explanation(pod("job"), waiting(), nodes=(Node("node-a", taints=taints),))

        assert changes(found) == [("Tolerate", "a, b of node node-a")]

    @pytest.mark.parametrize("key", ["unreachable", "not-ready", "memory-pressure"])
    def test_a_condition_of_a_node_is_repaired_and_never_untainted(self, key: str) -> None:
        taints = (NodeTaint(f"node.kubernetes.io/{key}", "", "NoSchedule"),)
        found = explanation(pod("job"), waiting(), nodes=(Node("node-a", taints=taints),))

        assert found.finding.reason == "NodeNotReady"
        assert changes(found) == [("MakeReady", f"node-a (node.kubernetes.io/{key})")]

    def test_a_node_that_is_dead_as_well_is_nothing_to_tolerate(self) -> None:
        taints = (
            NodeTaint("nvidia.com/gpu", "", "NoSchedule"),
            NodeTaint("node.kubernetes.io/unreachable", "", "NoSchedule"),
        )
        found = explanation(pod("job"), waiting(), nodes=(Node("node-a", taints=taints),))

        assert changes(found) == []

    @pytest.mark.parametrize(
        "key",
        [
            "ToBeDeletedByClusterAutoscaler",
            "karpenter.sh/disrupted",
            "node.cilium.io/agent-not-ready",
            "node.kubernetes.io/out-of-service",
            "node.cloudprovider.kubernetes.io/shutdown",
        ],
    )
    def test_a_node_on_its_way_in_or_out_is_left_alone(self, key: str) -> None:
        leaves = Node("node-a", taints=(NodeTaint(key, "", "NoSchedule"),))
        found = explanation(pod("job"), waiting(), nodes=(leaves,))

        assert found.finding.reason == "NodeNotReady"
        assert changes(found) == []

    def test_a_node_that_is_not_ready_and_tainted_has_two_faults(self) -> None:
        taints = (
            NodeTaint("node.kubernetes.io/not-ready", "", "NoSchedule"),
            NodeTaint("nvidia.com/gpu", "", "NoSchedule"),
        )
        found = explanation(pod("job"), waiting(), nodes=(Node("node-a", taints=taints),))

        assert changes(found) == []

    def test_a_pod_of_a_daemon_set_stays_on_its_node(self) -> None:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
        required = {"nodeSelectorTerms": [term]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        found = explanation(
            pod("job", affinity=affinity), waiting(), others=(has("gpu-0", "other"),)
        )

        assert found.finding.reason == "Allocated"
        assert changes(found) == [("Free", "team/other")]

    @pytest.mark.parametrize(
        "spec",
        [
            {"nodeSelector": {"zone": "a", "disk": "ssd"}},
            {
                "nodeSelector": {"zone": "a"},
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
                            ]
                        }
                    }
                },
            },
        ],
        ids=["two labels", "a label and an affinity"],
    )
    def test_two_things_that_do_not_choose_a_node_are_two_changes(self, spec: Json) -> None:
        found = explanation(pod("job", **spec), waiting(), nodes=(Node("node-a"),))

        assert found.finding.reason == "NodeAffinity"
        assert changes(found) == []

    def test_the_nearest_node_has_most_devices_that_one_thing_keeps_away(self) -> None:
        taint = {"key": "team/hold", "effect": "NoSchedule"}
        names = [f"node-{letter}" for letter in "abcd"]
        two = in_slice(
            device("gpu-0"), device("gpu-1", taints=[taint]), pool="node-d", nodeName="node-d"
        )
        found = explanation(
            pod("job"),
            waiting(request(count=2)),
            slices=(*(gpus(name) for name in names[:3]), two),
            nodes=tuple(map(Node, names)),
        )

        assert found.summary
        assert found.summary.near[0] == "node-d"
        assert ("Untaint", f"team/hold of {DRIVER}/node-d/gpu-1") in changes(found)

    def test_three_nodes_are_enough_to_name(self) -> None:
        names = [f"node-{letter}" for letter in "abcde"]
        found = explanation(
            pod("job"),
            waiting(),
            slices=tuple(gpus(name) for name in names),
            nodes=tuple(Node(name, unschedulable=True) for name in names),
        )

        assert changes(found) == [("Uncordon", name) for name in names[:3]]

    def test_the_pod_s_own_full_pool_comes_before_more_devices_of_others(self) -> None:
        away = Node("node-b", taints=(NodeTaint("team", "b", "NoSchedule"),))
        found = explanation(
            pod("job"),
            waiting(),
            slices=(gpus("node-a"), gpus("node-b", 4)),
            others=(has("gpu-0", "other"),),
            nodes=(Node("node-a"), away),
        )

        assert found.finding.reason == "Allocated"
        assert changes(found)[0] == ("Free", "team/other")

    def test_a_change_that_is_not_enough_alone_is_not_offered(self) -> None:
        taints = (NodeTaint("a", "", "NoSchedule"),)
        cordoned = Node("node-a", unschedulable=True, taints=taints)

        assert changes(explanation(pod("job"), waiting(), nodes=(cordoned,))) == []

    def test_no_change_is_offered_after_which_a_node_may_meet_an_error(self) -> None:
        """A selector that is not evaluated on node-b may be an error there."""

        def by(expression: str, devices: Sequence[SelectedDevice]) -> list[Answer]:
            odd = [each.attributes.get("type") == "odd" for each in devices]
            if expression == "other":
                return [NO_MATCH for _ in devices]
            return [not_evaluated("unknown here") if each else MATCHES for each in odd]

        version = f'device.attributes["{DRIVER}"].type == "570"'
        both = [{"cel": {"expression": name}} for name in ("other", version)]
        odd = {"type": {"string": "odd"}}

        found = explanation(
            pod("job"),
            waiting(request(selectors=both)),
            slices=(gpus("node-a"), gpus("node-b", attributes=odd)),
            by=by,
        )

        assert changes(found) == []

    @pytest.mark.parametrize(
        ("init", "main", "free", "lowered"),
        [
            (0, 2, 1, ["main"]),
            (1, 3, 1, ["main"]),
            (4, 2, 3, ["init"]),
            (4, 2, 1, []),
            (4, 4, 3, []),
        ],
    )
    def test_what_one_container_requests_less_an_init_container_may_request_more(
        self, init: int, main: int, free: int, lowered: list[str]
    ) -> None:
        """It uses what those after it will have, and what it needs beyond that is its own."""
        first = {"name": "init", "resources": {"requests": {GPU: str(init)}}}

        found = explanation(
            pod(gpus=main, initContainers=[first]), slices=(gpus("node-a", free),), used={}
        )

        assert changes(found) == [
            ("OneDevice", f"team/{EXTENDED_RESOURCES}/{name}/{GPU}") for name in lowered
        ]


class TestWithFewerRights:
    def test_without_nodes_no_device_plugin_is_denied(self) -> None:
        short = pod(gpus=1, message="0/9 nodes are available: 9 Insufficient nvidia.com/gpu.")
        found = explanation(short, nodes=(), unread={"nodes": "may not list nodes"})

        assert found.finding.reason == "NotRead"
        assert found.finding.evidence == (
            "0/9 nodes are available: 9 Insufficient nvidia.com/gpu.",
        )

    def test_without_classes_an_extended_resource_may_be_one_of_dra(self) -> None:
        stock = Inventory(nodes=NODES)
        known = Known(
            at=NOW,
            pod=pod(gpus=1),
            claims=(),
            inventory=stock,
            unread={"classes": "may not list deviceclasses"},
        )

        assert explain(known, Answers(evaluate)).finding.reason == "NotRead"

    def test_a_pod_whose_claims_are_placed_is_not_kept_from_there(self) -> None:
        found = explanation(
            pod("first", nodeSelector={"zone": "a"}, message="0/2 nodes: 2 Insufficient cpu"),
            claim_on_node("first", "node-a"),
            nodes=(),
            unread={"nodes": "may not list nodes"},
        )

        assert found.finding.reason == "OtherResources"

    def test_devices_of_all_nodes_are_seen_without_any_node(self) -> None:
        anywhere = in_slice(device("gpu-0"), allNodes=True)
        found = explanation(
            pod("job"),
            waiting(),
            slices=(anywhere,),
            nodes=(),
            unread={"nodes": "may not list nodes"},
        )

        assert found.finding.reason == "NotRead"

    def test_what_would_be_enough_is_not_known_without_nodes(self) -> None:
        found = explanation(
            pod("job", nodeSelector={"pool": "a"}),
            waiting(),
            slices=(gpus("node-a"), gpus("node-b")),
            others=(has("gpu-0", "other"), claim_on_node("stranger", "node-b")),
            nodes=(),
            unread={"nodes": "may not list nodes"},
        )

        assert found.finding.reason == "Allocated"
        assert changes(found) == []

    def test_slices_that_select_nodes_by_labels_need_nodes(self) -> None:
        term = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
        by_label = in_slice(device("gpu-0"), nodeSelector={"nodeSelectorTerms": [term]})
        found = explanation(
            pod("job"),
            waiting(),
            slices=(by_label,),
            nodes=(),
            unread={"nodes": "may not list nodes"},
        )

        assert found.finding.reason == "NotRead"

    def test_without_rules_what_is_allocated_stays_so(self) -> None:
        full = (has("gpu-0", "other"), claim_on_node("stranger", "node-b"))
        unread = {"rules": "may not list devicetaintrules"}

        held = explanation(pod("job"), waiting(), others=full, unread=unread)
        free = explanation(pod("job"), waiting(), unread=unread)

        assert held.finding.reason == "Allocated"
        assert free.finding.reason == "NotRead"

    def test_an_object_that_cannot_be_read_is_no_missing_right(self) -> None:
        found = explanation(pod("job"), waiting(), unreadable="1 resourceslice cannot be read")

        assert found.finding.reason == "NotEvaluated"
        assert found.finding.message.endswith("1 resourceslice cannot be read")


class TestExtendedResources:
    def test_a_device_plugin_leaves_the_other_claims_to_dra(self) -> None:
        """The NIC of node-a is allocated, and its GPUs are a device plugin's."""
        nic = DeviceClass(msgspec.convert({"name": "nic"}, type(GPU_CLASS.metadata)))
        node = Node("node-a", capacity={GPU: 8}, allocatable={GPU: 8})
        wants = waiting(request(deviceClassName="nic"), name="net")
        stock = Inventory(
            slices=(gpus("node-a"),),
            classes=(GPU_CLASS, nic),
            claims=(wants, has("gpu-0", "other")),
            nodes=(node,),
            used={},
        )
        known = Known(at=NOW, pod=pod("net", gpus=1), claims=(wants,), inventory=stock)
        found = explain(known, Answers(evaluate))

        assert found.finding.reason == "Allocated"
        assert changes(found) == [("Free", "team/other")]

    def test_a_claim_that_the_scheduler_has_made_is_not_made_again(self) -> None:
        made = claim_on_node("train-x", "node-a", bindingConditions=["Attached"])
        status = {"extendedResourceClaimStatus": {"resourceClaimName": "train-x"}}
        found = explanation(pod(gpus=1, status=status), made, others=())

        assert found.finding.reason == "BindingPending"
        assert changes(found) == []

    def test_a_claim_that_the_scheduler_has_deleted_again_is_still_to_be_found(self) -> None:
        """Where binding took too long; the status of the pod names it as before."""
        status = {"extendedResourceClaimStatus": {"resourceClaimName": "train-x"}}
        found = explanation(pod(gpus=2, status=status))

        assert found.finding.reason == "TooFewTogether"

    def test_two_containers_and_one_gpu_are_too_few_and_not_apart(self) -> None:
        each = {"resources": {"requests": {GPU: "1"}}}
        two = pod(containers=[{"name": "a", **each}, {"name": "b", **each}])
        found = explanation(two, slices=(gpus("node-a"),))

        assert found.finding.reason == "TooFew"
        assert found.finding.message == (
            "2 requests of class gpu need 1 more devices than can be had"
        )

    def test_enough_gpus_on_a_plugin_node_are_not_the_reason(self) -> None:
        node = Node("node-a", capacity={GPU: 8}, allocatable={GPU: 8})
        message = "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu."
        found = explanation(
            pod(gpus=1, message=message), slices=(), nodes=(node, Node("cpu")), used={}
        )

        assert found.finding.reason == "OtherResources"
        assert found.finding.evidence[0] == "1 nodes: Insufficient cpu"

    def test_gpus_of_a_plugin_on_a_tainted_node_are_not_too_few(self) -> None:
        taints = (NodeTaint("team", "a", "NoSchedule"),)
        node = Node("node-a", taints=taints, capacity={GPU: 8}, allocatable={GPU: 8})
        message = (
            "0/2 nodes are available: 1 node(s) had untolerated taint(s), "
            "1 Insufficient nvidia.com/gpu."
        )
        found = explanation(
            pod(gpus=1, message=message), slices=(), nodes=(node, Node("cpu")), used={}
        )

        assert found.finding.reason == "OtherResources"
        assert found.finding.evidence[0] == "1 nodes: node(s) had untolerated taint(s)"

    def test_a_resource_that_nothing_offers_is_named(self) -> None:
        short = pod(
            containers=[{"name": "m", "resources": {"requests": {NIC: "1"}}}],
            message="0/2 nodes are available: 2 Insufficient example.com/nic.",
        )
        found = explanation(short, slices=(), used={})

        assert found.finding.reason == "Insufficient"
        assert found.finding.message.endswith("no node has any")

    def test_a_plugin_that_has_lost_all_of_its_gpus_leaves_them_to_dra(self) -> None:
        node = Node("node-a", capacity={GPU: 8}, allocatable={GPU: 0})
        found = explanation(pod(gpus=1), slices=(), nodes=(node,), used={})

        assert found.finding.reason == "NoDevices"

    def test_one_gpu_each_on_two_nodes_are_named_without_a_claim_of_ours(self) -> None:
        found = explanation(pod(gpus=2))

        assert found.finding.todo == (f"enough alone: request one device in main/{GPU}",)


class TestTheSentence:
    def test_it_is_about_the_reason(self) -> None:
        """Two H100 are allocated; six A100 do not match."""
        old = [device(f"old-{n}", attributes={"model": {"string": "A100"}}) for n in range(6)]
        new = [device(f"new-{n}", attributes={"model": {"string": "H100"}}) for n in range(2)]
        wants = waiting(request(selectors=[{"cel": {"expression": "model:H100"}}]))
        found = explanation(
            pod("job"),
            wants,
            slices=(in_slice(*old, *new),),
            others=(has("new-0", "one"), has("new-1", "two")),
        )

        assert found.finding.reason == "Allocated"
        assert found.finding.message.endswith("0 can be had, 2 allocated (team/one, team/two)")
        assert [what for what, _ in changes(found)] == ["Free", "Free", "DropSelector"]

    def test_a_selector_that_fails_on_another_node_fails_the_pod(self) -> None:
        wants = waiting(request(selectors=[{"cel": {"expression": "fails"}}]))
        fits = in_slice(device("gpu-0"), pool="node-b", nodeName="node-b")
        found = explanation(
            pod("job", status=ERROR),
            wants,
            slices=(gpus("node-a"), fits),
            others=(has("gpu-0", "other"),),
        )

        assert found.finding.reason == "SelectorFails"
        assert changes(found) == [("DropSelector", "fails")]

    def test_draguard_s_own_taint_is_not_to_be_removed(self) -> None:
        taint = {"key": "draguard.dev/lost", "effect": "NoSchedule"}
        sick = (gpus("node-a", taints=[taint]),)
        found = explanation(pod("job"), waiting(), slices=sick)

        assert found.finding.reason == "Tainted"
        assert changes(found) == []
        assert "draguard incidents" in found.finding.todo[0]

    def test_alternatives_of_a_class_are_not_added_up(self) -> None:
        either = [
            {"name": "two", "deviceClassName": "gpu", "count": 2},
            {"name": "one", "deviceClassName": "gpu"},
        ]
        constraint = {"matchAttribute": "gpu.nvidia.com/none"}
        wants = waiting({"name": "r", "firstAvailable": either}, constraints=[constraint])
        found = explanation(pod("job"), wants)

        assert found.summary
        assert [each.lacks for each in found.summary.requests] == [2, 1]

    def test_admin_access_shares_the_device_of_an_ordinary_request(self) -> None:
        """Which is too small: nothing is missing beside."""
        both = waiting(
            request("watch", adminAccess=True), request("work", allocationMode="Someday")
        )
        found = explanation(pod("job"), both, slices=(gpus("node-a"),))

        assert found.summary
        assert [each.lacks for each in found.summary.requests] == [0, 0]

    def test_all_of_a_node_with_some_free_is_no_lack_of_devices(self) -> None:
        found = explanation(
            pod("job"),
            waiting(request(allocationMode="All")),
            slices=(gpus("node-a", 2),),
            others=(has("gpu-0", "other"),),
            nodes=(Node("node-a"),),
        )

        assert found.summary
        assert [each.lacks for each in found.summary.requests] == [0]

    def test_all_of_a_node_of_which_one_is_allocated(self) -> None:
        found = explanation(
            pod("job"),
            waiting(request(allocationMode="All")),
            slices=(gpus("node-a", 2),),
            others=(has("gpu-0", "other"),),
            nodes=(Node("node-a"),),
        )

        assert found.finding.reason == "Allocated"

    def test_an_alternative_of_a_class_that_does_not_exist_is_refused(self) -> None:
        either = [
            {"name": "a", "deviceClassName": "gpu"},
            {"name": "b", "deviceClassName": "nope"},
        ]
        found = explanation(pod("job"), waiting({"name": "r", "firstAvailable": either}))

        assert found.finding.reason == "ClassMissing"

    def test_a_request_of_a_later_kubernetes_is_not_evaluated(self) -> None:
        later = waiting({"name": "r", "someday": {}})

        assert explanation(pod("job"), later).finding.reason == "NotEvaluated"


class TestDevicesThatThePodHas:
    TAINT = {"key": "team/soft", "effect": "NoSchedule"}

    def running(self, **fields: Any) -> Explanation:
        given = pod("job", nodeName="node-a", status={"phase": "Running", "conditions": []})
        slices = (gpus("node-a", taints=[self.TAINT]),)
        return explanation(given, claim_on_node("job", "node-a", **fields), slices=slices)

    def test_a_taint_that_its_request_tolerates_is_none_of_its_business(self) -> None:
        tolerations = [{"key": "team/soft", "operator": "Exists"}]

        assert self.running().finding.reason == "DeviceTainted"
        assert self.running(tolerations=tolerations).finding.reason == "Running"

    def test_a_taint_without_an_effect_is_no_fault(self) -> None:
        given = pod("job", nodeName="node-a", status={"phase": "Running", "conditions": []})
        note = {"key": "team/note", "effect": "None"}
        found = explanation(
            given, claim_on_node("job", "node-a"), slices=(gpus("node-a", taints=[note]),)
        )

        assert found.finding.reason == "Running"

    def test_an_incident_is_named(self) -> None:
        given = pod("job", nodeName="node-a", status={"phase": "Running", "conditions": []})
        name = Device(DRIVER, "node-a", "gpu-0")
        found = explanation(
            given, claim_on_node("job", "node-a"), incidents={name: "incident gpu-1-1"}
        )

        assert found.finding.reason == "DeviceSick"


class TestAClaimWithoutAPod:
    def test_what_reserves_it_is_named_and_nothing_is_deleted(self) -> None:
        group = {"name": "gang", "resource": "podgroups", "uid": "7"}
        reserved = msgspec.convert(
            msgspec.to_builtins(claim_on_node("job", "node-a"))
            | {"status": {"allocation": {}, "reservedFor": [group]}},
            Claim,
        )
        found = explanation(None, reserved).finding

        assert (found.reason, found.todo) == ("Reserved", ())
        assert "podgroups gang" in found.message

    def test_one_that_is_free_says_what_frees_its_devices(self) -> None:
        found = explanation(None, claim_on_node("job", "node-a")).finding

        assert found.reason == "Unused"
        assert found.todo == ("kubectl delete resourceclaim job frees its devices",)

    @pytest.mark.parametrize("allocated", [True, False])
    def test_one_that_is_being_deleted_is_not_deleted_again(self, *, allocated: bool) -> None:
        given = claim_on_node("job", "node-a") if allocated else waiting(name="job")
        meta = msgspec.structs.replace(given.metadata, deletion_timestamp=NOW)
        found = explanation(None, msgspec.structs.replace(given, metadata=meta)).finding

        assert found.reason == "ClaimDeleting"
        assert not any("kubectl delete" in each for each in found.todo)


class TestOneInventoryForManyPods:
    def test_each_pod_has_the_answer_that_it_has_alone(self) -> None:
        two, one = waiting(request(count=2), name="two"), waiting(name="one")
        stock = Inventory(
            slices=(gpus("node-a"), gpus("node-b")),
            classes=(GPU_CLASS,),
            claims=(two, one, has("gpu-0", "other")),
            nodes=NODES,
        )
        answers = Answers(evaluate)
        found = [
            explain(Known(at=NOW, pod=pod(each.metadata.name), claims=(each,), inventory=given), by)
            for given, by in ((stock, answers), (msgspec.structs.replace(stock), Answers(evaluate)))
            for each in (two, one)
        ]

        assert found[:2] == found[2:]
        assert [each.finding.reason for each in found[:2]] == ["Allocated", "Allocatable"]

    def test_what_it_has_is_looked_up_once(self) -> None:
        stock = Inventory(slices=(gpus("node-a"),), classes=(GPU_CLASS,))

        assert stock.cluster is stock.cluster

    def test_around_a_node_are_the_claims_of_its_pools_in_their_order(self) -> None:
        shared = in_slice(device("nic-0"), pool="shared", allNodes=True)
        on_nic, far, near = (
            has("nic-0", "nic", pool="shared"),
            claim_on_node("far", "node-b"),
            claim_on_node("near", "node-a"),
        )
        stock = Inventory(
            slices=(gpus("node-a"), gpus("node-b"), shared), claims=(on_nic, far, near)
        )
        here = stock.around(NODES[:1], ())

        assert here.claims == (on_nic, near)
        assert [each.spec.pool.name for each in here.slices] == ["node-a", "shared"]
