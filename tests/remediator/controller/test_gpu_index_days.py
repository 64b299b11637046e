"""What the GPU index remembers for a day, and how much of one node it counts."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remediator.controller.gpu_index import GpuIndex
from remediator.plan.view import NODE_SHARE
from remediator.policy.limits import Cap
from tests.remediator.builders import gpu, published, report_with, uuid, view
from tests.remediator.clock import Clock
from tests.remediator.controller.test_gpu_index import DAY, NODES, publish
from tests.remediator.playing import claim


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gpu_index(clock: Clock) -> GpuIndex:
    return GpuIndex(clock.date)


class TestTheLastDay:
    def test_a_node_whose_slices_are_wiped_counts_as_before(self, gpu_index: GpuIndex) -> None:
        publish(gpu_index, "node-a", *map(gpu, range(8)))
        before = dict(gpu_index.totals)

        publish(gpu_index, "node-a")

        assert gpu_index.totals == before

    def test_one_that_is_published_again_is_forgotten_a_day_after_its_last_time(
        self, gpu_index: GpuIndex, clock: Clock
    ) -> None:
        for seconds in (0, 3600):
            clock.seconds = seconds
            publish(gpu_index, "node-a", gpu(0))
            publish(gpu_index, "node-a")

        clock.seconds = DAY
        gpu_index.forget_old()
        assert gpu_index.totals["cluster", ""] == 1

        clock.seconds = DAY + 3600
        gpu_index.forget_old()
        assert not gpu_index.totals

    def test_a_node_counts_for_no_more_than_its_share_whatever_it_publishes(
        self, gpu_index: GpuIndex
    ) -> None:
        publish(gpu_index, "node-b", *(gpu(index, node="node-b") for index in range(8)))
        publish(gpu_index, "node-a", *map(gpu, range(10_000)))

        assert gpu_index.totals["cluster", ""] == 16 + 8

    def test_a_node_that_invents_new_boards_each_moment_fills_no_memory(
        self, gpu_index: GpuIndex
    ) -> None:
        for index in range(200):
            publish(gpu_index, "node-a", gpu(index))

        assert len(gpu_index.places) == NODE_SHARE + 1
        assert gpu_index.totals["cluster", ""] == NODE_SHARE

    def test_a_board_that_moved_to_another_node_counts_once_and_there(
        self, gpu_index: GpuIndex
    ) -> None:
        publish(gpu_index, "node-a", gpu(0))
        publish(gpu_index, "node-a")
        publish(gpu_index, "node-b", gpu(0))

        assert gpu_index.places[uuid(0)].node == "node-b"
        assert gpu_index.totals["cluster", ""] == 1

    def test_a_wiped_gpu_is_of_its_class_while_it_is_claimed(self, gpu_index: GpuIndex) -> None:
        held = claim("gpu-0", through="h100")
        publish(gpu_index, "node-a", gpu(0))
        gpu_index.put_claim(None, held)

        publish(gpu_index, "node-a")
        assert gpu_index.totals["class", "h100"] == 1

        gpu_index.put_claim(held, None)
        assert gpu_index.totals["class", "h100"] == 0

    def test_a_name_that_stands_for_another_board_is_claimed_for_that_one(
        self, gpu_index: GpuIndex
    ) -> None:
        gpu_index.put_claim(None, claim("gpu-0", through="h100"))
        publish(gpu_index, "node-a", gpu(0))

        publish(gpu_index, "node-a", gpu(9, minor=0))

        assert gpu_index.places[uuid(0)].classes == frozenset()
        assert gpu_index.places[uuid(9)].classes == {"h100"}


class TestProducts:
    def test_a_product_is_counted_by_its_driver_version(self, gpu_index: GpuIndex) -> None:
        for node in ("node-a", "node-b"):
            parts = published(gpu(0, node=node), node)
            gpu_index.put_devices(
                node, tuple(msgspec.structs.replace(device, product="H100") for device in parts)
            )
        gpu_index.put_report("node-a", report_with(view(gpu(0)), driver_version="580"))

        assert gpu_index.totals["product", "H100 with driver 580"] == 1
        assert gpu_index.totals["product", "H100"] == 1

        gpu_index.put_report("node-a", report_with(view(gpu(0)), driver_version="590"))
        assert gpu_index.totals["product", "H100 with driver 590"] == 1
        assert ("product", "H100 with driver 580") not in gpu_index.totals


OWN = st.tuples(NODES, st.frozensets(st.integers(0, 40)))
"""A node, and which GPUs it publishes from now on: none other does."""


@given(st.lists(st.tuples(OWN, st.integers(0, DAY - 1)), max_size=12))
def test_no_wipe_and_no_silence_lowers_a_percentage_within_a_day(
    news: list[tuple[tuple[str, frozenset[int]], int]],
) -> None:
    """At whatever moments of one day: what was counted once is counted until it ends."""
    clock = Clock()
    gpu_index, most = GpuIndex(clock.date), 0
    for (node, numbers), seconds in sorted(news, key=lambda piece: piece[1]):
        clock.seconds = seconds
        publish(gpu_index, node, *(gpu(index, node=node) for index in sorted(numbers)))
        gpu_index.forget_old()
        for cap in (Cap(10, percent=True), Cap(5, percent=True, least=4, most=16)):
            assert cap.of(gpu_index.totals["cluster", ""]) >= cap.of(most)
        most = gpu_index.totals["cluster", ""]


@example([(("node-a", frozenset(range(40))), 0)])
@given(st.lists(st.tuples(OWN, st.integers(0, 3 * DAY)), max_size=12))
def test_no_node_raises_a_total_by_more_than_its_share(
    news: list[tuple[tuple[str, frozenset[int]], int]],
) -> None:
    clock = Clock()
    honest, gpu_index = GpuIndex(clock.date), GpuIndex(clock.date)
    for (node, numbers), seconds in sorted(news, key=lambda piece: piece[1]):
        clock.seconds = seconds
        mine = [gpu(index, node=node) for index in sorted(numbers)]
        publish(gpu_index, node, *mine)
        if node != "node-a":
            publish(honest, node, *mine)
        for memory in (honest, gpu_index):
            memory.forget_old()
        raised = gpu_index.totals["cluster", ""] - honest.totals["cluster", ""]
        assert 0 <= raised <= 16


@given(st.lists(st.tuples(OWN, st.integers(0, 3 * DAY)), max_size=12))
def test_after_a_day_of_silence_nothing_is_remembered(
    news: list[tuple[tuple[str, frozenset[int]], int]],
) -> None:
    clock = Clock()
    gpu_index = GpuIndex(clock.date)
    for (node, numbers), seconds in sorted(news, key=lambda piece: piece[1]):
        clock.seconds = seconds
        publish(gpu_index, node, *(gpu(index, node=node) for index in sorted(numbers)))
    for node in ("node-a", "node-b", "node-c"):
        publish(gpu_index, node)
    clock.seconds += DAY
    gpu_index.forget_old()

    assert not gpu_index.places
    assert not gpu_index.totals
