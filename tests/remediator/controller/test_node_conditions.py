"""Our conditions on a real Node of a real API server; those of others stay as they are."""

import logging
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import pytest

from kubeapi.client import ApiError, Client, Conflict
from kubeapi.endpoint import Endpoint
from remediator.controller import node_conditions
from remediator.controller.node_conditions import READ_AGAIN, REFUSED_FOR, ROLE, NodeConditions
from remediator.model.node import (
    CONDITION_TYPES,
    HARDWARE_READY,
    MARK,
    REPAIR_NEEDED,
    NodeCondition,
)
from tests.lab.cluster import NODES, Cluster, await_true
from tests.remediator.builders import T0, at
from tests.remediator.clock import Clock

NAME = "node-a"
PATH = f"{NODES}/{NAME}"
NEEDED = NodeCondition(
    type=REPAIR_NEEDED,
    status="True",
    reason="NodeRebootNeeded",
    message="node-reboot needed by GPU-1",
    last_transition_time=T0,
)
ALIAS = NodeCondition(
    type=HARDWARE_READY,
    status="False",
    reason="NvidiaXID79Error",
    message="Draguard: node-reboot needed by GPU-1",
    last_transition_time=T0,
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def node(cluster: Cluster) -> Cluster:
    cluster.player.add_node(NAME)
    return cluster


@pytest.fixture
def hand(node: Cluster, clock: Clock) -> NodeConditions:
    return NodeConditions(node.client, now=lambda: at(5), elapsed=clock)


@pytest.fixture
def powerless(node: Cluster) -> Iterator[Client]:
    """A user without any role."""
    one = Client(node.plane.endpoint("remediator"))
    yield one
    one.close()


def conditions(cluster: Cluster) -> dict[str, dict[str, Any]]:
    return {condition["type"]: condition for condition in cluster.get(PATH)["status"]["conditions"]}


def later_versions(cluster: Cluster, version: str) -> list[list[str]]:
    """Return the types of conditions of each later version of the Node, in order."""
    query = {
        "watch": "true",
        "fieldSelector": f"metadata.name={NAME}",
        "resourceVersion": version,
        "timeoutSeconds": "1",
    }
    with cluster.client.stream(NODES, query, idle_timeout=5.0) as lines:
        nodes = [msgspec.json.decode(line)["object"] for line in lines]
    return [[condition["type"] for condition in node["status"]["conditions"]] for node in nodes]


def mark(cluster: Cluster) -> str | None:
    return cluster.get(PATH)["metadata"].get("annotations", {}).get(MARK)


def ours(hand: NodeConditions) -> tuple[NodeCondition, ...]:
    stored = hand.read(NAME)
    assert stored is not None
    return stored.conditions


def as_another_agent(cluster: Cluster, kind: str, status: str) -> None:
    entry = {"type": kind, "status": status, "reason": "NvidiaXID79Error", "message": "theirs"}
    body = {"status": {"conditions": [entry]}}
    cluster.client.strategic_merge_patch(f"{PATH}/status", body)


def test_one_condition_is_set_and_the_others_stay(node: Cluster, hand: NodeConditions) -> None:
    as_another_agent(node, "KernelDeadlock", "False")
    before = conditions(node)

    hand.write(NAME, [NEEDED])

    after = conditions(node)
    assert {**before, REPAIR_NEEDED: after[REPAIR_NEEDED]} == after
    assert after[REPAIR_NEEDED] == {
        "type": REPAIR_NEEDED,
        "status": "True",
        "reason": "NodeRebootNeeded",
        "message": "node-reboot needed by GPU-1",
        "lastTransitionTime": "2026-01-05T12:00:00Z",
        "lastHeartbeatTime": "2026-01-05T12:00:05Z",
    }
    assert mark(node) == REPAIR_NEEDED


def test_what_was_written_is_read_back_by_whoever_starts_next(
    node: Cluster, hand: NodeConditions
) -> None:
    assert ours(hand) == ()

    hand.write(NAME, [NEEDED])

    assert ours(hand) == (NEEDED,), "one's own write is seen at once"
    assert ours(NodeConditions(node.client)) == (NEEDED,)


def test_the_transition_time_that_was_decided_is_kept(node: Cluster, hand: NodeConditions) -> None:
    hand.write(NAME, [NEEDED])
    hand.write(NAME, [msgspec.structs.replace(NEEDED, message="GPU-1 and GPU-2")])

    stored = conditions(node)[REPAIR_NEEDED]
    assert (stored["message"], stored["lastTransitionTime"]) == (
        "GPU-1 and GPU-2",
        "2026-01-05T12:00:00Z",
    )


def test_an_alias_is_ours_only_where_the_mark_says_so(node: Cluster, hand: NodeConditions) -> None:
    as_another_agent(node, HARDWARE_READY, "True")
    assert ours(hand) == ()

    hand.write(NAME, [ALIAS])
    hand.write(NAME, [NEEDED])

    assert {condition.type for condition in ours(hand)} == {HARDWARE_READY, REPAIR_NEEDED}
    assert mark(node) == f"{HARDWARE_READY},{REPAIR_NEEDED}"


def test_two_conditions_are_one_write(node: Cluster, hand: NodeConditions) -> None:
    """A leader that is killed leaves no Node of which one condition contradicts the other."""
    before = node.get(PATH)["metadata"]["resourceVersion"]

    hand.write(NAME, [NEEDED, ALIAS])

    both = set(CONDITION_TYPES)
    seen = [both.intersection(types) for types in later_versions(node, before)]
    assert [types for types in seen if types] == [both]


def test_what_another_leader_has_marked_stays_marked(node: Cluster, hand: NodeConditions) -> None:
    hand.write(NAME, [NEEDED])
    NodeConditions(node.client).write(NAME, [ALIAS])

    hand.look_again()  # as it does when it leads again
    hand.write(NAME, [msgspec.structs.replace(NEEDED, message="GPU-1 and GPU-2")])

    assert {condition.type for condition in ours(hand)} == set(CONDITION_TYPES)
    assert mark(node) == f"{HARDWARE_READY},{REPAIR_NEEDED}"


def test_a_condition_that_another_agent_has_set_keeps_no_other_from_being_written(
    node: Cluster, hand: NodeConditions
) -> None:
    as_another_agent(node, HARDWARE_READY, "False")

    hand.write(NAME, [ALIAS, NEEDED])

    assert ours(hand) == (NEEDED,)
    assert conditions(node)[HARDWARE_READY]["message"] == "theirs"


@pytest.mark.parametrize("status", ["False", "True"])
def test_a_false_of_another_agent_is_never_written_over(
    node: Cluster, hand: NodeConditions, status: Literal["True", "False"]
) -> None:
    assert ours(hand) == ()
    as_another_agent(node, HARDWARE_READY, "False")  # after our last look

    hand.write(NAME, [msgspec.structs.replace(ALIAS, status=status)])

    assert conditions(node)[HARDWARE_READY]["message"] == "theirs"
    assert mark(node) is None
    stored = hand.read(NAME)
    assert stored is not None
    assert [condition.message for condition in stored.others] == ["theirs"]


def test_one_that_another_agent_wrote_after_us_is_no_longer_ours(
    node: Cluster, hand: NodeConditions, clock: Clock
) -> None:
    hand.write(NAME, [ALIAS])
    as_another_agent(node, HARDWARE_READY, "False")
    clock.seconds = READ_AGAIN

    hand.write(NAME, [msgspec.structs.replace(ALIAS, status="True", reason="NoRepairNeeded")])

    assert ours(hand) == ()
    assert conditions(node)[HARDWARE_READY]["message"] == "theirs"
    hand.remove(NAME)
    assert conditions(node)[HARDWARE_READY]["message"] == "theirs"
    assert mark(node) is None


def test_a_healthy_word_of_another_agent_is_written_over_where_that_was_chosen(
    node: Cluster, hand: NodeConditions
) -> None:
    as_another_agent(node, HARDWARE_READY, "True")

    hand.write(NAME, [ALIAS])

    assert ours(hand) == (ALIAS,)


def test_the_resources_of_a_device_plugin_are_read(node: Cluster, hand: NodeConditions) -> None:
    capacity = {"nvidia.com/gpu": "8", "nvidia.com/mig-1g.10gb": "0", "example.com/nic": "2"}
    node.client.strategic_merge_patch(f"{PATH}/status", {"status": {"capacity": capacity}})

    stored = hand.read(NAME)

    assert stored is not None
    assert stored.plugin_resources == ("nvidia.com/gpu",)


def test_everything_of_ours_can_be_taken_off_and_nothing_of_others(
    node: Cluster, hand: NodeConditions
) -> None:
    before = node.get(PATH)
    hand.write(NAME, [NEEDED])
    hand.write(NAME, [ALIAS])

    hand.remove(NAME)

    after = node.get(PATH)
    assert after["status"]["conditions"] == before["status"]["conditions"]
    assert mark(node) is None
    assert ours(hand) == ()


def test_nothing_is_written_to_take_off_nothing(node: Cluster, hand: NodeConditions) -> None:
    before = node.get(PATH)["metadata"]["resourceVersion"]

    hand.remove(NAME)

    assert node.get(PATH)["metadata"]["resourceVersion"] == before


def test_a_node_that_was_registered_again_is_not_written_to(
    node: Cluster, hand: NodeConditions
) -> None:
    hand.read(NAME)
    node.client.delete(PATH)
    node.player.add_node(NAME)

    with pytest.raises(Conflict):
        hand.write(NAME, [NEEDED])

    assert REPAIR_NEEDED not in conditions(node)
    hand.write(NAME, [NEEDED])  # decided anew, for the Node that is there now
    assert REPAIR_NEEDED in conditions(node)


def test_a_node_that_is_gone_needs_no_condition(node: Cluster, hand: NodeConditions) -> None:
    hand.read(NAME)
    node.client.delete(PATH)

    hand.write(NAME, [NEEDED])

    assert ours(hand) == ()


def test_a_node_is_read_again_after_a_while_and_not_before(
    node: Cluster, hand: NodeConditions, clock: Clock
) -> None:
    assert ours(hand) == ()
    as_another_agent(node, REPAIR_NEEDED, "False")

    clock.seconds = READ_AGAIN - 1
    assert ours(hand) == ()
    clock.seconds = READ_AGAIN
    assert [condition.status for condition in ours(hand)] == ["False"]


def test_without_the_role_it_is_logged_once_and_counted_and_life_goes_on(
    powerless: Client, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    hand = NodeConditions(powerless, elapsed=clock)

    with caplog.at_level(logging.ERROR):
        assert hand.read(NAME) is None, "not known is not the same as none"
        hand.write(NAME, [NEEDED])
        clock.seconds = REFUSED_FOR
        hand.write(NAME, [NEEDED])

    (stated,) = [
        record.getMessage() for record in caplog.records if record.name == node_conditions.__name__
    ]
    assert ROLE in stated
    assert hand.forbidden == 2


def test_a_role_that_is_granted_later_is_used(
    node: Cluster, powerless: Client, clock: Clock
) -> None:
    hand = NodeConditions(powerless, elapsed=clock)
    assert hand.read(NAME) is None
    grant(node)
    try:
        await_true("the role counts", lambda: allowed(powerless))
        clock.seconds = REFUSED_FOR
        hand.write(NAME, [NEEDED])
    finally:
        revoke(node)

    assert REPAIR_NEEDED in conditions(node)


def test_an_api_server_that_does_not_answer_leaves_the_conditions_unknown() -> None:
    nobody = Client(Endpoint(server="http://127.0.0.1:9"), timeout=60)

    assert NodeConditions(nobody).read(NAME) is None
    with pytest.raises(ApiError):
        NodeConditions(nobody).write(NAME, [NEEDED])


def test_it_writes_nothing_but_conditions_of_ours(hand: NodeConditions) -> None:
    with pytest.raises(ValueError, match="Ready is not a condition of ours"):
        hand.write(NAME, [msgspec.structs.replace(NEEDED, type="Ready")])


def test_a_condition_with_a_word_that_nobody_knows_is_read_as_unknown(
    node: Cluster, hand: NodeConditions
) -> None:
    as_another_agent(node, REPAIR_NEEDED, "Perhaps")

    assert [condition.status for condition in ours(hand)] == ["Unknown"]


ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
TEST_ROLE = "test-node-conditions"


def allowed(client: Client) -> bool:
    try:
        client.get(PATH)
    except ApiError:
        return False
    return True


def grant(cluster: Cluster) -> None:
    rule = {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["get", "patch"]}
    meta = {"metadata": {"name": TEST_ROLE}}
    cluster.client.create(ROLES, {**meta, "rules": [rule]})
    group = "rbac.authorization.k8s.io"
    cluster.client.create(
        BINDINGS,
        {
            **meta,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": TEST_ROLE},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "remediator"}],
        },
    )


def revoke(cluster: Cluster) -> None:
    cluster.client.delete(f"{BINDINGS}/{TEST_ROLE}")
    cluster.client.delete(f"{ROLES}/{TEST_ROLE}")
