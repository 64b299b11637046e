"""What a user may write into an incident's spec, and how it is said."""

import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.model.incident import IncidentSpec
from remediator.model.intent import (
    BY_LIMIT,
    FIELDS,
    KINDS,
    REASON_LIMIT,
    Intent,
    Kind,
    counts,
    in_words,
)

CRD = Path(__file__).parents[3] / "deploy" / "crds" / "deviceincidents.yaml"
END = datetime(2026, 7, 30, 16, tzinfo=UTC)


@cache
def schema(kind: Kind) -> dict[str, Any]:
    (version,) = yaml.safe_load(CRD.read_text(encoding="utf-8"))["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    found: dict[str, Any] = spec["properties"][FIELDS[kind]]
    return found


def accepts(field: dict[str, Any], text: str) -> bool:
    long = field.get("minLength", 0) <= len(text) <= field["maxLength"]
    return long and re.search(field["pattern"].replace("$", r"\Z"), text) is not None


@pytest.mark.parametrize(
    ("kind", "intent", "words"),
    [
        (
            "Hold",
            Intent(until=END, by="ana", reason="a run"),
            "until 2026-07-30T16:00:00Z by ana: ",
        ),
        ("Ignore", Intent(by="ana", reason="a run"), "ignore without end by ana: a run"),
        ("RepairConfirmed", Intent(by="ana", reason="a run"), "repair confirmed by ana: a run"),
        ("Hold", Intent(until=END, by="ana", reason="a\u202erun"), "ana: a\ufffdrun"),
    ],
)
def test_it_is_reported_in_one_line(kind: Kind, intent: Intent, words: str) -> None:
    assert words in in_words(kind, intent)
    assert in_words(kind, intent).isprintable()


def test_it_counts_until_its_end_and_without_one_for_good() -> None:
    ends = Intent(until=END, by="ana", reason="x")

    assert counts(ends, END.replace(minute=0, hour=15))
    assert not counts(ends, END)
    assert counts(Intent(by="ana", reason="x"), END.replace(year=2999))


def test_only_a_hold_must_have_an_end() -> None:
    needed = {kind: schema(kind)["required"] for kind in KINDS}

    assert needed == {
        "Hold": ["until", "by", "reason"],
        "Ignore": ["by", "reason"],
        "RepairConfirmed": ["by", "reason"],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_user_and_reason_are_one_line_of_bounded_length(kind: Kind) -> None:
    by, reason = (schema(kind)["properties"][name] for name in ("by", "reason"))
    assert (by["maxLength"], reason["maxLength"]) == (BY_LIMIT, REASON_LIMIT)
    for text in ("ana", "system:serviceaccount:ns:x", "https://idp/x#ana@example.org", "Ana Li"):
        assert accepts(by, text)
    assert accepts(reason, "a run; it ends at night")
    for text in ("", "a\nb", "a\x1b[2J", "a\x85b", "x" * 513):
        assert not accepts(by, text), text
        assert not accepts(reason, text), text
    assert not accepts(reason, "   ")


@pytest.mark.parametrize(
    "text",
    [
        "2026-07-30",
        "2026-07-30T18:00:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-07-30t18:00:00z",
        "2026-07-30T18:00:00+23:00",
        "4h",
        "forever",
    ],
)
def test_an_end_is_a_moment_that_every_reader_knows(text: str) -> None:
    assert not accepts(schema("Hold")["properties"]["until"], text)


@settings(deadline=None)
@given(
    st.sampled_from(KINDS),
    st.datetimes(datetime(2000, 1, 1), datetime(2999, 12, 31, 23, 59, 59)),  # noqa: DTZ001 - text
    st.sampled_from(["", ".5", ".123456789"]),
    st.sampled_from(["Z", "+00:00", "-00:00", "+05:30", "-12:00", "+14:59"]),
)
def test_every_end_that_the_crd_lets_through_can_be_read(
    kind: Kind, moment: datetime, fraction: str, zone: str
) -> None:
    text = f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}{zone}"
    assert accepts(schema(kind)["properties"]["until"], text)
    spec = {"node": "a", "uuid": "GPU-1", "fault": "gpu"}
    stated = {"until": text, "by": "ana", "reason": "x"}

    found = msgspec.convert({**spec, FIELDS[kind]: stated}, IncidentSpec).intents[kind]

    assert found.until is not None
    assert " until " in in_words(kind, found)
