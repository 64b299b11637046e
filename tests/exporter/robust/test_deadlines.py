"""When to look at the calls of a vendor process: rarely, and never too late."""

from hypothesis import given
from hypothesis import strategies as st

from exporter.model.readings import CallNote
from exporter.sensor.supervisor import call_notes
from exporter.sensor.supervisor.deadlines import Deadlines

LIMITS = Deadlines(call=10.0, start=60.0)
ALLOWED = {
    call_notes.SAMPLING: 10.0,
    call_notes.EVENTS: 10.0 + call_notes.WAIT_SECONDS,
    call_notes.SYSTEM_EVENTS: 10.0 + call_notes.WAIT_SECONDS,
}


def notes(slot: int, seconds: float, gpu: int | None = 0) -> tuple[CallNote | None, ...]:
    found: list[CallNote | None] = [None] * call_notes.SLOTS
    found[slot] = CallNote(gpu, "nvmlSomething", seconds)
    return tuple(found)


IDLE = (None,) * call_notes.SLOTS


@given(st.sampled_from(list(ALLOWED)), st.floats(0, 10))
def test_a_call_that_begins_at_any_time_after_a_look_is_named_within_a_second(
    slot: int, begins: float
) -> None:
    now, end = 0.0, begins + ALLOWED[slot] + 1.0
    while now <= end:
        seen = notes(slot, now - begins) if now >= begins else IDLE
        if LIMITS.overdue(seen, first=False):
            assert now - begins > ALLOWED[slot]
            return
        now += LIMITS.next_look(seen, first=False)
    raise AssertionError(f"not named until {now}")


def test_while_nothing_is_called_one_look_in_a_deadline_is_enough() -> None:
    assert LIMITS.next_look(IDLE, first=False) > 9.9


def test_opening_the_library_may_take_longer_than_a_call() -> None:
    opening = notes(call_notes.SAMPLING, 30.0, gpu=None)
    assert LIMITS.overdue(opening, first=True) is None
    assert LIMITS.overdue(opening, first=False) is not None
    assert LIMITS.overdue(notes(call_notes.SAMPLING, 30.0, gpu=1), first=True) is not None


def test_a_wait_for_events_may_take_its_own_time_too() -> None:
    assert LIMITS.overdue(
        notes(call_notes.EVENTS, 10.0 + call_notes.WAIT_SECONDS), first=False
    ) is (None)
    assert LIMITS.overdue(notes(call_notes.SYSTEM_EVENTS, 20.0), first=False) is not None
