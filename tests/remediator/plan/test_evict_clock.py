"""What counts of `evict.within`: the time in which evictions were requested."""

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.plan.clocks import start_of_within
from remediator.plan.steps import EvictPod, WriteStatus
from remediator.policy.table import Evict
from tests.remediator.builders import Stored, at, evictions, policy, with_fields
from tests.remediator.plan.evict_first import (
    REFUSED,
    START,
    WITHIN,
    begun,
    play,
    requested,
    rows,
    seen,
)
from tests.remediator.playing import pod, tick

BLIND: list[dict[str, object]] = [
    {"blind": {"claims": "refused"}},
    {"stale": "silent"},
    {"pods": None},
]
IDS = ["a watch is blind", "the agent is silent", "the pods cannot be listed"]
HOUR = 3600.0


def after_request(stored: Stored, seconds: float) -> Stored:
    """Let evictions be requested for so long, and be refused."""
    play(stored, seen(pod()), rows(), START, START + seconds)
    return stored


@pytest.mark.parametrize("fields", BLIND, ids=IDS)
class TestWhatIsNotKnown:
    def test_after_a_blind_hour_pods_get_what_is_left_of_their_time(
        self, fields: dict[str, object]
    ) -> None:
        one, asks = seen(pod()), rows()
        stored = after_request(begun(one, asks), 120)
        blind = with_fields(one, **fields)
        play(stored, blind, asks, 135, HOUR, every=60)

        after = play(stored, one, asks, HOUR + 5, HOUR + 5 + 400)
        assert all(requested(each) for each in after)
        assert stored.effects() == {"gpu-0": "Evict"}

        play(stored, one, asks, HOUR + 410, HOUR + 5 + 480)
        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_who_sees_only_now_and_then_deletes_in_the_end(self, fields: dict[str, object]) -> None:
        one, asks = seen(pod()), rows()
        stored = begun(one, asks)
        blind = with_fields(one, **fields)
        times = 0

        for minute in range(60):
            tick(stored, one, START + minute * 120, asks)
            if stored.effects() == {"gpu-0": "NoExecute"}:
                break
            times += 1
            play(stored, blind, asks, START + minute * 120 + 5, START + minute * 120 + 115)

        assert times == 10, "a look counts for a minute"


class TestNobodyLooks:
    def test_a_leader_that_was_away_for_an_hour_goes_on_where_it_was(self) -> None:
        one, asks = seen(pod()), rows()
        stored = after_request(begun(one, asks), 300)

        play(stored, one, asks, HOUR, HOUR + 235)
        assert stored.effects() == {"gpu-0": "Evict"}

        play(stored, one, asks, HOUR + 240, HOUR + 305)
        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_a_short_restart_costs_no_time(self) -> None:
        one, asks = seen(pod()), rows()
        stored = after_request(begun(one, asks), 300)

        play(stored, one, asks, START + 325, START + 600)

        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert stored.incident.status.eviction.started_at == at(START)

    def test_however_often_it_dies_the_time_goes_on(self) -> None:
        one, asks = seen(pod()), rows()
        stored = begun(one, asks)

        play(stored, one, asks, START, START + 600, every=50)

        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_a_time_that_is_over_stays_over(self) -> None:
        one, waits = seen(pod()), rows("wait")
        stored = begun(one, waits)
        play(stored, one, waits, START, START + 605)
        written = len(stored.taken)
        play(stored, one, waits, START + 610, HOUR, every=60)
        assert {type(step) for step in stored.taken[written:]} == {EvictPod}

        tick(stored, one, 2 * HOUR, rows())

        assert stored.effects() == {"gpu-0": "NoExecute"}


def test_an_eviction_costs_few_writes() -> None:
    one, asks = seen(pod(), refusals={"u-train-0": REFUSED}), rows()
    stored = begun(one, asks)
    tick(stored, one, START, asks)

    decisions = play(stored, one, asks, START + 5, START + 590)

    written = [step for each in decisions for step in each.steps if isinstance(step, WriteStatus)]
    assert len(written) <= 20


def test_what_an_older_crd_does_not_store_counts_as_before() -> None:
    (of,) = evictions(at(0))

    assert start_of_within(of, Evict(within=WITHIN), at(HOUR)) == at(0)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([1.0, 5.0, 31.0, 61.0, 200.0, 4000.0]), min_size=1, max_size=120),
    st.sampled_from([30.0, 120.0, 600.0]),
)
def test_noexecute_comes_after_enough_requests_and_never_before(
    gaps: list[float], within: float
) -> None:
    one, asks = seen(pod()), policy(evict=Evict(within=timedelta(seconds=within)))
    stored, now, looks, deleted = begun(one, asks), START, list[float](), False

    for gap in gaps:
        looks.append(now)
        tick(stored, one, now, asks)
        deleted = stored.effects() == {"gpu-0": "NoExecute"}
        if deleted:
            break
        now += gap

    most = min(max(within / 10, 10.0), 60.0)
    counted = sum(min(later - first, most) for first, later in pairwise(looks))
    # Short times that were not noted before a long one count with it.
    assert counted >= within if deleted else counted / 1.5 < within
