"""What documents show is what there is: terminal output, pictures, and the goldens behind them."""

import re
from pathlib import Path

import pytest

from tests.docs.fenced import DOCUMENTS, ROOT
from tests.draguard.printed import GOLDEN
from tests.draguard.test_cli_documents import SHOWN, stable

LEFT_OUT = "..."
"""A line of its own, where a document leaves out lines of the output."""
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LOOKED_AT = {
    "status": "status",
    "incidents": "incidents",
    "incidents gpu-b0000000-1": "incident-of-a-lost-gpu",
    "incidents gpu-c0000000-2": "incident-of-a-slice",
    "plan --node node-a": "plan-of-a-node",
    "why notebook": "why-a-pod-that-waits",
}
"""Commands that documents show, and their goldens."""
SHORT = re.compile(r"\bgpu-(\w{8})(?:-0{4}){3}-0{12}-")
EXCERPTS = [
    (document, match["command"], match["output"])
    for document in DOCUMENTS
    for match in SHOWN.finditer(document.read_text(encoding="utf-8"))
]


def pieces(output: str) -> list[str]:
    """Return what stands between the lines that say that something is left out."""
    found = re.split(rf"^{re.escape(LEFT_OUT)}\n", output, flags=re.MULTILINE)
    return [stable(text).strip() for text in found if text.strip()]


def missing(parts: list[str], whole: str) -> list[str]:
    """Return the pieces that do not follow one another in the whole."""
    lacking: list[str] = []
    at = 0
    for part in parts:
        found = whole.find(part, at)
        if found < 0:
            lacking.append(part)
        else:
            at = found + len(part)
    return lacking


def test_the_readme_shows_the_fleet_one_case_and_a_pod_that_waits() -> None:
    shows = {command for document, command, _ in EXCERPTS if document.name == "README.md"}

    assert shows == {"status", "incidents gpu-b0000000-1", "why notebook"}


@pytest.mark.parametrize(
    ("document", "command", "output"),
    [
        pytest.param(*excerpt, id=f"{excerpt[0].name}: {excerpt[1]}")
        for excerpt in EXCERPTS
        if excerpt[1] in LOOKED_AT
    ],
)
def test_what_a_document_shows_of_a_command_is_its_golden(
    document: Path, command: str, output: str
) -> None:
    golden = (GOLDEN / f"{LOOKED_AT[command]}.txt").read_text(encoding="utf-8")
    whole = SHORT.sub(r"gpu-\1-", stable(golden)).replace("https://<server>", "")

    parts = [SHORT.sub(r"gpu-\1-", piece) for piece in pieces(output)]
    stated = [re.sub(r"https://[\w.]+:\d+", "", part) for part in parts]
    assert missing(stated, whole) == [], document.name


def test_every_picture_is_there_and_says_what_it_shows() -> None:
    shown_in = [
        (page, text, page.parent / path)
        for page in PAGES
        for text, path in PICTURE.findall(page.read_text(encoding="utf-8"))
    ]

    assert shown_in
    assert [str(path) for _, _, path in shown_in if not path.is_file()] == []
    assert [page.name for page, text, _ in shown_in if len(text) < 10] == []


def test_a_picture_is_a_picture_and_no_burden() -> None:
    for path in (ROOT / "docs" / "pictures").glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG"), path.name
        assert path.stat().st_size < 1 << 20, path.name
