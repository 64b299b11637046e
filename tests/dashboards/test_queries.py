"""Every query of every panel, mark and variable: it parses, and what it names exists."""

import re
from collections.abc import Iterator

import promql_parser
import pytest

from dashboards.boards import (
    DASHBOARDS,
    BoardQuery,
    annotation_queries,
    panels,
    queries,
    variable_queries,
)
from dashboards.panel import Dashboard
from tests.dashboards import dashboard_12239
from tests.dashboards.known import FAMILIES_KNOWN, LABELS, SCRAPED
from tests.dashboards.promql_reading import (
    RATE_INTERVAL,
    Selected,
    named_labels,
    selectors,
    substituted,
)

BOARD = {dashboard.board.uid: dashboard for dashboard in DASHBOARDS}
QUERIES = [*queries(), *annotation_queries()]
_LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+), (?P<label>\w+)\)")
_COUNTER_CALLS = {"rate", "increase", "irate", "changes", "resets"}


def read(question: BoardQuery) -> list[Selected]:
    return list(selectors(parsed(question.expr, BOARD[question.dashboard])))


def parsed(expr: str, dashboard: Dashboard) -> promql_parser.Expr:
    return promql_parser.parse(substituted(expr, dashboard))


def name(question: BoardQuery) -> str:
    return f"{question.dashboard}/{question.panel}"


@pytest.mark.parametrize("one", QUERIES, ids=name)
def test_an_expression_parses_and_names_families_that_exist(one: BoardQuery) -> None:
    named = {selected.name for selected in read(one)}

    assert named
    assert named - set(FAMILIES_KNOWN) == set()


@pytest.mark.parametrize("one", QUERIES, ids=name)
def test_a_selector_asks_for_labels_that_its_family_has(one: BoardQuery) -> None:
    for selected in read(one):
        assert selected.labels - FAMILIES_KNOWN[selected.name].labels - SCRAPED == set(), selected


@pytest.mark.parametrize("one", QUERIES, ids=name)
def test_aggregations_joins_and_legends_name_labels_that_exist(one: BoardQuery) -> None:
    in_joins = set(named_labels(parsed(one.expr, BOARD[one.dashboard])))

    assert in_joins - LABELS == set()
    assert set(_LEGEND.findall(one.legend)) - LABELS == set()


@pytest.mark.parametrize("one", QUERIES, ids=name)
def test_every_selector_is_of_the_chosen_clusters(one: BoardQuery) -> None:
    assert [selected for selected in read(one) if "cluster" not in selected.labels] == []


@pytest.mark.parametrize("one", QUERIES, ids=name)
def test_a_counter_is_a_rate_or_says_why_not(one: BoardQuery) -> None:
    counters = [each for each in read(one) if FAMILIES_KNOWN[each.name].counter]
    bare = [each for each in counters if not _COUNTER_CALLS & set(each.within)]

    assert bool(bare) == bool(one.whole), "a bare counter says why, and nothing else does"


@pytest.mark.parametrize("one", QUERIES, ids=name)
def test_a_rate_is_over_the_interval_that_fits_the_scrape(one: BoardQuery) -> None:
    for each in read(one):
        if {"rate", "increase"} & set(each.within):
            assert f"{each.window}s" == RATE_INTERVAL, "use $__rate_interval"


@pytest.mark.parametrize("one", QUERIES, ids=name)
def test_a_rate_is_taken_before_a_sum(one: BoardQuery) -> None:
    """A sum first would turn the restart of one exporter into a negative step of all."""
    for each in read(one):
        calls = [call for call in each.within if call in _COUNTER_CALLS]
        assert not calls or each.within[-1] in _COUNTER_CALLS, each


@pytest.mark.parametrize("one", list(variable_queries()), ids=name)
def test_a_variable_asks_for_a_label_that_its_families_have(one: BoardQuery) -> None:
    requested = _LABEL_VALUES.fullmatch(one.expr)
    assert requested
    selector = substituted(requested["selector"], BOARD[one.dashboard])
    families = list(_families(selector))

    assert families
    for family in families:
        assert requested["label"] in FAMILIES_KNOWN[family].labels | SCRAPED


def _families(selector: str) -> Iterator[str]:
    found = promql_parser.parse(selector)
    assert isinstance(found, promql_parser.VectorSelector)
    if found.name:
        yield found.name
    for matcher in found.matchers.matchers:
        if matcher.name == "__name__":
            yield from matcher.value.split("|")


def test_questions_of_one_dashboard_have_titles_of_their_own() -> None:
    titles = [(uid, panel.title) for uid, board in BOARD.items() for panel in panels(board)]

    assert len(titles) == len(set(titles))


@pytest.mark.parametrize("expr", [*dashboard_12239.PUBLISHED, *dashboard_12239.REPOSITORY])
def test_what_dashboard_12239_asks_is_on_our_page(expr: str) -> None:
    """`uuid` in its aggregations is no label of dcgm-exporter's either: they have `UUID`."""
    read_as = expr.replace("$", "")
    found = list(selectors(promql_parser.parse(read_as)))

    assert found
    for each in found:
        assert each.labels <= FAMILIES_KNOWN[each.name].labels | SCRAPED
    assert set(named_labels(promql_parser.parse(read_as))) - LABELS <= {"uuid"}


@pytest.mark.parametrize(("family", "label"), dashboard_12239.VARIABLES)
def test_the_variables_of_dashboard_12239_are_on_our_page(family: str, label: str) -> None:
    assert label in FAMILIES_KNOWN[family].labels | SCRAPED
