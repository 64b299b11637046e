"""By how much the wall clock was set, and how far it is from the API server's."""

from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import format_datetime
from time import CLOCK_BOOTTIME, clock_gettime, sleep

import pytest

from kubeapi import clock
from kubeapi.client import Client
from kubeapi.clock_offset import ServerClock
from tests.exporter.worlds import at
from tests.lab.cluster import Cluster

SOON = timedelta(seconds=60)


def boot_time(now: Callable[[], datetime] = clock.now) -> datetime:
    """Ask until nothing came between the looks at the two clocks."""
    while (found := clock.boot_time(now)) is None:
        pass
    return found


def test_the_boot_time_moves_with_the_wall_clock_and_only_with_it() -> None:
    begun, later = boot_time(lambda: at(0)), boot_time(lambda: at(-3600))
    assert abs(begun - later - timedelta(hours=1)) < SOON
    up = timedelta(seconds=clock_gettime(CLOCK_BOOTTIME))
    assert abs(clock.now() - boot_time() - up) < SOON


def test_a_pause_between_the_two_clocks_gives_no_boot_time() -> None:
    def late() -> datetime:
        sleep(0.15)
        return at(0)

    assert clock.boot_time(late) is None


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
