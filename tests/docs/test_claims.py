"""docs/claims.md explains each reason that `draguard why` may give, and each state of a claim."""

import re
from pathlib import Path
from typing import get_args

from allocation.explainer.claim_states import STATES
from allocation.layers.finding import Layer, WaitReason

PAGE = Path(__file__).parents[2] / "docs" / "claims.md"


NEVER_FIRST = {"ClassSelector", "OtherNode"}
"""Such devices are none of the candidates."""


def rows() -> list[list[str]]:
    _, _, after = PAGE.read_text(encoding="utf-8").partition("## Layers and reasons")
    table, _, _ = after.partition("\n## ")
    return [line.split("|") for line in table.splitlines() if line.startswith("| ")]


def test_each_reason_is_explained_and_no_other() -> None:
    explained = {name for row in rows() for name in re.findall(r"`(\w+)`", row[2])}
    # The type joins several lists of them.
    every = {name for part in get_args(WaitReason) for name in get_args(part)}

    assert explained == every - NEVER_FIRST


def test_the_event_that_is_shown_says_what_the_page_above_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown, _, after = text.partition("## With kubectl alone")
    page = re.search(r"reason +(\w+)\nwhy +(.*?)\nsince", shown, re.DOTALL)
    event = re.search(r"WaitsIn(\w+) .*explainer +(\w+): (.*?); ", after)

    assert page is not None
    assert event is not None
    assert event[1].lower() in shown.partition("waits at ")[2].splitlines()[0]
    assert (event[2], event[3]) == (page[1], " ".join(page[2].split()))


def test_each_state_is_explained_and_no_other() -> None:
    _, _, after = PAGE.read_text(encoding="utf-8").partition("| `state` | the claim |")
    explained = re.findall(r"^\| `(\w+)` \|", after.partition("\n## ")[0], re.MULTILINE)

    assert sorted(explained) == sorted(STATES)


def test_the_layers_stand_in_their_order() -> None:
    named = [row[1].strip() for row in rows() if row[1].strip() in get_args(Layer)]

    assert named == list(get_args(Layer))
