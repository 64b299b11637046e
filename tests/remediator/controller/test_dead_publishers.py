"""A board that was put into another node, while the slices of the dead node that it left stay.

Here in node-a, from node-b, where something goes wrong with it. The views are those of the cache.
"""

from datetime import timedelta

import msgspec
import pytest

from exporter.model.node_health import GpuHealth
from exporter.model.resource_slices import ResourceSlice
from remediator.controller.cache import Cache
from remediator.model.node import NodeCondition, NodeFacts
from remediator.model.taint_rule import RawRule, manifest
from remediator.plan.node_condition import HandoverOptions
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import WriteNodeConditions
from remediator.plan.view import NodeView, SliceView
from tests.remediator.builders import (
    ALWAYS_CONFIRMED,
    NODE,
    Stored,
    action,
    at,
    dead,
    gpu,
    last_named,
    report,
    uuid,
    with_fields,
    xid,
)
from tests.remediator.controller.test_cache import health, slice_of
from tests.remediator.playing import ENFORCE

OLD, OTHER = "node-b", "node-c"
BOARD = uuid(0)
DAY = 86400.0
HANDS_OVER = HandoverOptions(enabled=True, deadline=timedelta(hours=1))


class Cluster:
    """What the cache receives, and what is decided by its views; node-b publishes the board."""

    def __init__(self, *, left_behind: bool = True) -> None:
        self.stored = Stored()
        self.cache = self._begun()
        self.silent = {OLD}
        self._slices: dict[str, ResourceSlice] = {}
        self._conditions: dict[str, dict[str, NodeCondition]] = {}
        self._now = at(0)
        if left_behind:
            self.publish(OLD, 0)

    def _begun(self) -> Cache:
        cache = Cache(lambda _: None, now=lambda: self._now)
        cache.nodes_known = True
        for node in (NODE, OLD, OTHER):
            cache.put_node(node, NodeFacts(name=node, uid=f"uid-{node}"))
        return cache

    def publish(self, node: str, *indexes: int) -> None:
        """Replace the slice of a node; its boards are those that node-a would have by number."""
        old = self._slices.pop(node, None)
        if indexes:
            raw = msgspec.to_builtins(slice_of(NODE, *indexes))
            raw["spec"]["nodeName"] = raw["spec"]["pool"]["name"] = node
            self._slices[node] = msgspec.convert(raw, ResourceSlice)
        self.cache.put_slice(f"of-{node}", old, self._slices.get(node))

    def forget(self) -> None:
        """Restart the remediator: it lists again what is stored, but no report."""
        self.cache = self._begun()
        for node, one in self._slices.items():
            self.cache.put_slice(f"of-{node}", None, one)
        self._tell()

    def report(self, node: str, seconds: float, *gpus: GpuHealth, boot_id: str = "boot-1") -> None:
        found = report(*gpus, observed_at=at(seconds), boot_id=boot_id)
        self.cache.put_report(node, health(node, found))

    def slices(self, node: str) -> SliceView:
        return self.cache.view(node, self._why_stale).slices

    def settle(self, node: str, seconds: float) -> int:
        """Decide about a node until nothing is left to do; returns the steps about its GPUs."""
        self._now, before = at(seconds), len(self.stored.taken)
        for _ in range(8):
            decision = decide_node(
                self._view(node), self.stored.fleet(), ENFORCE, self._now, HANDS_OVER
            )
            for step in decision.steps:
                self.stored.take(step, self._now)
                if isinstance(step, WriteNodeConditions):
                    written = {found.type: found for found in step.conditions}
                    self._conditions.setdefault(node, {}).update(written)
            self._tell()
            if not decision.steps:
                taken = self.stored.taken[before:]
                return sum(not isinstance(step, WriteNodeConditions) for step in taken)
        raise AssertionError(f"never settles: {self.stored.taken[-3:]}")

    def _view(self, node: str) -> NodeView:
        conditions = self._conditions.get(node, {}).values()
        facts = NodeFacts(name=node, uid=f"uid-{node}", conditions=tuple(conditions))
        seen = self.cache.view(node, self._why_stale)
        return with_fields(seen, renewals=ALWAYS_CONFIRMED, pods=(), facts=facts)

    def _tell(self) -> None:
        for name, incident in self.stored.incidents.items():
            self.cache.put_incident(name, incident)
        stood = {rule.name for rule in self.cache.rules()}
        rules = {rule.name: rule for rule in self.stored.rules.values()}
        for name in stood - rules.keys():
            self.cache.put_rule(name, None)
        for name, rule in rules.items():
            raw = msgspec.convert(manifest(rule, "v1"), RawRule)
            meta = msgspec.structs.replace(
                raw.metadata, uid=rule.uid, resource_version=rule.resource_version
            )
            raw = msgspec.structs.replace(raw, metadata=meta)
            self.cache.put_rule(name, raw, listed=True)

    def _why_stale(self, node: str) -> str:
        return f"the agent of {node} is silent" if node in self.silent else ""

    @property
    def effects(self) -> dict[str, str]:
        return {
            f"{rule.node}/{rule.device.device}": rule.effect for rule in self.stored.rules.values()
        }

    @property
    def calls(self) -> list[str]:
        """Why node-a is called for a repair."""
        written = self._conditions.get(NODE, {}).values()
        return [found.reason for found in written if found.status == "True"]


