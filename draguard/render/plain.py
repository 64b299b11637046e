"""Output blocks as plain text: for files and pipes, and where rich is not installed. Pure.

Nothing is folded, so that `grep` finds whole lines.
"""

from collections.abc import Iterable, Iterator, Sequence

from draguard.phrases import shown
from draguard.render.blocks import Block, Facts, Lines, Table, filled, words_of

_GAP = "  "


def plain(blocks: Iterable[Block]) -> str:
    """Return blocks as text, an empty line between them."""
    return "\n".join("".join(f"{line}\n" for line in _lines(block)) for block in filled(blocks))


def _lines(block: Block) -> Iterator[str]:
    if block.title:
        yield shown(block.title)
    match block:
        case Facts(pairs):
            filled_pairs = [(shown(name), words_of(value)) for name, value in pairs]
            yield from _aligned([pair for pair in filled_pairs if pair[1]])
        case Table(_, (), _, nothing):
            yield words_of(nothing)
        case Table(columns, rows):
            cells = [[words_of(cell) for cell in row] for row in rows]
            yield from _aligned([columns, *cells])
        case Lines(texts):
            yield from (words_of(text) for text in texts)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield _GAP.join(cells).rstrip()


def more_rows(before: Table, more: Table) -> str:
    """Return the rows of a table as they stand below another one that was printed."""
    cells = [[words_of(cell) for cell in row] for row in (*before.rows, *more.rows)]
    lines = list(_aligned([before.columns, *cells]))
    return "".join(f"{line}\n" for line in lines[len(lines) - len(more.rows) :])
