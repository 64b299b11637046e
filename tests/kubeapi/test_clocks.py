"""By how much the wall clock was set, and how far it is from the API server's."""

from datetime import timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeapi.client import Client
from kubeapi.clocks import ClockSteps, ServerClock
from tests.exporter.worlds import at
from tests.lab.cluster import Cluster

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


class Machine:
    """A wall clock that can be set, and one that cannot."""

    def __init__(self) -> None:
        self.steady, self.set_by = 100.0, 0.0
        self.server = ServerClock(lambda: at(self.steady + self.set_by), lambda: self.steady)

    def answer(self, true_seconds: float) -> None:
        self.server.dated(format_datetime(at(true_seconds), usegmt=True))

    @property
    def ahead(self) -> float:
        return self.server.ahead().total_seconds()


def test_before_the_first_answer_only_steps_are_seen() -> None:
    one = Machine()
    assert (one.ahead, one.server.known) == (0.0, False)

    one.set_by = 660.0
    assert one.ahead == 660.0


@pytest.mark.parametrize("off", [0.0, 40.0, -660.0])
def test_an_answer_tells_how_far_the_clock_is_off(off: float) -> None:
    one = Machine()
    one.set_by = off
    one.answer(true_seconds=100.0)

    assert one.server.known
    assert abs(one.ahead - off) <= 1.0


def test_a_clock_that_is_set_is_seen_before_the_next_answer_and_one_that_passes_is_not() -> None:
    one = Machine()
    one.answer(true_seconds=100.0)
    one.steady += 5000.0
    assert abs(one.ahead) <= 1.0

    one.set_by = -45.0
    assert abs(one.ahead + 45.0) <= 1.0


@pytest.mark.parametrize("header", [None, "", "yesterday", "Sun, 99 Nov 2026 00:00:00 GMT"])
def test_a_header_that_is_no_date_is_none(header: str | None) -> None:
    one = Machine()
    one.server.dated(header)

    assert (one.ahead, one.server.known) == (0.0, False)


def test_every_answer_of_a_real_api_server_is_dated(cluster: Cluster) -> None:
    one = ServerClock()
    client = Client(cluster.plane.endpoint(), timeout=60.0, server_clock=one)
    sibling = client.sibling()

    sibling.get("/version")
    sibling.close()
    client.close()

    assert one.known
    assert abs(one.ahead()) < timedelta(seconds=30)
