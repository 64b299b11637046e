"""The pace of writes: what is urgent goes, the rest keeps to the rate, one after the other."""

from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.controller.rate_limit import (
    AFTER_THE_HURRY,
    LONGEST_HURRY,
    LONGEST_PAUSE,
    NEWS,
    Pace,
)
from tests.remediator.clock import Clock


def test_a_burst_goes_at_once_and_then_each_waits_for_its_turn() -> None:
    pace = Pace(10, 3, clock := Clock())

    assert [pace.ask() for _ in range(3)] == [0, 0, 0]
    assert [round(pace.ask(), 3) for _ in range(3)] == [0.1, 0.2, 0.3]
    clock.seconds = 0.1
    assert pace.ask() == 0


def test_urgent_writes_go_at_once_and_the_others_make_room() -> None:
    pace = Pace(10, 2, Clock())

    assert [pace.ask(urgent=True) for _ in range(4)] == [0, 0, 0, 0]
    assert round(pace.ask(), 3) == 0.3


def test_nothing_goes_while_the_server_asks_to_wait_nor_for_longer_than_a_minute() -> None:
    pace = Pace(10, 3, clock := Clock())
    pace.pause(7)

    assert pace.ask(urgent=True) == 7
    pace.pause(1e9)
    assert round(pace.ask(urgent=True), 1) == LONGEST_PAUSE
    clock.seconds = LONGEST_PAUSE
    assert pace.ask(urgent=True) == 0


@settings(deadline=None)  # a busy machine is no defect
@given(st.lists(st.floats(0, 0.2), max_size=200))
def test_in_the_long_run_the_rate_is_kept(gaps: list[float]) -> None:
    pace, written = Pace(20, 5, clock := Clock()), 0
    for gap in gaps:
        clock.seconds += gap
        written += pace.ask() == 0

    assert written <= 5 + 20 * clock.seconds + 1e-6


def test_a_patient_write_makes_way_while_there_is_a_hurry_and_nothing_else_does() -> None:
    hurry = [True]
    pace = Pace(10, 30, Clock(), has_urgent=lambda: hurry[0])

    assert [pace.ask(patient=True) for _ in range(2)] == [AFTER_THE_HURRY, AFTER_THE_HURRY + 0.1]
    assert pace.ask() == pace.ask(urgent=True) == pace.ask(urgent=True, patient=True) == 0
    hurry[0] = False
    assert pace.ask(patient=True) == 0


def test_a_hurry_without_end_does_not_hold_a_patient_write_for_ever() -> None:
    hurry = [True]
    pace = Pace(10, 30, clock := Clock(), has_urgent=lambda: hurry[0])

    assert pace.ask(patient=True) > 0
    clock.seconds = LONGEST_HURRY
    assert pace.ask(patient=True) == 0
    hurry[0] = False
    pace.ask(patient=True)
    hurry[0] = True
    assert pace.ask(patient=True) > 0


def written_in(seconds: int, pace: Pace, clock: Clock) -> tuple[int, int]:
    """Return how many writes and how many news go while both are always waiting."""
    writes = changes = 0
    for _ in range(seconds * 1000):
        clock.seconds += 0.001
        writes += pace.ask() == 0
        changes += pace.ask_for_event() == 0
    return writes, changes


def test_news_has_its_share_and_no_more_while_there_is_other_work() -> None:
    pace = Pace(20, 10, clock := Clock())

    writes, changes = written_in(60, pace, clock)

    assert 0.9 * 60 * 20 / NEWS <= changes <= 5 + 60 * 20 / NEWS
    assert writes + changes <= 10 + 60 * 20
    assert writes >= 60 * 20 * (1 - 1 / NEWS) - 1


def test_news_goes_at_once_while_there_is_no_other_work() -> None:
    pace = Pace(10, 20, Clock())

    assert [pace.ask_for_event() for _ in range(10)] == [0] * 10
    assert pace.ask_for_event() == NEWS / 10, "half of a burst is kept for what matters more"
    assert pace.ask() == 0


def test_no_news_goes_while_the_server_asks_to_wait() -> None:
    pace = Pace(10, 3, clock := Clock())
    pace.pause(7)

    assert pace.ask_for_event() == 7
    clock.seconds = 7
    assert pace.ask_for_event() == 0


def test_news_waits_while_taints_that_went_at_once_are_paid_for() -> None:
    pace = Pace(10, 10, clock := Clock())
    for _ in range(20):
        pace.ask(urgent=True)

    clock.seconds = NEWS / 10
    assert pace.ask_for_event() > 0
    clock.seconds = 1.2
    assert pace.ask_for_event() == 0
