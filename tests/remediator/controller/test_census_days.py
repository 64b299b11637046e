"""What the census remembers for a day, and how much of one node it counts."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remediator.controller.census import Census
from remediator.plan.fleet import NODE_SHARE
from remediator.policy.limits import Cap
from tests.remediator.builders import at, gpu, published, report_with, uuid, view
from tests.remediator.controller.test_census import DAY, NODES, Clock, claim, publish


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def census(clock: Clock) -> Census:
    return Census(clock)


class TestTheLastDay:
    def test_a_node_whose_slices_are_wiped_counts_as_before(self, census: Census) -> None:
        publish(census, "node-a", *map(gpu, range(8)))
        before = dict(census.totals)

        publish(census, "node-a")

        assert census.totals == before

    def test_one_that_is_published_again_is_forgotten_a_day_after_its_last_time(
        self, census: Census, clock: Clock
    ) -> None:
        for seconds in (0, 3600):
            clock.now = at(seconds)
            publish(census, "node-a", gpu(0))
            publish(census, "node-a")

        clock.now = at(DAY)
        census.forget_old()
        assert census.totals["cluster", ""] == 1

        clock.now = at(DAY + 3600)
        census.forget_old()
        assert not census.totals

    def test_a_node_counts_for_no_more_than_its_share_whatever_it_publishes(
        self, census: Census
    ) -> None:
        publish(census, "node-b", *(gpu(index, node="node-b") for index in range(8)))
        publish(census, "node-a", *map(gpu, range(10_000)))

        assert census.totals["cluster", ""] == 16 + 8

    def test_a_node_that_invents_new_boards_each_moment_fills_no_memory(
        self, census: Census
    ) -> None:
        for index in range(200):
            publish(census, "node-a", gpu(index))

        assert len(census.places) == NODE_SHARE + 1
        assert census.totals["cluster", ""] == NODE_SHARE

    def test_a_board_that_moved_to_another_node_counts_once_and_there(self, census: Census) -> None:
        publish(census, "node-a", gpu(0))
        publish(census, "node-a")
        publish(census, "node-b", gpu(0))

        assert census.places[uuid(0)].node == "node-b"
        assert census.totals["cluster", ""] == 1

    def test_a_wiped_gpu_is_of_its_class_while_it_is_claimed(self, census: Census) -> None:
        held = claim("gpu-0")
        publish(census, "node-a", gpu(0))
        census.claimed(None, held)

        publish(census, "node-a")
        assert census.totals["class", "h100"] == 1

        census.claimed(held, None)
        assert census.totals["class", "h100"] == 0

    def test_a_name_that_stands_for_another_board_is_claimed_for_that_one(
        self, census: Census
    ) -> None:
        census.claimed(None, claim("gpu-0"))
        publish(census, "node-a", gpu(0))

        publish(census, "node-a", gpu(9, minor=0))

        assert census.places[uuid(0)].classes == frozenset()
        assert census.places[uuid(9)].classes == {"h100"}


class TestProducts:
    def test_a_product_is_counted_by_its_driver_version(self, census: Census) -> None:
        for node in ("node-a", "node-b"):
            parts = published(gpu(0, node=node), node)
            census.published(
                node, tuple(msgspec.structs.replace(device, product="H100") for device in parts)
            )
        census.reported("node-a", report_with(view(gpu(0)), driver_version="580"))

        assert census.totals["product", "H100 with driver 580"] == 1
        assert census.totals["product", "H100"] == 1

        census.reported("node-a", report_with(view(gpu(0)), driver_version="590"))
        assert census.totals["product", "H100 with driver 590"] == 1
        assert ("product", "H100 with driver 580") not in census.totals


OWN = st.tuples(NODES, st.frozensets(st.integers(0, 40)))
"""A node, and which GPUs it publishes from now on: none other does."""


@given(st.lists(st.tuples(OWN, st.integers(0, DAY - 1)), max_size=12))
def test_no_wipe_and_no_silence_lowers_a_percentage_within_a_day(
    news: list[tuple[tuple[str, frozenset[int]], int]],
) -> None:
    """At whatever moments of one day: what was counted once is counted until it ends."""
    clock = Clock()
    census, most = Census(clock), 0
    for (node, numbers), seconds in sorted(news, key=lambda piece: piece[1]):
        clock.now = at(seconds)
        publish(census, node, *(gpu(index, node=node) for index in sorted(numbers)))
        census.forget_old()
        for cap in (Cap(10, percent=True), Cap(5, percent=True, least=4, most=16)):
            assert cap.of(census.totals["cluster", ""]) >= cap.of(most)
        most = census.totals["cluster", ""]


@example([(("node-a", frozenset(range(40))), 0)])
@given(st.lists(st.tuples(OWN, st.integers(0, 3 * DAY)), max_size=12))
def test_no_node_raises_a_total_by_more_than_its_share(
    news: list[tuple[tuple[str, frozenset[int]], int]],
) -> None:
    clock = Clock()
    honest, census = Census(clock), Census(clock)
    for (node, numbers), seconds in sorted(news, key=lambda piece: piece[1]):
        clock.now = at(seconds)
        mine = [gpu(index, node=node) for index in sorted(numbers)]
        publish(census, node, *mine)
        if node != "node-a":
            publish(honest, node, *mine)
        for memory in (honest, census):
            memory.forget_old()
        raised = census.totals["cluster", ""] - honest.totals["cluster", ""]
        assert 0 <= raised <= 16


@given(st.lists(st.tuples(OWN, st.integers(0, 3 * DAY)), max_size=12))
def test_after_a_day_of_silence_nothing_is_remembered(
    news: list[tuple[tuple[str, frozenset[int]], int]],
) -> None:
    clock = Clock()
    census = Census(clock)
    for (node, numbers), seconds in sorted(news, key=lambda piece: piece[1]):
        clock.now = at(seconds)
        publish(census, node, *(gpu(index, node=node) for index in sorted(numbers)))
    for node in ("node-a", "node-b", "node-c"):
        publish(census, node)
    clock.now += timedelta(days=1)
    census.forget_old()

    assert not census.places
    assert not census.totals
