"""The tables of the documents are those of today."""

import shutil
from pathlib import Path

import pytest

from tools.generated_docs.documents import DOCUMENTS, FOLDER, text_of
from tools.generated_docs.table import WRITER, MarksError


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_has_the_tables_of_today(name: str) -> None:
    assert text_of(name) == (FOLDER / name).read_text(encoding="utf-8"), "stale: run `make docs`"


def test_no_other_document_claims_to_be_generated() -> None:
    files = FOLDER.rglob("*.md")
    marked = {
        path.name for path in files if f"begin, written by {WRITER} " in path.read_text("utf-8")
    }

    assert marked == set(DOCUMENTS)


def test_a_document_without_its_marks_is_named(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "docs"))
    (folder / "policy.md").write_text("# Policy\n", encoding="utf-8")

    with pytest.raises(MarksError, match=r"docs/policy\.md: it needs the lines <!-- shipped: "):
        text_of("policy.md", folder)
