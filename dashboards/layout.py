"""Where panels go: side by side as they fit, a row's heading above them. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dashboards.panel import GRID, Panel, Row


class Place(NamedTuple):
    """In columns and in units of 30 pixels."""

    x: int
    y: int
    width: int
    height: int


def placed(rows: Sequence[Row]) -> Iterator[tuple[Row | Panel, Place]]:
    """Return each row's heading and each panel with its place, from the top.

    Raises:
        ValueError: a panel is wider than a dashboard.

    """
    y = 0
    for row in rows:
        yield row, Place(0, y, GRID, 1)
        y += 1
        for line in _lines(row.panels):
            x = 0
            for panel in line:
                yield panel, Place(x, y, panel.width, panel.height)
                x += panel.width
            y += max(panel.height for panel in line)


def _lines(panels: Sequence[Panel]) -> Iterator[list[Panel]]:
    line: list[Panel] = []
    for panel in panels:
        if not 0 < panel.width <= GRID:
            raise ValueError(f"{panel.title!r} is {panel.width} wide; a dashboard has {GRID}")
        if line and sum(member.width for member in line) + panel.width > GRID:
            yield line
            line = []
        line.append(panel)
    if line:
        yield line
