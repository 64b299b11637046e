"""Whether an agent is alive, by our own clock."""

from datetime import timedelta
from itertools import permutations
from typing import get_args

import pytest

from remediator.judge.freshness import Freshness, Sign
from tests.remediator.builders import T0


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_an_agent_is_believed_while_it_writes_and_not_after() -> None:
    clock = Clock()
    freshness = Freshness(150, clock)
    assert "not been heard of" in freshness.stale("node-a")

    freshness.changed("node-a", "Lease")
    clock.seconds += 150
    assert freshness.stale("node-a") == ""
    clock.seconds += 1

    assert "silent for more than 150 s" in freshness.stale("node-a")


def test_what_was_written_long_before_our_start_is_not_fresh() -> None:
    freshness = Freshness(150, Clock())

    freshness.first_seen("old", "Lease", T0 - timedelta(hours=3), T0)
    freshness.first_seen("young", "Lease", T0 - timedelta(seconds=20), T0)
    freshness.first_seen("ahead", "Lease", T0 + timedelta(hours=3), T0)

    assert freshness.stale("old")
    assert not freshness.stale("young")
    assert not freshness.stale("ahead")


@pytest.mark.parametrize("sign", get_args(Sign))
def test_a_first_sight_never_hides_a_later_word(sign: Sign) -> None:
    freshness = Freshness(150, Clock())
    freshness.changed("node-a", "Lease")

    freshness.first_seen("node-a", sign, T0 - timedelta(hours=3), T0)

    assert not freshness.stale("node-a")


@pytest.mark.parametrize("signs", list(permutations(get_args(Sign))))
def test_of_two_first_sights_the_younger_counts(signs: tuple[Sign, Sign]) -> None:
    """The report may be minutes old while the Lease is renewed each minute."""
    freshness = Freshness(150, Clock())
    ages: dict[Sign, timedelta] = {"report": timedelta(minutes=14), "Lease": timedelta(seconds=10)}

    for sign in signs:
        freshness.first_seen("node-a", sign, T0 - ages[sign], T0)

    assert not freshness.stale("node-a")


def test_a_node_that_left_is_known_by_no_sign() -> None:
    freshness = Freshness(150, Clock())
    for sign in get_args(Sign):
        freshness.changed("node-a", sign)

    freshness.forget("node-a")

    assert "not been heard of" in freshness.stale("node-a")