@pytest.fixture
def cluster() -> Cluster:
    """The board is in node-a, and healthy."""
    begun = Cluster()
    begun.publish(NODE, 0, 1)
    begun.report(NODE, -100, gpu(0), gpu(1))
    begun.settle(NODE, -100)
    return begun


def lost_without_driver(cluster: Cluster, second: float) -> None:
    """It is lost, so that the DRA driver of its node cannot start again."""
    cluster.publish(NODE)
    cluster.report(NODE, second, *map(last_named, (dead(), gpu(1))))


class TestItsDriverIsAway:
    def test_a_lost_board_is_tainted_where_it_was_published_last(self, cluster: Cluster) -> None:
        lost_without_driver(cluster, 1)
        for second in (1, 3, 6, 10):
            cluster.settle(NODE, second)

        assert cluster.effects == {"node-a/gpu-0": "NoExecute"}

    def test_after_a_restart_its_incident_shows_where_it_is(self, cluster: Cluster) -> None:
        lost_without_driver(cluster, 1)
        cluster.settle(NODE, 1)
        assert cluster.effects == {"node-a/gpu-0": "NoSchedule"}
        cluster.forget()
        lost_without_driver(cluster, 2)
        for second in (3, 6, 10):
            cluster.settle(NODE, second)

        assert cluster.effects == {"node-a/gpu-0": "NoExecute"}

    def test_the_dead_node_leaves_it_to_the_other(self, cluster: Cluster) -> None:
        cluster.report(OLD, -DAY, gpu(0))
        lost_without_driver(cluster, 1)
        for second in (1, 3, 6, 10, 20):
            cluster.settle(NODE, second)

        assert cluster.slices(OLD).elsewhere == {BOARD: (NODE,)}
        assert cluster.settle(OLD, 21) == 0
        assert cluster.settle(NODE, 21) == 0

    def test_a_publisher_that_reports_keeps_it(self, cluster: Cluster) -> None:
        lost_without_driver(cluster, 1)
        cluster.report(OLD, 1, gpu(0))
        cluster.silent.clear()

        assert cluster.slices(NODE).elsewhere == {BOARD: (OLD,)}
        assert cluster.slices(OLD).elsewhere == {}

    def test_a_false_report_takes_it_from_neither(self, cluster: Cluster) -> None:
        lost_without_driver(cluster, 1)
        cluster.report(OTHER, 1, last_named(gpu(0), OTHER))

        assert cluster.slices(NODE).elsewhere == {}
        assert cluster.slices(OTHER).elsewhere == {BOARD: (NODE, OLD)}


class TestItsOldNodeIsDead:
    """Its agent is silent, and its last report lists the board for a week."""

    def move(self, cluster: Cluster) -> None:
        """From node-b to node-a, which is seen to publish it before it is lost there."""
        cluster.report(OLD, -DAY, gpu(0))
        lost_without_driver(cluster, 1)
        for second in (1, 3, 6, 10):
            cluster.settle(NODE, second)

    def test_its_recovery_is_soaked_without_a_gap(self, cluster: Cluster) -> None:
        self.move(cluster)
        cluster.publish(OLD)  # its slices are deleted with its Node
        well = gpu(0, epoch=2, epoch_started=at(50), presence_since=at(55))
        for minute in range(1, 20):
            second = 60.0 * minute
            seen = with_fields(well, recovery_action=action(0, 56, second))
            cluster.report(NODE, second, *map(last_named, (seen, gpu(1))))
            for node in (OLD, NODE):
                cluster.settle(node, second)

        assert cluster.effects == {}

    def test_one_of_the_two_writes_its_incident(self, cluster: Cluster) -> None:
        self.move(cluster)
        cluster.publish(OLD)

        assert self.writes(cluster) == 0

    def test_so_it_is_where_the_slices_of_the_dead_node_stay(self) -> None:
        begun = Cluster()
        begun.silent.clear()
        begun.report(OLD, 0, dead())
        for second in (0, 2, 5):
            begun.settle(OLD, second)
        begun.silent.add(OLD)
        begun.report(NODE, 50, dead(), gpu(1))

        assert self.writes(begun) == 0

    def writes(self, cluster: Cluster) -> int:
        """Return how often something is written while nothing new happens for nine minutes."""
        counts: list[int] = []
        for minute in range(1, 11):
            for node in (OLD, NODE):
                cluster.settle(node, 60.0 * minute)
            counts.append(len(cluster.stored.taken))
        return counts[-1] - counts[0]


