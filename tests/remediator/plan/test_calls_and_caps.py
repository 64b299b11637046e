"""A call for repair of a node needs room under the caps of `evict`, whatever else its GPU does."""

from datetime import timedelta

import pytest

from exporter.model.node_health import RecoveryAction
from remediator.plan.node_condition import WAITING
from remediator.policy.limits import Cap, Caps, Correlation, Limits, Rate
from remediator.policy.table import Ceiling, Policy
from tests.remediator.builders import RESET, Stored, at, dead, gpu, policy, view, xid
from tests.remediator.plan.handover import reconciled
from tests.remediator.playing import claim, pod

NODES = [f"node-{letter}" for letter in "abcdef89"]
HOUR = 3600.0


def called_for(rows: Policy, nodes: list[str], *, apart: float, last: float) -> dict[str, float]:
    """Return when each node was called for; a GPU dies on each in turn, and nobody holds one."""
    stored = {node: Stored() for node in nodes}
    called: dict[str, float] = {}
    for step in range(int(last / 20)):
        second = 1 + 20.0 * step
        for number, node in enumerate(nodes):
            died = apart * number
            if second <= died:
                continue
            sick = gpu(
                0,
                xid(79, died),
                node=node,
                presence="Lost",
                presence_since=at(died),
                recovery_action=RecoveryAction(),
            )
            others = [stored[other] for other in nodes if other != node]
            status, *_ = reconciled(
                stored[node],
                view(sick, node=node, pods=(), claims=()),
                second,
                rows,
                rules=tuple(rule for other in others for rule in other.rules.values()),
                incidents=tuple(
                    incident for other in others for incident in other.incidents.values()
                ),
            )
            if status == "True":
                called.setdefault(node, second)
    return called


@pytest.mark.parametrize("ceiling", ["NoExecute", "NoSchedule"])
def test_one_node_at_a_time_is_called_for_also_where_the_class_evicts(ceiling: Ceiling) -> None:
    limits = Limits(evict=Caps(cluster=Cap(1)), correlation=Correlation(nodes=0))
    rows = policy(limits, ceiling=ceiling)

    assert list(called_for(rows, NODES[:3], apart=20, last=300)) == ["node-a"]


def test_as_shipped_four_nodes_are_called_for_at_once_however_slowly_gpus_die() -> None:
    called = called_for(policy(Limits()), NODES, apart=360, last=0.8 * HOUR)

    assert list(called) == NODES[:4]


@pytest.mark.parametrize(
    "caps", [Caps(cluster=Cap(1)), Caps(node=Cap(1)), Caps(rate=Rate(1, timedelta(minutes=10)))]
)
def test_a_gpu_that_evicts_takes_no_room_from_its_own_call(caps: Caps) -> None:
    stored, rows = Stored(), policy(Limits(evict=caps, correlation=Correlation(nodes=0)))
    pods, claims = (pod("web", claims=("claim-of-web",)),), (claim("gpu-0", "web"),)
    for second in (1, 2, 6, 20):
        seen = view(gpu(0, recovery_action=RESET), pods=pods, claims=claims)
        reconciled(stored, seen, second, rows)
    assert stored.effects() == {"gpu-0": "NoExecute"}

    status, reason, _ = reconciled(stored, view(dead(0), pods=pods, claims=claims), 30, rows)

    assert (status, reason) == ("False", WAITING)
