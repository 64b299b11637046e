"""Whether an agent is alive, by our own clock."""

from datetime import timedelta
from itertools import permutations
from typing import get_args

import pytest

from remediator.freshness import Freshness, Renewals, Sign
from remediator.plan.board import RENEWALS_NEEDED
from tests.remediator.builders import T0
from tests.remediator.clock import Clock


def test_an_agent_is_believed_while_it_writes_and_not_after() -> None:
    clock = Clock()
    freshness = Freshness(150, clock)
    assert "not reported yet" in freshness.why_stale("node-a")

    freshness.note_change("node-a", "Lease")
    clock.seconds += 150
    assert freshness.why_stale("node-a") == ""
    clock.seconds += 1

    assert "not reported for more than 150 s" in freshness.why_stale("node-a")


def test_what_was_written_long_before_our_start_is_not_fresh() -> None:
    freshness = Freshness(150, Clock())

    freshness.note_list("old", "Lease", T0 - timedelta(hours=3), T0)
    freshness.note_list("young", "Lease", T0 - timedelta(seconds=20), T0)
    freshness.note_list("ahead", "Lease", T0 + timedelta(hours=3), T0)
    freshness.note_list("nearly", "Lease", T0 + timedelta(seconds=1), T0)

    assert freshness.why_stale("old")
    assert not freshness.why_stale("young")
    assert not freshness.why_stale("nearly")
    assert freshness.why_stale("ahead"), "its next renewal says whether it is alive"
    freshness.note_change("ahead", "Lease")
    assert not freshness.why_stale("ahead")


@pytest.mark.parametrize("sign", get_args(Sign))
def test_a_first_sight_never_hides_a_later_word(sign: Sign) -> None:
    freshness = Freshness(150, Clock())
    freshness.note_change("node-a", "Lease")

    freshness.note_list("node-a", sign, T0 - timedelta(hours=3), T0)

    assert not freshness.why_stale("node-a")


@pytest.mark.parametrize("signs", list(permutations(get_args(Sign))))
def test_of_two_first_sights_the_younger_counts(signs: tuple[Sign, Sign]) -> None:
    """The report may be minutes old while the Lease is renewed each minute."""
    freshness = Freshness(150, Clock())
    ages: dict[Sign, timedelta] = {"report": timedelta(minutes=14), "Lease": timedelta(seconds=10)}

    for sign in signs:
        freshness.note_list("node-a", sign, T0 - ages[sign], T0)

    assert not freshness.why_stale("node-a")


def test_a_node_that_left_is_known_by_no_sign() -> None:
    freshness = Freshness(150, Clock())
    for sign in get_args(Sign):
        freshness.note_change("node-a", sign)

    freshness.forget("node-a")

    assert "not reported yet" in freshness.why_stale("node-a")


def test_a_report_older_than_two_of_its_intervals_is_stale_whatever_the_lease_says() -> None:
    """The Lease is of an agent that lives; the report may be of a loop that hangs."""
    clock = Clock()
    freshness = Freshness(150, clock)
    freshness.note_change("node-a", "report")
    for _ in range(30):
        clock.seconds += 60
        freshness.note_change("node-a", "Lease")
    assert not freshness.why_stale("node-a", 900)
    clock.seconds += 1
    freshness.note_change("node-a", "Lease")
    assert "older than 1800 s" in freshness.why_stale("node-a", 900)
    assert not freshness.why_stale("node-a"), "without an interval the youngest sign counts alone"

    freshness.note_change("node-a", "report")
    assert not freshness.why_stale("node-a", 900)


@pytest.mark.parametrize("interval", [0, -5, 10**9])
def test_an_interval_that_makes_no_sense_makes_no_report_last(interval: float) -> None:
    clock = Clock()
    freshness = Freshness(150, clock)
    freshness.note_change("node-a", "report")
    clock.seconds += 100
    assert not freshness.why_stale("node-a", interval)
    clock.seconds += 8000
    freshness.note_change("node-a", "Lease")
    assert freshness.why_stale("node-a", interval)


def test_the_age_of_a_listed_report_counts_from_when_it_was_written() -> None:
    clock = Clock()
    freshness = Freshness(150, clock)
    freshness.note_list("node-a", "report", T0 - timedelta(seconds=1700), T0)
    freshness.note_change("node-a", "Lease")
    assert not freshness.why_stale("node-a", 900)
    clock.seconds += 101
    freshness.note_change("node-a", "Lease")
    assert freshness.why_stale("node-a", 900)


def test_old_news_after_a_relist_is_no_sign_of_life() -> None:
    """Our watch was away for two hours, and so was the agent: its last word is listed now."""
    clock = Clock()
    freshness = Freshness(150, clock)
    freshness.note_change("node-a", "Lease")
    clock.seconds += 7200
    freshness.note_list("node-a", "Lease", T0 - timedelta(seconds=7140), T0)
    assert "not reported for" in freshness.why_stale("node-a")


def test_renewals_count_where_they_carry_the_hash_of_the_report_that_is_stored() -> None:
    renewals = Renewals()
    renewals.note_renewal("node-a", "h1", "h1", T0)
    renewals.note_renewal("node-a", "h2", "h1", T0)
    assert renewals.of("node-a", "h1") == (), "the agent sees something else by now"
    renewals.note_renewal("node-a", "h2", "h2", T0 + timedelta(seconds=60))
    assert renewals.of("node-a", "h2") == (T0, T0 + timedelta(seconds=60))
    assert renewals.of("node-a", "h1") == ()
    assert renewals.of("node-b", "h2") == ()


def test_of_renewals_no_more_are_kept_than_are_needed_and_none_of_a_node_that_left() -> None:
    renewals = Renewals()
    for number in range(10):
        renewals.note_renewal("node-a", "h1", "h1", T0 + timedelta(seconds=number))
    assert len(renewals.of("node-a", "h1")) == RENEWALS_NEEDED
    renewals.forget("node-a")
    assert renewals.of("node-a", "h1") == ()


@pytest.mark.parametrize(("stated", "stored"), [("", ""), ("", "h1"), ("h1", "")])
def test_without_a_hash_nothing_is_confirmed(stated: str, stored: str) -> None:
    renewals = Renewals()
    for _ in range(RENEWALS_NEEDED):
        renewals.note_renewal("node-a", stated, stored, T0)
    assert renewals.of("node-a", stored) == ()
