"""Tables stand between their marks, and nothing else of a document changes."""

import pytest

from tools.generated_docs.table import MarksError, Tables, markdown, marks, with_tables

TABLES: Tables = {
    "first": lambda: [("a", "b"), ("1", "2|3")],
    "second": lambda: [("c",)],
}
FIRST, SECOND = marks("first"), marks("second")
STALE = f"before\n{FIRST[0]}stale\n{FIRST[1]}\nbetween\n{SECOND[0]}{SECOND[1]}after\n"


def test_a_table_has_a_head_and_its_cells_stay_cells() -> None:
    assert markdown([("a", "b"), ("1", "2|3")]) == "| a | b |\n|---|---|\n| 1 | 2\\|3 |\n"


def test_what_stands_outside_the_marks_stays() -> None:
    made = with_tables(STALE, TABLES)

    assert made.startswith(f"before\n{FIRST[0]}| a | b |\n")
    assert made.endswith(f"{FIRST[1]}\nbetween\n{SECOND[0]}| c |\n|---|\n{SECOND[1]}after\n")
    assert "stale" not in made
    assert with_tables(made, TABLES) == made


@pytest.mark.parametrize("mark", [*FIRST, *SECOND])
def test_a_document_without_a_mark_is_refused(mark: str) -> None:
    with pytest.raises(MarksError, match=f"it needs the lines {mark.strip()[:12]}"):
        with_tables(STALE.replace(mark, ""), TABLES)


def test_marks_of_no_table_are_refused() -> None:
    with pytest.raises(MarksError, match="no table is called third; there are first, second"):
        with_tables(STALE + "".join(marks("third")), TABLES)


def test_what_another_program_writes_is_left_alone() -> None:
    other = "".join(marks("third", "`make replay`"))

    assert with_tables(STALE + other, TABLES).endswith(other)
