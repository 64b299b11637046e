"""Rows into a Markdown table, and tables into their places in a document. Pure.

A place is two lines of a document: `<!-- NAME: begin, written by ... -->` and `<!-- NAME: end -->`.
Everything outside these places stays as it is.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

Rows = Iterable[Sequence[str]]
"""Cells; the first row is the head."""
Tables = Mapping[str, Callable[[], Rows]]
"""By the name in the marks."""
WRITER = "`make docs`"
_BEGIN = re.compile(rf"^<!-- ([\w-]+): begin, written by {WRITER} -->$", re.MULTILINE)


class MarksError(Exception):
    """The marks of a document and the tables that it should have do not match."""


def marks(name: str, writer: str = WRITER) -> tuple[str, str]:
    """Return the line before and the line after what is generated."""
    return f"<!-- {name}: begin, written by {writer} -->\n", f"<!-- {name}: end -->\n"


def with_tables(document: str, tables: Tables) -> str:
    """Return a document with all its tables as they must be. Raises MarksError."""
    for name in _BEGIN.findall(document):
        if name not in tables:
            raise MarksError(f"no table is called {name}; there are {', '.join(tables)}")
    for name, rows in tables.items():
        document = replaced(document, marks(name), markdown(rows()))
    return document


def replaced(document: str, between: tuple[str, str], text: str) -> str:
    """Return a document with another text between two marks. Raises MarksError."""
    begin, end = between
    before, found, rest = document.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise MarksError(f"it needs the lines {begin.strip()} and {end.strip()}, in this order")
    return f"{before}{begin}{text}{end}{after}"


def markdown(rows: Rows) -> str:
    """Return a table; it ends its last line."""
    head, *body = rows
    return "".join((_line(head), "|" + "---|" * len(head) + "\n", *map(_line, body)))


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"
