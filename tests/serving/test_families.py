"""Foreign text on the page: nothing breaks it, and what was told apart stays told apart."""

from collections.abc import Callable, Iterable
from typing import cast

from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from remediator.controller.metrics import Metrics
from serving.families import LONGEST, value

_openmetrics_families = cast(
    "Callable[[str], Iterable[Metric]]",
    openmetrics.text_string_to_metric_families,  # pyright: ignore[reportUnknownMemberType] - untyped
)
ANYTHING = st.text(st.characters(exclude_categories=()), max_size=400)
HOSTILE = (
    'a"b',
    "a\nb",
    "a\\nb",
    "a\\",
    "{node='x'}",
    "<script>alert(1)</script>",
    "\x00",
    "\ud800",
    "\r\n",
    "\u2028",
    "é中🎆",
    " ",
    "x" * 4096,
)


def shown(text: str) -> list[str]:
    """Return the value as Prometheus' two formats give it back."""
    metrics = Metrics()
    metrics.set_cluster({"agent_stale": {(value(text),): 1.0}})
    readings = (
        text_string_to_metric_families(metrics.page(openmetrics=False).decode()),
        _openmetrics_families(metrics.page(openmetrics=True).decode()),
    )
    return [
        sample.labels["node"]
        for families in readings
        for family in families
        for sample in family.samples
        if sample.name == "draguard_agent_stale"
    ]


def test_hostile_text_comes_back_from_both_pages_as_it_was_written() -> None:
    for text in HOSTILE:
        assert shown(text) == [value(text), value(text)]


@settings(deadline=None)
@given(ANYTHING)
@example("x" * 4096)
def test_a_value_is_bounded_and_is_utf_8_that_prometheus_reads(text: str) -> None:
    made = value(text)

    assert len(made) <= LONGEST
    assert "\x00" not in made
    assert made.encode().decode() == made


@settings(deadline=None)
@given(ANYTHING, ANYTHING)
@example("x" * 4096 + "a", "x" * 4096 + "b")
@example("\x00", "\x01")
def test_different_texts_have_different_values(one: str, other: str) -> None:
    assert (value(one) == value(other)) == (one == other)


def test_a_name_of_kubernetes_and_words_of_people_are_shown_as_they_are() -> None:
    for text in ("n" * 253, 'a person\'s "word"\n<b>', "Überlast", ""):
        assert value(text) == text
