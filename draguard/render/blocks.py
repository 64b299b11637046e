"""The output of a command as values, before it is printed: facts, tables, lines. Pure."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from draguard.phrases import shown
from draguard.program_name import spelled

Tone = Literal["", "good", "warn", "bad", "dim", "strong"]
"""What a text means, for terminals with colours; no fact is in the colour alone."""


class Cell(msgspec.Struct, frozen=True):
    """A text; `short` replaces it in tables that are wider than the terminal; "": nothing does."""

    text: str
    tone: Tone = ""
    short: str = ""


Text = Cell | str


def leaf(*paths: str) -> Cell:
    """Return names such as DRIVER/POOL/DEVICE; narrow tables show only their last part."""
    return Cell(", ".join(paths), short=", ".join(path.rpartition("/")[2] for path in paths))


class Facts(msgspec.Struct, frozen=True):
    """Names and values, one pair a line; a pair without a value is left out."""

    pairs: tuple[tuple[str, Text], ...]
    title: str = ""


class Table(msgspec.Struct, frozen=True):
    """`nothing` is printed in place of a table without rows; "" leaves it out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    title: str = ""
    nothing: str = ""


class Lines(msgspec.Struct, frozen=True):
    """Sentences, one a line; without any, the title is left out, too."""

    texts: tuple[Text, ...]
    title: str = ""


Block = Facts | Table | Lines


def text_of(text: Text) -> str:
    return text.text if isinstance(text, Cell) else text


def words_of(text: Text) -> str:
    """Return a text as it is printed: nothing in it is obeyed, and commands can be pasted."""
    return spelled(shown(text_of(text)))


def tone_of(text: Text) -> Tone:
    return text.tone if isinstance(text, Cell) else ""


def shortened(table: Table) -> Table:
    """Return a table with its short texts."""
    rows = tuple(
        tuple(
            Cell(text.short, text.tone) if isinstance(text, Cell) and text.short else text
            for text in row
        )
        for row in table.rows
    )
    return msgspec.structs.replace(table, rows=rows)


def filled(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return the blocks that have a content."""

    def has_content(block: Block) -> bool:
        match block:
            case Facts(pairs):
                return any(text_of(value) for _, value in pairs)
            case Table(_, rows, _, nothing):
                return bool(rows or nothing)
            case Lines(texts):
                return bool(texts)

    return tuple(block for block in blocks if has_content(block))
