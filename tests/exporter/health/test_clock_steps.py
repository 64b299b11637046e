"""By how much the wall clock was set."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.health.clock_steps import ClockSteps
from tests.exporter.worlds import at

NO_STEP = timedelta(0)


def test_the_first_look_sees_no_step() -> None:
    assert ClockSteps().step(at(1000), 5.0) == NO_STEP


@pytest.mark.parametrize("seconds", [3600.0, -3600.0, 2.0])
def test_a_clock_that_was_set_is_seen_once(seconds: float) -> None:
    clocks = ClockSteps()
    clocks.step(at(0), 100.0)
    assert clocks.step(at(30 + seconds), 130.0) == timedelta(seconds=seconds)
    assert clocks.step(at(60 + seconds), 160.0) == NO_STEP


@given(st.lists(st.tuples(st.floats(0.0, 1000.0), st.floats(-0.4, 0.4)), max_size=50))
def test_time_that_passes_and_small_corrections_are_no_step(
    passing: list[tuple[float, float]],
) -> None:
    clocks = ClockSteps()
    steady = 0.0
    for seconds, noise in passing:
        steady += seconds
        assert clocks.step(at(steady + noise), steady) == NO_STEP
