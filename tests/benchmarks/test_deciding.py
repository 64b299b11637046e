"""The benchmark of one decision measures a decision that asks for an eviction."""

from benchmarks.deciding import Ground, measure
from tests.remediator.builders import at


def test_what_it_measures_asks_for_an_eviction() -> None:
    assert Ground(20, at(0)).decide() > 0


def test_each_number_of_closed_incidents_has_a_figure_and_all_but_the_first_a_ratio() -> None:
    section = measure(2, (0, 5, 10))

    assert [(figure.unit, len(figure.values)) for figure in section.figures] == [
        ("ms", 2),
        ("ms", 2),
        ("x", 2),
        ("ms", 2),
        ("x", 2),
    ]
