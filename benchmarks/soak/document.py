"""Writes a soak's outcomes into the generated part of docs/soak.md, which keeps earlier ones. Pure.

The document is the only record of earlier soaks, so their rows and summaries are read from it.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

BEGIN = "<!-- soak: begin, written by `make soak` -->"
END = "<!-- soak: end -->"
HEADER = ("part", "what was run", "outcome", "closing figures", "seconds", "commit", "date", "seed")
_LATEST, _EARLIER = "Latest run: ", "- "


class DocumentError(ValueError):
    """A document lacks the two lines between which a soak writes."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One soak, over or not."""

    date: str
    commit: str
    seed: int
    machine: str
    parts: int
    """The number of parts that were selected."""

    @property
    def key(self) -> str:
        return f"{self.date}, commit {self.commit}, seed {self.seed}: "


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the latest soak that ran it."""

    part: str
    what: str
    passed: bool
    figures: str
    seconds: float

    def cells(self, run: Run) -> tuple[str, ...]:
        outcome = "passed" if self.passed else "**failed**"
        counted = (f"{self.seconds:,.0f}", run.commit, run.date, str(run.seed))
        return (self.part, self.what, outcome, self.figures, *counted)


def updated(text: str, run: Run, rows: Sequence[Row], order: Iterable[str] = ()) -> str:
    """Return a document with a run's rows so far; the same rows again change nothing.

    Rows of parts for which this run has no row are kept. `order` is that of the parts.
    """
    before, begin, rest = text.partition(BEGIN)
    kept, end, after = rest.partition(END)
    if not begin or not end:
        raise DocumentError(f"it needs the lines {BEGIN} and {END}, in this order")
    written = [line for line in kept.splitlines() if line.startswith("| ")][2:]
    table = {line.split(" | ")[0].removeprefix("| "): line for line in written}
    table |= {row.part: _line(row.cells(run)) for row in rows}
    ordered = [name for name in (*order, *table) if name in table]
    failed = [row.part for row in rows if not row.passed]
    missing = run.parts - len(rows)
    latest = f"{run.key}{len(rows) - len(failed)} of {run.parts} parts passed"
    latest += f", failed: {', '.join(failed)}" if failed else ""
    latest += f", {missing} did not end" if missing else ""
    lines = [f"{_LATEST}{latest}.", f"Machine: {run.machine}.", "", _line(HEADER)]
    lines += [_line(["---"] * len(HEADER)), *(table[name] for name in dict.fromkeys(ordered))]
    summaries = re.findall(rf"^{_LATEST}(.*)\.$", kept, re.MULTILINE)
    summaries += re.findall(rf"^{_EARLIER}(.*)$", kept, re.MULTILINE)
    earlier = [_EARLIER + summary for summary in summaries if not summary.startswith(run.key)]
    if earlier:
        lines += ["", "Earlier runs:", "", *earlier]
    return "\n".join([f"{before}{BEGIN}", "", *lines, "", f"{END}{after}"])


def _line(cells: Iterable[str]) -> str:
    shown = (" ".join(cell.split()).replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(shown)} |"
