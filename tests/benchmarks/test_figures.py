"""Percentiles, ratios and the table, as the reader will see them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import Figure, Section, milliseconds, percentile, ratios
from benchmarks.table import row, table

HUNDRED = [float(number) for number in range(100, 0, -1)]


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        (HUNDRED, 0.5, 50.0),
        (HUNDRED, 0.99, 99.0),
        (HUNDRED, 1.0, 100.0),
        ([3.0, 1.0, 2.0], 0.5, 2.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0),
        ([7.0], 0.99, 7.0),
        ([1.0] * 29 + [9.0], 0.99, 9.0),
    ],
)
def test_a_percentile_is_the_nearest_rank(
    values: list[float], share: float, expected: float
) -> None:
    assert percentile(values, share) == expected


@given(
    st.lists(st.floats(allow_nan=False), min_size=1),
    st.floats(min_value=0.0, max_value=1.0),
)
def test_a_percentile_was_measured_and_has_its_share_at_or_below_it(
    values: list[float], share: float
) -> None:
    found = percentile(values, share)

    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9 * len(values)


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="of nothing"):
        percentile([], 0.5)


def test_a_ratio_is_taken_pair_by_pair() -> None:
    assert ratios([10.0, 30.0], [5.0, 10.0]) == (2.0, 3.0)
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0], [1.0, 2.0])


def test_a_figure_measured_often_shows_its_spread_and_one_measured_once_a_number() -> None:
    often = Figure(what="taint", unit="ms", values=milliseconds([0.003, 0.001]), budget="p99 150")
    once = Figure(what="memory", unit="MB", values=(1234.56,), part=True)
    never = Figure(what="lost", unit="ms", values=())

    assert row(often) == ("  taint", "2", "1.0", "1.0", "3.0", "3.0", "ms", "p99 150")
    assert row(once) == ("    memory", "1", "", "1,234.6", "", "", "MB", "")
    assert row(never)[:4] == ("  lost", "0", "", "not measured")


def test_the_table_is_aligned_and_its_notes_follow() -> None:
    taint = Figure(what="taint", unit="ms", values=(1.0, 22.0), budget="p99 150")
    scrape = Figure(what="a longer name", unit="x", values=(3.0,), digits=2)

    shown = table(
        [Section("a title that is longer", (taint,)), Section("b", (scrape,), ("mind this",))]
    )

    assert (
        shown
        == """\
figure           n  min   p50   p99   max  unit  budget
--------------------------------------------------------
a title that is longer
  taint          2  1.0   1.0  22.0  22.0  ms    p99 150
b
  a longer name  1       3.00              x

* mind this"""
    )
