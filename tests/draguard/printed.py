"""What a command printed, with what differs from run to run masked, against a golden."""

import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draguard.__main__ import main
from draguard.render.formats import API

GOLDEN = Path(__file__).parents[1] / "golden" / "cli"
_MASKS = (
    (re.compile(r"https://127\.0\.0\.1:\d+"), "https://<server>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"), "<time>"),
    (re.compile(r"\b\d+[smhd]\b(?! --)"), "<age>"),
    (re.compile(r"silent for more than <age>"), "silent for more than 150 s"),
    (re.compile(r'"(server|resourceVersion|uid)": "[^"]*"'), r'"\1": "<any>"'),
    (re.compile(re.escape(version("draguard"))), "<version>"),
    (re.compile(r"  +"), "  "),
)


def masked(text: str) -> str:
    """Ages are of different widths, so columns are told by two spaces."""
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, ends: int = 0) -> str:
    """Run a command and return what it printed; fails when it ends otherwise."""
    capsys.readouterr()
    status = main(arguments)
    stated = capsys.readouterr()
    assert status == ends, stated
    return stated.out if ends != 2 else stated.err


def items(stated: str, kind: str) -> list[dict[str, Any]]:
    """Return the items of a list that a command printed as JSON."""
    found = msgspec.json.decode(stated, type=dict[str, Any])
    assert (found["apiVersion"], found["kind"]) == (API, kind)
    return found["items"]


def matches(name: str, text: str) -> None:
    """Compare with a golden; UPDATE_GOLDEN=1 rewrites it."""
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
