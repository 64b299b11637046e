"""Figures into lines of plain aligned text. Pure."""

from collections.abc import Iterable, Sequence

from benchmarks.figures import Figure, Section, percentile

HEADER = ("figure", "n", "min", "p50", "p99", "max", "unit", "budget")
_TEXT_COLUMNS = {0, 6, 7}


def table(sections: Iterable[Section]) -> str:
    """Lay out all sections as one table, and below it their notes."""
    found = list(sections)
    rows: list[Sequence[str]] = [HEADER]
    for section in found:
        rows.append((section.title, *[""] * (len(HEADER) - 1)))
        rows += [row(figure) for figure in section.figures]
    # A title may run on over the empty cells beside it.
    counted = [cells for cells in rows if any(cells[1:])]
    widths = [max(len(cells[column]) for cells in counted) for column in range(len(HEADER))]
    lines: list[str] = []
    for cells in rows:
        padded = (
            cell.ljust(width) if column in _TEXT_COLUMNS else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        lines.append("  ".join(padded).rstrip())
    lines.insert(1, "-" * max(len(line) for line in lines))
    notes = [f"* {note}" for note in dict.fromkeys(n for part in found for n in part.notes)]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def row(figure: Figure) -> tuple[str, ...]:
    """Return the cells of one figure; what was measured once has one number, under p50."""
    name = ("    " if figure.part else "  ") + figure.what
    return (name, *_numbers(figure), figure.unit, figure.budget)


def line(figure: Figure) -> str:
    """Return one figure alone, for who watches a long measurement."""
    name, number, *cells = map(str.strip, row(figure))
    return f"{name}: {' '.join(cell for cell in cells if cell)} (n {number})"


def _numbers(figure: Figure) -> tuple[str, ...]:
    values = figure.values
    if not values:
        return ("0", "", "not measured", "", "")

    def shown(value: float) -> str:
        return f"{value:,.{figure.digits}f}"

    if len(values) == 1:
        return ("1", "", shown(values[0]), "", "")
    middle = (shown(percentile(values, 0.5)), shown(percentile(values, 0.99)))
    return (str(len(values)), shown(min(values)), *middle, shown(max(values)))
