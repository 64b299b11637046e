"""The GPU index: where every GPU is, how many there are, and what changed on a node."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.device import Device
from exporter.model.node_health import FabricHealth, GpuHealth, VersionSince
from exporter.model.resource_slices import SliceDevice
from remediator.controller.gpu_index import GpuIndex
from remediator.model.claim import Claim
from remediator.plan.view import Changed, GpuPlace, names_on
from remediator.policy.limits import GROUNDS
from tests.remediator.builders import (
    DRIVER,
    at,
    gpu,
    mig_gpu,
    published,
    report,
    report_with,
    uuid,
    view,
)
from tests.remediator.clock import Clock
from tests.remediator.playing import claim

DAY = 86400
CLUSTER = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gpu_index(clock: Clock) -> GpuIndex:
    return GpuIndex(clock.date)


def joined(health: GpuHealth, clique: int = 7, cluster: str = CLUSTER, state: int = 3) -> GpuHealth:
    fabric = FabricHealth(state=state, clique=clique, cluster_uuid=cluster)
    return msgspec.structs.replace(health, fabric=fabric)


def publish(gpu_index: GpuIndex, node: str, *gpus: GpuHealth) -> None:
    gpu_index.put_devices(node, tuple(part for health in gpus for part in published(health, node)))


class TestPlaces:
    def test_a_gpu_is_on_its_node_and_in_its_pool_and_counts_once_for_all_its_slices(
        self, gpu_index: GpuIndex
    ) -> None:
        publish(gpu_index, "node-a", mig_gpu(0), gpu(1))

        assert gpu_index.places[uuid(0)] == GpuPlace(
            node="node-a", pools=frozenset({f"{DRIVER}/node-a"})
        )
        assert gpu_index.totals == {
            ("node", "node-a"): 2,
            ("pool", f"{DRIVER}/node-a"): 2,
            ("cluster", ""): 2,
        }

    def test_what_is_published_no_more_is_nowhere_a_day_later(
        self, gpu_index: GpuIndex, clock: Clock
    ) -> None:
        publish(gpu_index, "node-a", gpu(0), gpu(1))
        clock.seconds = 60

        publish(gpu_index, "node-a", gpu(1))
        assert set(gpu_index.places) == {uuid(0), uuid(1)}

        clock.seconds = 60 + DAY
        gpu_index.forget_old()
        assert set(gpu_index.places) == {uuid(1)}

        publish(gpu_index, "node-a")
        clock.seconds = 60 + 2 * DAY
        gpu_index.forget_old()
        assert not gpu_index.places
        assert not gpu_index.totals

    def test_a_gpu_that_two_nodes_publish_counts_once_until_one_lets_go(
        self, gpu_index: GpuIndex
    ) -> None:
        publish(gpu_index, "node-a", gpu(0))
        publish(gpu_index, "node-b", gpu(0))

        assert gpu_index.totals["cluster", ""] == 1
        assert gpu_index.places[uuid(0)].pools == {f"{DRIVER}/node-a", f"{DRIVER}/node-b"}

        publish(gpu_index, "node-a")
        assert gpu_index.places[uuid(0)].node == "node-b"
        assert gpu_index.totals["node", "node-a"] == 0

    def test_a_node_speaks_for_its_own_pool_only(self, gpu_index: GpuIndex) -> None:
        stolen = tuple(
            msgspec.structs.replace(device, device=Device(DRIVER, "node-b", "gpu-0"))
            for device in published(gpu(0))
        )

        gpu_index.put_devices("node-a", stolen)

        assert not gpu_index.places

    def test_what_is_no_gpu_is_not_counted(self, gpu_index: GpuIndex) -> None:
        channel = SliceDevice(
            device=Device("compute-domain.nvidia.com", "node-a", "channel-0"), node="node-a"
        )

        gpu_index.put_devices("node-a", (channel,))

        assert not gpu_index.totals


class TestClasses:
    def test_a_gpu_is_of_the_classes_through_which_it_is_claimed_now(
        self, gpu_index: GpuIndex
    ) -> None:
        publish(gpu_index, "node-a", gpu(0), gpu(1))
        held = claim("gpu-0", through="h100")

        gpu_index.put_claim(None, held)
        assert gpu_index.places[uuid(0)].classes == {"h100"}
        assert gpu_index.totals["class", "h100"] == 1

        gpu_index.put_claim(held, None)
        assert gpu_index.places[uuid(0)].classes == frozenset()
        assert ("class", "h100") not in gpu_index.totals

    def test_a_claim_that_is_seen_before_the_slice_counts_when_it_comes(
        self, gpu_index: GpuIndex
    ) -> None:
        gpu_index.put_claim(None, claim("gpu-0", through="h100"))

        publish(gpu_index, "node-a", gpu(0))

        assert gpu_index.totals["class", "h100"] == 1

    def test_two_claims_on_one_gpu_are_one_gpu_until_both_are_gone(
        self, gpu_index: GpuIndex
    ) -> None:
        publish(gpu_index, "node-a", mig_gpu(0))
        slices = [device.device.device for device in published(mig_gpu(0))]
        first = claim((slices[0], slices[1]), through="h100")
        second = claim(slices[0], through="h100")
        gpu_index.put_claim(None, first)
        gpu_index.put_claim(None, second)

        gpu_index.put_claim(first, None)

        assert gpu_index.totals["class", "h100"] == 1
        gpu_index.put_claim(second, None)
        assert gpu_index.totals["class", "h100"] == 0

    def test_an_administrators_look_is_no_claim_on_a_gpu(self, gpu_index: GpuIndex) -> None:
        publish(gpu_index, "node-a", gpu(0))

        gpu_index.put_claim(None, claim("gpu-0", through="h100", admin_access=True))

        assert gpu_index.places[uuid(0)].classes == frozenset()


class TestDomains:
    def test_gpus_of_one_clique_are_one_domain_across_nodes(self, gpu_index: GpuIndex) -> None:
        for node in ("node-a", "node-b"):
            mine = [joined(gpu(index, node=node)) for index in range(2)]
            publish(gpu_index, node, *mine)
            gpu_index.put_report(node, report(*mine))

        assert gpu_index.totals["domain", f"{CLUSTER}/7"] == 4
        assert gpu_index.peers(uuid(0)) == (
            f"node-a/{uuid(1)}",
            f"node-b/{uuid(0, 'node-b')}",
            f"node-b/{uuid(1, 'node-b')}",
        )

    def test_a_large_domain_names_32_peers_and_the_number_of_the_others(
        self, gpu_index: GpuIndex
    ) -> None:
        mine = [joined(gpu(index)) for index in range(40)]
        publish(gpu_index, "node-a", *mine)
        gpu_index.put_report("node-a", report(*mine))

        peers = gpu_index.peers(uuid(0))

        assert len(peers) == 33
        assert peers[-1] == "and 7 more"

    @pytest.mark.parametrize(
        "one",
        [
            gpu(0),
            joined(gpu(0), state=2),
            joined(gpu(0), cluster="00000000-0000-0000-0000-000000000000"),
            joined(gpu(0), cluster=""),
        ],
        ids=["no fabric", "not joined yet", "a single machine's switches", "not reported"],
    )
    def test_without_a_domain_there_are_no_peers(self, gpu_index: GpuIndex, one: GpuHealth) -> None:
        publish(gpu_index, "node-a", one, gpu(1))
        gpu_index.put_report("node-a", report(one, gpu(1)))

        assert gpu_index.peers(uuid(0)) == ()
        assert gpu_index.places[uuid(0)].domain == ""

    def test_a_node_cannot_put_another_nodes_gpu_into_a_domain(self, gpu_index: GpuIndex) -> None:
        publish(gpu_index, "node-a", gpu(0))
        publish(gpu_index, "node-b", gpu(0, node="node-b"))

        gpu_index.put_report("node-b", report(joined(gpu(0))))

        assert gpu_index.places[uuid(0)].domain == ""
        assert gpu_index.peers(uuid(0)) == ()

    def test_a_domain_ends_with_the_report(self, gpu_index: GpuIndex) -> None:
        publish(gpu_index, "node-a", gpu(0))
        gpu_index.put_report("node-a", report(joined(gpu(0))))

        gpu_index.put_report("node-a", None)

        assert gpu_index.totals["domain", f"{CLUSTER}/7"] == 0


class TestChanges:
    def report_with(self, gpu_index: GpuIndex, driver: str, agent: str = "1") -> None:
        seen = report_with(view(gpu(0)), driver_version=driver, agent_version=agent)
        gpu_index.put_report("node-a", seen)

    def test_the_first_sight_of_a_version_is_no_change(self, gpu_index: GpuIndex) -> None:
        self.report_with(gpu_index, "570")

        assert "node-a" not in gpu_index.changes

    def test_another_driver_and_another_agent_are_dated_apart(
        self, gpu_index: GpuIndex, clock: Clock
    ) -> None:
        self.report_with(gpu_index, "570")
        clock.seconds = 10
        self.report_with(gpu_index, "580")
        clock.seconds = 20
        self.report_with(gpu_index, "580", agent="2")
        clock.seconds = 30
        self.report_with(gpu_index, "580", agent="2")

        assert gpu_index.changes["node-a"] == Changed(driver_at=at(10), agent_at=at(20))

    def test_a_driver_that_is_unloaded_and_loaded_again_has_not_changed(
        self, gpu_index: GpuIndex
    ) -> None:
        self.report_with(gpu_index, "570")
        self.report_with(gpu_index, "")
        self.report_with(gpu_index, "570")

        assert "node-a" not in gpu_index.changes

    def test_a_driver_that_is_unloaded_between_two_versions_has_changed(
        self, gpu_index: GpuIndex
    ) -> None:
        self.report_with(gpu_index, "570")
        self.report_with(gpu_index, "")
        self.report_with(gpu_index, "580")

        assert gpu_index.changes["node-a"].driver_at == at(0)

    def test_what_changed_before_we_started_is_reported_by_the_agent(
        self, gpu_index: GpuIndex, clock: Clock
    ) -> None:
        clock.seconds = 100
        seen = report_with(
            view(gpu(0)),
            driver_since=VersionSince(version="580", time=at(40)),
            agent_since=VersionSince(version="2", time=at(5000)),
        )
        gpu_index.put_report("node-a", seen)

        # A date ahead of our clock is of a clock that is wrong.
        assert gpu_index.changes["node-a"] == Changed(driver_at=at(40), agent_at=at(100))

    def test_a_change_that_we_saw_is_dated_by_our_own_clock(
        self, gpu_index: GpuIndex, clock: Clock
    ) -> None:
        self.report_with(gpu_index, "570")
        clock.seconds = 100
        seen = report_with(
            view(gpu(0)),
            driver_version="580",
            agent_version="1",
            driver_since=VersionSince(version="580", time=at(-5000)),
        )
        gpu_index.put_report("node-a", seen)

        assert gpu_index.changes["node-a"].driver_at == at(100)

    def test_a_node_that_is_gone_has_no_history(self, gpu_index: GpuIndex) -> None:
        self.report_with(gpu_index, "570")
        self.report_with(gpu_index, "580")

        gpu_index.put_report("node-a", None)
        assert not gpu_index.changes
        self.report_with(gpu_index, "590")
        assert not gpu_index.changes


NODES = st.sampled_from(["node-a", "node-b", "node-c"])
SETS = st.frozensets(st.integers(0, 3))
CLAIMS = st.builds(
    claim,
    st.tuples(st.sampled_from(["gpu-0", "gpu-1"]), st.sampled_from(["gpu-2", "gpu-1"])),
    pool=NODES,
    through=st.sampled_from(["h100", "mig"]),
)
NEWS = st.one_of(
    st.tuples(st.just("slice"), NODES, SETS),
    st.tuples(st.just("report"), NODES, SETS),
    st.tuples(st.just("gone"), NODES, SETS),
    st.tuples(st.just("claim"), CLAIMS, SETS),
)


@given(st.lists(NEWS, max_size=30))
def test_the_totals_are_always_what_counting_the_places_anew_gives(
    news: list[tuple[str, str | Claim, frozenset[int]]],
) -> None:
    """GPUs are numbered alike on all nodes, so that most of them are published twice."""
    gpu_index, standing = GpuIndex(lambda: at(0)), list[Claim]()
    for what, about, numbers in news:
        gpus = [joined(gpu(index), clique=index % 2) for index in sorted(numbers)]
        if isinstance(about, Claim):
            old = standing.pop() if standing and 0 in numbers else None
            gpu_index.put_claim(old, None if 1 in numbers else about)
            standing += [] if 1 in numbers else [about]
        elif what == "slice":
            publish(gpu_index, about, *gpus)
        else:
            gpu_index.put_report(about, None if what == "gone" else report(*gpus))

        anew = Counter(
            (ground, name)
            for place in gpu_index.places.values()
            for ground in GROUNDS
            for name in names_on(ground, place)
        )
        assert gpu_index.totals == anew
        for gpu_uuid, place in gpu_index.places.items():
            alike = [other for other, its in gpu_index.places.items() if its.domain == place.domain]
            assert len(gpu_index.peers(gpu_uuid)) == (len(alike) - 1 if place.domain else 0)
