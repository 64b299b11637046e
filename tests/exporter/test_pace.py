"""How often a report may be written."""

from exporter.reporter import next_slot


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