class TestALiar:
    """node-c says that it published the board of node-b, whose agent is silent for a while."""

    @pytest.mark.parametrize("says", [dead(), gpu(0, xids=(xid(95),))], ids=["lost", "sick"])
    def test_a_healthy_board_is_not_tainted_in_its_node(self, says: GpuHealth) -> None:
        begun = Cluster()
        begun.report(OLD, 0, gpu(0))
        begun.report(OTHER, 1, last_named(says, OTHER))
        for second in (1, 3, 6, 10):
            for node in (OTHER, OLD):
                begun.settle(node, second)
        begun.silent.clear()
        for second in (30, 40):
            begun.report(OLD, second, gpu(0))
            for node in (OLD, OTHER):
                begun.settle(node, second)

        assert begun.effects == {}
        assert begun.stored.incidents == {}

    def test_nor_where_node_a_has_its_incident_does_it_end_that(self, cluster: Cluster) -> None:
        cluster.report(NODE, 1, dead(), gpu(1))
        for second in (1, 3, 6, 10):
            cluster.settle(NODE, second)
        cluster.report(OTHER, 20, last_named(gpu(0), OTHER))
        for second in (20, 900, 1800):
            for node in (OTHER, NODE):
                cluster.settle(node, second)

        assert cluster.effects == {"node-a/gpu-0": "NoExecute"}
        assert cluster.stored.incident.node == NODE


class TestItsReportLacksIt:
    """Lost in node-a with a taint and a repair call; after the reboot NVML does not list it."""

    def lost_and_rebooted(self, cluster: Cluster) -> None:
        cluster.report(NODE, 1, dead(), gpu(1))
        for second in (1, 3, 6, 10, 60):
            cluster.settle(NODE, second)
        assert cluster.calls == ["NodeRebootNeeded"]
        cluster.publish(NODE, 1)
        for second in (600, 620, 700, 2000):
            self.rebooted(cluster, second)

    def rebooted(self, cluster: Cluster, second: float) -> None:
        other = gpu(1, epoch=2, epoch_started=at(590), presence_since=at(595))
        cluster.report(
            NODE,
            second,
            with_fields(other, recovery_action=action(0, 596, second)),
            boot_id="boot-2",
        )
        cluster.settle(NODE, second)

    def kept(self, cluster: Cluster) -> None:
        assert cluster.effects == {"node-a/gpu-0": "NoExecute"}
        assert cluster.calls == ["ReplacementNeeded"]

    def test_it_has_not_left_to_the_dead_node(self, cluster: Cluster) -> None:
        self.lost_and_rebooted(cluster)
        self.kept(cluster)

    def test_nor_while_the_agent_of_its_node_is_silent(self, cluster: Cluster) -> None:
        self.lost_and_rebooted(cluster)
        cluster.silent.add(NODE)
        cluster.settle(NODE, 3000)
        self.kept(cluster)

    def test_nor_after_a_restart_of_the_remediator(self, cluster: Cluster) -> None:
        self.lost_and_rebooted(cluster)
        cluster.forget()
        self.rebooted(cluster, 3000 + 2 * DAY)
        self.kept(cluster)

    def test_nor_where_its_incident_was_deleted(self, cluster: Cluster) -> None:
        self.lost_and_rebooted(cluster)
        name = cluster.stored.incident.name
        cluster.stored.incidents.clear()
        cluster.cache.put_incident(name, None)
        self.rebooted(cluster, 3000)
        assert list(cluster.effects) == ["node-a/gpu-0"]

    def test_the_dead_node_leaves_its_incident_to_the_other(self, cluster: Cluster) -> None:
        cluster.report(OLD, -DAY, gpu(0))
        self.lost_and_rebooted(cluster)
        assert cluster.settle(OLD, 2000) == 0
        self.kept(cluster)

    def test_it_has_left_once_the_other_node_reports(self, cluster: Cluster) -> None:
        self.lost_and_rebooted(cluster)
        cluster.silent.clear()
        cluster.report(OLD, 3000, gpu(0))
        self.rebooted(cluster, 3000)
        assert cluster.effects == {}
        assert cluster.calls == []

    def test_it_has_left_once_a_third_node_reports_it(self, cluster: Cluster) -> None:
        self.lost_and_rebooted(cluster)
        cluster.report(OTHER, 3000, gpu(0))
        self.rebooted(cluster, 3000)
        assert cluster.effects == {}


def test_what_was_tainted_in_the_dead_node_is_tainted_here_and_evicts_no_pod() -> None:
    """As where it is published here, and one of the two nodes writes its incident."""
    begun = Cluster()
    begun.silent.clear()
    begun.report(OLD, 0, dead())
    for second in (0, 2, 5):
        begun.settle(OLD, second)
    begun.silent.add(OLD)
    begun.publish(NODE, 0, 1)
    begun.report(NODE, DAY, gpu(0), gpu(1))
    begun.settle(NODE, DAY)
    lost_without_driver(begun, DAY + 10)
    for second in (11, 13, 20):
        begun.settle(NODE, DAY + second)

    assert begun.effects == {"node-b/gpu-0": "NoExecute", "node-a/gpu-0": "NoSchedule"}
    assert begun.settle(OLD, DAY + 20) == 0
    assert begun.settle(NODE, DAY + 20) == 0
