"""Kubernetes quantities as whole numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.quantity import whole

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("80Gi", 80 * GIB),
        ("81559Mi", 81559 << 20),
        ("0", 0),
        ("42949672960", 40 * GIB),
        ("1.5Ki", 1536),
        (".5Ki", 512),
        ("5.", 5),
        ("+3", 3),
        ("1k", 1000),
        ("1E", 10**18),
        ("1E3", 1000),
        ("12e-1", 2),
        ("100m", 1),
        ("2000m", 2),
        ("1n", 1),
        (7, 7),
    ],
)
def test_every_suffix_of_the_grammar_is_read_and_rounded_up(text: str | int, value: int) -> None:
    assert whole(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "Gi", "-1", "1 Gi", "1ki", "1gi", "0x10", "1e", "1e999", "9E3E", "8Ei", "NaN", None],
)
def test_what_is_no_amount_is_unknown_and_never_zero(text: str | None) -> None:
    assert whole(text) is None


@given(st.integers(0, 2**40), st.sampled_from(["", "Ki", "Mi", "k", "M"]))
def test_whole_numbers_come_back(number: int, suffix: str) -> None:
    scale = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "k": 1000, "M": 10**6}[suffix]
    assert whole(f"{number}{suffix}") == number * scale


@given(st.text(max_size=80) | st.floats() | st.text("0123456789.eEKMGi+-", max_size=90))
def test_any_text_is_an_amount_or_unknown(text: str | float) -> None:
    found = whole(text)
    assert found is None or 0 <= found < 2**63
