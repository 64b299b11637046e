"""Whether an agent is alive, by our own clock."""

from datetime import timedelta

from remediator.judge.freshness import Freshness
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

    freshness.changed("node-a")
    clock.seconds += 150
    assert freshness.stale("node-a") == ""
    clock.seconds += 1

    assert "silent for more than 150 s" in freshness.stale("node-a")


def test_what_was_written_long_before_our_start_is_not_fresh() -> None:
    freshness = Freshness(150, Clock())

    freshness.first_seen("old", T0 - timedelta(hours=3), T0)
    freshness.first_seen("young", T0 - timedelta(seconds=20), T0)
    freshness.first_seen("ahead", T0 + timedelta(hours=3), T0)

    assert freshness.stale("old")
    assert not freshness.stale("young")
    assert not freshness.stale("ahead")


def test_a_first_sight_never_hides_a_later_word() -> None:
    freshness = Freshness(150, Clock())
    freshness.changed("node-a")

    freshness.first_seen("node-a", T0 - timedelta(hours=3), T0)

    assert not freshness.stale("node-a")


def test_of_two_first_sights_the_younger_counts() -> None:
    """The report may be minutes old while the Lease is renewed each minute."""
    freshness = Freshness(150, Clock())

    freshness.first_seen("node-a", T0 - timedelta(minutes=14), T0)
    freshness.first_seen("node-a", T0 - timedelta(seconds=10), T0)

    assert not freshness.stale("node-a")
