"""An incident that is weeks old rises: what is new on many nodes is held there as anywhere."""

from collections.abc import Mapping

import msgspec
import pytest

from exporter.model.node_health import GpuHealth, MemoryHealth
from remediator.plan.node_decision import decide_node
from remediator.plan.view import Changed, NodeView
from remediator.policy.limits import Correlation, Limits
from remediator.policy.table import Policy
from tests.remediator.builders import NODE, RESET, Stored, at, gpu, policy, view, xid
from tests.remediator.playing import ENFORCE, claim, pod

ALONE = policy(Limits(correlation=Correlation(nodes=0)))
NODES = (NODE, "node-b", "node-c")
DAY = 86400
FAILED = MemoryHealth(row_remap_failed="True", remap_observed_at=at(-1))
"""Class memory: its pods stay, and a user has to confirm the repair."""
PENDING = MemoryHealth(row_remap_pending="True", remap_observed_at=at(-1))
"""Class pending: it is only observed."""


class Cluster:
    """One GPU with a pod on each of three nodes, and one store."""

    def __init__(self, changes: Mapping[str, Changed] | None = None) -> None:
        self.stored = Stored()
        self.changes = changes or {}

    def decide(self, gpus: Mapping[str, GpuHealth], seconds: float, rows: Policy = ENFORCE) -> None:
        """Decide about one node after another, until nothing is left to do."""
        for _ in range(6):
            for node, health in gpus.items():
                fleet = msgspec.structs.replace(self.stored.fleet(), changes=self.changes)
                answer = decide_node(self.see(node, health), fleet, rows, at(seconds))
                for step in answer.steps:
                    self.stored.take(step, at(seconds))

    def see(self, node: str, health: GpuHealth) -> NodeView:
        pods = (pod(f"p-{node}"),)
        claims = (claim("gpu-0", pod=f"p-{node}", pool=node),)
        seen = view(health, node=node, claims=claims, pods=pods)
        stored = msgspec.structs.replace(
            seen.stored,
            rules=tuple(rule for rule in self.stored.rules.values() if rule.node == node),
            incidents=tuple(
                known for known in self.stored.incidents.values() if known.node == node
            ),
        )
        return msgspec.structs.replace(seen, stored=stored)

    def effects(self) -> dict[str, str]:
        return {rule.node: rule.effect for rule in self.stored.rules.values()}

    def dates(self) -> set[object]:
        return {known.status.fault.cause_since for known in self.stored.incidents.values()}


def old(memory: MemoryHealth, nodes: tuple[str, ...] = NODES, **changes: Changed) -> Cluster:
    """A cluster in which each GPU has had an incident for weeks, opened a day apart."""
    cluster = Cluster(changes)
    for number, node in enumerate(nodes):
        for seconds in (0, 5):
            cluster.decide({node: gpu(0, node=node, memory=memory)}, (number - 20) * DAY + seconds)
    assert "NoExecute" not in cluster.effects().values()
    return cluster


def risen(node: str, memory: MemoryHealth) -> GpuHealth:
    return gpu(0, xid(95), node=node, recovery_action=RESET, memory=memory)


@pytest.mark.parametrize("memory", [PENDING, FAILED], ids=["untainted", "tainted already"])
def test_a_cause_that_is_new_on_three_nodes_at_once_evicts_nobody(memory: MemoryHealth) -> None:
    cluster = old(memory)

    for seconds in (2, 4, 8, 30, 500):
        cluster.decide({node: risen(node, memory) for node in NODES}, seconds)
        assert set(cluster.effects().values()) == {"NoSchedule"}
    assert cluster.dates() == {at(2)}


def test_a_device_that_was_tainted_before_waits_for_the_settle_time_of_the_new_cause() -> None:
    cluster = old(FAILED, (NODE,))

    for seconds, effect in ((2, "NoSchedule"), (4.9, "NoSchedule"), (5, "NoExecute")):
        cluster.decide({NODE: risen(NODE, FAILED)}, seconds)
        assert cluster.effects() == {NODE: effect}


def test_when_no_further_node_joins_they_go_on() -> None:
    cluster = old(FAILED)

    for seconds in (2, 30, 602):
        cluster.decide({node: risen(node, FAILED) for node in NODES}, seconds)

    assert set(cluster.effects().values()) == {"NoExecute"}


def test_one_node_alone_goes_on() -> None:
    cluster = old(FAILED)

    for seconds in (2, 30):
        cluster.decide({NODE: risen(NODE, FAILED)}, seconds)

    assert cluster.effects()[NODE] == "NoExecute"


def test_a_rise_after_a_new_driver_is_held() -> None:
    cluster = old(FAILED, (NODE,), **{NODE: Changed(driver_at=at(-60))})

    for seconds in (2, 4, 30, 1739):
        cluster.decide({NODE: risen(NODE, FAILED)}, seconds)
        assert cluster.effects() == {NODE: "NoSchedule"}
    cluster.decide({NODE: risen(NODE, FAILED)}, 1740)
    assert cluster.effects() == {NODE: "NoExecute"}


def test_without_correlation_a_rise_waits_for_nothing() -> None:
    cluster = old(FAILED, (NODE,))

    cluster.decide({NODE: risen(NODE, FAILED)}, 2, ALONE)
    assert cluster.effects() == {NODE: "NoExecute"}
