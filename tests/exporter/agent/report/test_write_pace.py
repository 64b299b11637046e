"""How often a report may be written, and must be."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.report.write_pace import Pace, next_slot

QUARTER = 900.0


def test_two_writes_follow_each_other_at_once() -> None:
    assert next_slot([]) == 0.0
    assert next_slot([10.0]) == 0.0


def test_the_third_comes_within_a_second() -> None:
    assert next_slot([10.0, 10.1]) == 11.0


def test_a_storm_is_one_write_a_second() -> None:
    begins = [0.0]
    for _ in range(30):
        begins.append(max(begins[-1], next_slot(begins[-3:])))

    assert all(later - earlier >= 1.0 for earlier, later in zip(begins, begins[2:], strict=False))
    assert 28 <= begins[-1] <= 31


def written(changes: Sequence[tuple[float, object]], interval: float = QUARTER) -> list[float]:
    """Return when reports are written, by a writer that follows the pace to the letter."""
    pace = Pace(interval)
    begins: list[float] = []
    free = 0.0
    for moment, key in changes:
        now = max(moment, free)
        if pace.wants(key, now):
            begins.append(now)
            free = pace.accepted(key, now)
    return begins


def test_a_quiet_node_writes_once_in_a_quarter_of_an_hour() -> None:
    day = [(100.0 + 30.0 * place, "healthy") for place in range(24 * 120)]
    begins = written(day)
    assert begins == [100.0 + QUARTER * place for place in range(96)]


def test_a_change_is_written_at_once_and_starts_the_quarter_anew() -> None:
    changes = [(30.0 * place, "healthy" if place < 10 else "sick") for place in range(45)]
    assert written(changes) == [0.0, 300.0, 1200.0]


def test_after_a_refused_write_the_newest_report_is_written_changed_or_not() -> None:
    pace = Pace(QUARTER)
    pace.accepted("healthy", 10.0)
    assert not pace.wants("healthy", 20.0)
    pace.refused()
    assert pace.wants("healthy", 20.0)


@given(st.lists(st.floats(0.0, 5.0), max_size=80))
def test_whatever_comes_there_are_no_more_than_three_writes_in_three_seconds(
    pauses: list[float],
) -> None:
    moment = 0.0
    changes: list[tuple[float, object]] = []
    for place, pause in enumerate(pauses):
        moment += pause
        changes.append((moment, place))
    begins = written(changes)
    for start in begins:
        assert sum(start <= begin < start + 1.0 for begin in begins) <= 2
        assert sum(start <= begin < start + 3.0 for begin in begins) <= 3
