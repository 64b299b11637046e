"""What a person may write into an annotation, and what cannot be read."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.objects.answers import KINDS, Answer, Kind, Unreadable, in_words, read, said


def test_an_answer_says_until_when_who_and_why() -> None:
    answer = read("hold", "2026-07-30T18:00:00+02:00; by=ana; why=a run; it ends at night")

    assert answer == Answer(
        kind="hold",
        until=datetime(2026, 7, 30, 16, tzinfo=UTC),
        by="ana",
        why="a run; it ends at night",
    )
    assert isinstance(answer, Answer)
    assert in_words(answer) == "hold until 2026-07-30T16:00:00Z by ana: a run; it ends at night"


def test_an_answer_may_have_no_end() -> None:
    answer = read("ignore", " forever;by=ana;why=a test board ")

    assert isinstance(answer, Answer)
    assert answer.until is None
    assert in_words(answer) == "ignore forever by ana: a test board"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("", "not of the form"),
        ("forever", "not of the form"),
        ("forever; by=ana", "not of the form"),
        ("forever; why=x; by=ana", "not of the form"),
        ("forever; by=; why=x", "by= is empty"),
        ("forever; by=ana; why= ", "why= is empty"),
        ("forever; by=ana; why=a\x07b", "not printable"),
        ("4h; by=ana; why=x", "'4h' is no time"),
        ("2026-07-30; by=ana; why=x", "is no time"),
        ("2026-07-30T18:00:00; by=ana; why=x", "is no time"),
        ("2026-13-30T18:00:00Z; by=ana; why=x", "is no time"),
        ("0001-01-01T00:00:00+23:59; by=ana; why=x", "is no time"),
        ("Forever; by=ana; why=x", "is no time"),
        ("forever; by=ana; why=" + "x" * 600, "longer than 512"),
    ],
)
def test_what_cannot_be_read_says_what_to_write(value: str, what: str) -> None:
    answer = read("hold", value)

    assert isinstance(answer, Unreadable)
    assert answer.error.startswith("annotation draguard.dev/hold changes nothing: ")
    assert what in answer.error


def test_only_our_annotations_are_answers() -> None:
    notes = {"draguard.dev/ignore": "a", "draguard.dev/other": "b", "hold": "c"}

    assert said(notes) == {"ignore": "a"}


@settings(deadline=None)
@given(st.sampled_from(KINDS), st.text(max_size=600))
def test_no_text_breaks_the_reader(kind: Kind, value: str) -> None:
    assert read(kind, value).kind == kind
