"""The API server's time, by the Date of its answers and our monotonic clock."""

from datetime import UTC, datetime, timedelta

import pytest

from kubeapi.client import Client
from kubeapi.clock_offset import ServerClock
from tests.kubeapi import hostile
from tests.kubeapi.hostile import Hostile

DATE = "Mon, 05 Jan 2026 12:00:00 GMT"
THEN = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


class Ticks:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def test_it_goes_on_from_the_last_date_that_was_read() -> None:
    clock = ServerClock(steady=(ticks := Ticks()))
    assert clock.now() is None
    clock.dated(DATE)
    ticks.now += 90
    assert clock.now() == THEN + timedelta(seconds=90.5)  # the header leaves out half a second


@pytest.mark.parametrize("date", [None, "", "yesterday", "\x00", "Mon, 05 Jan 2026 12:00:00"])
def test_what_is_no_date_changes_nothing(date: str | None) -> None:
    clock = ServerClock(steady=Ticks())
    clock.dated(DATE)
    clock.dated(date)
    assert clock.now() == THEN + timedelta(seconds=0.5)


def test_every_answer_tells_it_to_a_client_and_its_siblings() -> None:
    with Hostile([hostile.body(b"{}", headers=f"date: {DATE}\r\n")]) as server:
        client = Client(server.endpoint, timeout=60.0)
        sibling = client.sibling()
        sibling.get("/x")
        reported = client.server_clock.now()
        client.close()
        sibling.close()
    assert reported is not None
    assert timedelta() <= reported - THEN < timedelta(minutes=5)
