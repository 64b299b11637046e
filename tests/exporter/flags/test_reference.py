"""The generated tables of docs/exporter.md."""

import pytest

from exporter.flags.reference import MarksError, with_tables
from tests.exporter.running import ROOT


def test_the_document_has_the_tables_of_today() -> None:
    document = (ROOT / "docs" / "exporter.md").read_text(encoding="utf-8")
    assert with_tables(document) == document, "stale: run make docs"


def test_a_document_without_the_marks_is_refused() -> None:
    with pytest.raises(MarksError, match="settings"):
        with_tables("no marks here")
