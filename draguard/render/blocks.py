"""What a command has to say, before anybody draws it: facts, tables, lines. Values only. Pure."""

from collections.abc import Iterable
from typing import Literal

import msgspec

Tone = Literal["", "good", "warn", "bad", "dim", "strong"]
"""What a text means, for terminals with colours; nothing is told by colour alone."""


class Cell(msgspec.Struct, frozen=True):
    """`short` stands for the text where a table would be wider than the terminal; "": none."""

    text: str
    tone: Tone = ""
    short: str = ""


Text = Cell | str


def leaf(*paths: str) -> Cell:
    """Return names such as DRIVER/POOL/DEVICE, of which the last part stands in narrow tables."""
    return Cell(", ".join(paths), short=", ".join(one.rpartition("/")[2] for one in paths))


class Facts(msgspec.Struct, frozen=True):
    """Names and values beneath each other; a pair without a value is left out."""

    pairs: tuple[tuple[str, Text], ...]
    title: str = ""


class Table(msgspec.Struct, frozen=True):
    """`nothing` is said in place of a table without rows; "" leaves it out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    title: str = ""
    nothing: str = ""


class Lines(msgspec.Struct, frozen=True):
    """Sentences, one on a line; none leaves them out, with their title."""

    texts: tuple[Text, ...]
    title: str = ""


Block = Facts | Table | Lines


def text_of(one: Text) -> str:
    return one.text if isinstance(one, Cell) else one


def tone_of(one: Text) -> Tone:
    return one.tone if isinstance(one, Cell) else ""


def shortened(table: Table) -> Table:
    """Return a table with its short texts."""
    rows = tuple(tuple(map(_short, row)) for row in table.rows)
    return msgspec.structs.replace(table, rows=rows)


def _short(one: Text) -> Text:
    return Cell(one.short, one.tone) if isinstance(one, Cell) and one.short else one


def filled(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return the blocks that say something."""
    return tuple(one for one in blocks if _says(one))


def _says(one: Block) -> bool:
    match one:
        case Facts(pairs):
            return any(text_of(value) for _, value in pairs)
        case Table(_, rows, _, nothing):
            return bool(rows or nothing)
        case Lines(texts):
            return bool(texts)
