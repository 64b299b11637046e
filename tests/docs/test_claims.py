"""docs/claims.md explains each reason that `draguard why` may give, and no other."""

import re
from pathlib import Path
from typing import get_args

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


def test_the_layers_stand_in_their_order() -> None:
    named = [row[1].strip() for row in rows() if row[1].strip() in get_args(Layer)]

    assert named == list(get_args(Layer))
