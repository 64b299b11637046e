"""Output blocks on a terminal: the only module of the commands that uses rich.

Colours, and long cells folded at its width; no pager. Nothing that an object holds is obeyed.
"""

from collections.abc import Iterable, Iterator

from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text as Styled

from draguard.phrases import shown
from draguard.render.blocks import (
    Block,
    Facts,
    Lines,
    Table,
    Text,
    Tone,
    filled,
    shortened,
    text_of,
    tone_of,
    words_of,
)

_STYLES: dict[Tone, str] = {
    "": "",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
    "dim": "dim",
    "strong": "bold",
}
_UNBOUNDED = 100_000
"""Columns in which nothing is folded."""
_NAME_WIDTH = 24
"""Characters up to which a row's first cell is not folded."""


def show(blocks: Iterable[Block]) -> None:
    """Print blocks on the terminal that stdout is, an empty line between them."""
    console = Console(highlight=False, emoji=False)
    for number, block in enumerate(filled(blocks)):
        if number:
            console.print()
        if block.title:
            console.print(Styled(shown(block.title), style=_STYLES["strong"]))
        fitting = block
        if isinstance(block, Table):
            unbounded = console.options.update(width=_UNBOUNDED)
            natural = console.measure(_grid(block.columns, block.rows), options=unbounded).maximum
            fitting = shortened(block) if natural > console.width else block
        for renderable in _renderables(fitting):
            console.print(renderable)


def _renderables(block: Block) -> Iterator[RenderableType]:
    match block:
        case Facts(pairs):
            grid = Grid.grid(padding=(0, 2))
            grid.add_column(no_wrap=True, style=_STYLES["dim"])
            grid.add_column(overflow="fold")
            for name, value in pairs:
                if text_of(value):
                    grid.add_row(Styled(shown(name)), _styled(value))
            yield grid
        case Table(_, (), _, nothing):
            yield Styled(words_of(nothing))
        case Table(columns, rows):
            yield _grid(columns, rows)
        case Lines(texts):
            yield from map(_styled, texts)


def _grid(columns: tuple[str, ...], rows: tuple[tuple[Text, ...], ...]) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_STYLES["dim"])
    for index, name in enumerate(columns):
        longest = max((len(text_of(row[index])) for row in rows), default=0)
        # The name of the row's object stays whole, to be copied.
        whole = index == 0 and longest <= _NAME_WIDTH
        grid.add_column(Styled(name), overflow="fold", no_wrap=whole)
    for row in rows:
        grid.add_row(*map(_styled, row))
    return grid


def _styled(text: Text) -> Styled:
    return Styled(words_of(text), style=_STYLES[tone_of(text)])
