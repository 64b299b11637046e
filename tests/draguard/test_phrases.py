"""Ages, distances, counts, and suggestions for a wrong name."""

from datetime import timedelta

import pytest

from draguard.phrases import age, count, did_you_mean, moment, some
from tests.remediator.builders import T0


@pytest.mark.parametrize(
    ("away", "words"),
    [
        (timedelta(hours=4), "2026-01-05T16:00:00Z, in 4h"),
        (timedelta(hours=4) - timedelta(seconds=2), "2026-01-05T15:59:58Z, in 4h"),
        (timedelta(seconds=30), "2026-01-05T12:00:30Z, in 30s"),
        (timedelta(0), "2026-01-05T12:00:00Z, 0s ago"),
        (timedelta(minutes=-90), "2026-01-05T10:30:00Z, 1h ago"),
        (timedelta(days=-3), "2026-01-02T12:00:00Z, 3d ago"),
    ],
)
def test_a_moment_is_reported_with_how_far_it_is(away: timedelta, words: str) -> None:
    assert moment(T0 + away, T0) == words


def test_never_has_no_age_and_no_moment() -> None:
    assert (age(None, T0), moment(None, T0)) == ("", "")


def test_a_clock_that_runs_ahead_makes_no_negative_age() -> None:
    assert age(T0 + timedelta(hours=1), T0) == "0s"


def test_one_is_one_and_many_are_counted() -> None:
    assert count(1, "agent is", "agents are") == "1 agent is"
    assert count(2, "agent is", "agents are") == "2 agents are"
    assert some(["a", "b", "c", "d"]) == "a, b, c and 1 more"


UUIDS = ["GPU-2fa81118-aa", "GPU-2fa81118-ab", "GPU-77777777-aa", ""]


@pytest.mark.parametrize(
    ("word", "known", "offered"),
    [
        ("statu", ["status", "plan"], " (did you mean status?)"),
        ("nodea/0", ["node-a/0", "rack-7/3"], " (did you mean node-a/0?)"),
        ("gpu-2FA8", UUIDS, " (did you mean GPU-2fa81118-aa or GPU-2fa81118-ab?)"),
        ("node-a", ["node-a/0", "node-a/1", "node-a/2", "node-a/3"], "node-a/2?)"),
        ("something else", ["status"], ""),
        ("", ["status"], ""),
        ("x", [], ""),
    ],
)
def test_what_begins_so_is_offered_and_else_what_is_alike(
    word: str, known: list[str], offered: str
) -> None:
    stated = did_you_mean(word, known)

    assert stated.endswith(offered)
    assert bool(stated) == bool(offered)
