"""Calls for repair that take effect after they were given up undo nothing of what came since."""

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from kubeapi.client import ApiError, Client, Conflict
from remediator.controller.node_conditions import NodeConditions
from remediator.model.node import NodeCondition
from tests.lab.cluster import Cluster
from tests.remediator.controller.test_node_conditions import (
    ALIAS,
    NAME,
    NEEDED,
    as_another_agent,
    conditions,
    ours,
)

CALM = msgspec.structs.replace(NEEDED, status="False", reason="NoRepairNeeded", message="none")


class Unanswered(Client):
    """Its patches are not answered in time, and take effect when the test says so."""

    arrives: Callable[[], bytes]

    def strategic_merge_patch(self, path: str, body: object) -> bytes:
        self.arrives = partial(super().strategic_merge_patch, path, body)
        raise ApiError("no answer in time")


@pytest.fixture
def node(cluster: Cluster) -> Cluster:
    cluster.player.add_node(NAME)
    return cluster


@pytest.mark.parametrize(
    ("called", "calm"),
    [(NEEDED, CALM), (ALIAS, msgspec.structs.replace(ALIAS, status="True", reason="Calm"))],
    ids=["own", "alias"],
)
def test_a_call_for_repair_that_takes_effect_late_does_not_undo_a_later_write(
    node: Cluster, called: NodeCondition, calm: NodeCondition
) -> None:
    hand, late = NodeConditions(node.client), Unanswered(node.plane.endpoint())
    hand.write(NAME, [calm])
    with pytest.raises(ApiError, match="no answer"):
        NodeConditions(late).write(NAME, [called])

    hand.write(NAME, [msgspec.structs.replace(calm, message=f"{calm.message}, but a pod has it")])

    with pytest.raises(Conflict):
        late.arrives()
    late.close()
    assert ours(hand)[0].status == conditions(node)[calm.type]["status"] == calm.status


def test_a_call_for_repair_rests_on_the_node_as_it_is_stored(node: Cluster) -> None:
    """The kubelet writes it each few seconds: what was read before is no conflict."""
    hand = NodeConditions(node.client)
    hand.write(NAME, [CALM])
    as_another_agent(node, "KernelDeadlock", "False")

    hand.write(NAME, [NEEDED])

    assert ours(hand) == (NEEDED,)
