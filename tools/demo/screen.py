"""A scene as a live view on a terminal, else as plain lines; the demo's only user of rich."""

import re
from collections.abc import Iterator
from io import StringIO
from itertools import groupby
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tools.demo import summary
from tools.demo.diary import Entry
from tools.demo.expectations import Check, Outcome
from tools.demo.picture import Picture, Seat, strength
from tools.demo.story import Scene

COLUMNS = {"story": "bold", "seen": "cyan", "decided": "yellow", "done": "magenta"}
_MARKS = {
    "lost": ("✖", "bold red"),
    "NoExecute": ("■", "red"),
    "NoSchedule": ("▲", "yellow"),
    "busy": ("●", "green"),
    "free": ("○", "dim"),
}
_LEGEND = {
    "busy": "allocated",
    "free": "free",
    "NoSchedule": "NoSchedule",
    "NoExecute": "NoExecute",
    "lost": "lost",
}
_PHASES = {"Recovered": "green", "Verifying": "cyan", "Drained": "red", "Evicting": "bold red"}
_PLAIN_WIDTH = 180
_WIDTHS = (26, 26, 32, 44, 10, 12, None)
"""Of the summary's columns."""
_INCIDENTS = 3
_SMALL = 30
"""Lines of a terminal on which there is room for one incident only."""
_LEAST_DIARY = 4
_REFRESH_SECONDS = 0.25
_PICTURE = (112, 32)
"""Columns and lines of a picture."""


class Screen:
    """The demo's output; play the acts in a `with` block of `live`."""

    def __init__(self, console: Console | None = None, drawn: Path | None = None) -> None:
        """`drawn` is where a picture of the screen goes once a GPU is lost, as SVG."""
        self._console = console or Console(highlight=False)
        self._drawn = drawn
        self._scene: Scene | None = None
        if not self._console.is_terminal:
            self._console.width = _PLAIN_WIDTH
        self.live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
        self._shown = 0
        self._drawn_at = -1.0

    @property
    def is_terminal(self) -> bool:
        return self._console.is_terminal

    def say(self, line: str, at: float | None = None) -> None:
        clock = "" if at is None else f"{at:6.1f} s  "
        self._console.print(Text(f"{clock}{line}"), soft_wrap=True)

    def show(self, scene: Scene) -> None:
        """Draw the scene; without a terminal only what is new in the diary is printed."""
        self._scene = scene
        if not self.is_terminal:
            for entry in scene.entries[self._shown :]:
                self._console.print(diary_line(entry), soft_wrap=True)
            self._shown = len(scene.entries)
        elif scene.at - self._drawn_at >= _REFRESH_SECONDS:
            self._drawn_at = scene.at
            width, height = self._console.size
            self.live.update(view(scene, width, height - 1), refresh=True)

    def end_act(self, outcome: Outcome) -> None:
        if not self.is_terminal:
            for check in outcome.checks:
                self._console.print(check_line(check), soft_wrap=True)
        lost = outcome.acted and outcome.acted.now.seat(outcome.acted.target.name)
        if self._drawn and self._scene and lost and state(lost) == "lost":
            self._drawn.write_text(drawn(self._scene), encoding="utf-8")

    def summary(self, outcomes: list[Outcome], took: float) -> None:
        self._console.print()
        self._console.print(summary_table(outcomes))
        for complaint in summary.complaints(outcomes):
            self.say(f"FAILED: {complaint}")
        good = all(outcome.good for outcome in outcomes)
        verdict = "The story came out right" if good else "The story came out WRONG"
        self.say(f"{verdict}, {took:.0f} s after the demo began.")


def drawn(scene: Scene) -> str:
    """Return a picture of the live view as SVG, in fonts that a browser has anyway."""
    console = Console(
        file=StringIO(),
        record=True,
        force_terminal=True,
        highlight=False,
        width=_PICTURE[0],
        height=_PICTURE[1],
    )
    console.print(view(scene, *_PICTURE))
    return re.sub(r"@font-face\s*{[^}]*}\s*", "", console.export_svg(title="make demo"))


def view(scene: Scene, width: int, height: int) -> RenderableType:
    """Return the whole live view, at most `height` lines: the diary gets what is left."""
    tells = Text(scene.tells, style="bold")
    checks = [check_line(check) for check in scene.checks]
    incidents = list(_incidents(scene.picture, _INCIDENTS if height > _SMALL else 1))
    nodes = {seat.node for seat in scene.picture.seats}
    wrapped = len(scene.tells) // width + 1
    used = 4 + wrapped + 2 * len(nodes) + len(checks) + len(incidents)
    room = max(height - used, _LEAST_DIARY)
    clock = f"{int(scene.at) // 60:02d}:{int(scene.at) % 60:02d}"
    legend = (Text.assemble(_MARKS[name], f" {says}") for name, says in _LEGEND.items())
    return Group(
        _line((f"{clock}  {scene.title}", "bold reverse")),
        tells,
        grid(scene.picture),
        Text("   ").join(legend),
        *checks,
        *incidents,
        Text(),
        *(diary_line(entry) for entry in scene.entries[-room:]),
    )


def grid(picture: Picture) -> Table:
    """Return nodes by GPUs; each cell shows the device's pod and its taint."""
    rows: list[list[Text]] = []
    for node, seats in groupby(picture.seats, key=lambda seat: seat.node):
        cells = [_cell(list(of_gpu)) for _, of_gpu in groupby(seats, key=lambda seat: seat.gpu)]
        rows.append([Text(node, style="bold"), *cells])
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True)
    numbers = range(max((len(row) for row in rows), default=1) - 1)
    for _ in numbers:
        table.add_column(ratio=1, no_wrap=True)
    table.add_row(Text(), *(Text(f"GPU {number}", style="dim") for number in numbers))
    for row in rows:
        table.add_row(*row)
    return table


def _cell(seats: list[Seat]) -> Text:
    """Return two lines: the pod on the device, and its taint."""
    taint = max((seat.effect for seat in seats), key=strength)
    below = Text(f"\n{taint}", style=_MARKS[taint][1] if taint in _MARKS else "")
    if len(seats) > 1 or seats[0].is_slice:
        return Text.assemble(*(_mark(seat) for seat in seats), below)
    seat, mark = seats[0], _mark(seats[0])
    if seat.holder:
        # The part of a pod's name that differs between replicas.
        who = seat.holder.pod.rpartition("-")[2]
    else:
        who = {"lost": "lost", "free": "free"}.get(state(seat), "empty")
    return Text.assemble(mark, (f" {who}", mark[1]), below)


def state(seat: Seat) -> str:
    """Return the worst that is true of a device, a key of the legend."""
    if seat.presence == "Lost":
        return "lost"
    if seat.effect in _MARKS:
        return seat.effect
    return "busy" if seat.holder else "free"


def _mark(seat: Seat) -> tuple[str, str]:
    return _MARKS[state(seat)]


def check_line(check: Check) -> Text:
    if check.seen:
        return _line(("  … ", "yellow"), check.expected, (f"  ({check.seen})", "dim"))
    return _line(("  ✔ ", "bold green"), check.expected)


def _incidents(picture: Picture, most: int) -> Iterator[Text]:
    for incident in picture.incidents[:most]:
        status = incident.status
        where = next((seat for seat in picture.seats if seat.gpu == incident.spec.uuid), None)
        number = "?" if where is None or where.number is None else where.number
        yield _line(
            "  incident ",
            (f"{incident.node} GPU {number}", "bold"),
            f" {status.fault.cause}, {status.scope.summary}: ",
            (status.phase, _PHASES.get(status.phase, "yellow")),
            f"  {status.message}",
        )


def diary_line(entry: Entry) -> Text:
    changes = entry.news
    column = COLUMNS[changes.column]
    return _line((f"{entry.at:6.1f} s  ", "dim"), (f"{changes.column:<8} ", column), changes.text)


def _line(*parts: str | tuple[str, str]) -> Text:
    text = Text.assemble(*parts)
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def summary_table(outcomes: list[Outcome]) -> Table:
    table = Table(title="What happened", title_style="bold", show_lines=True)
    for heading, width in zip(summary.HEADINGS, _WIDTHS, strict=True):
        # Device names are longer than a column on a small terminal, and must be readable.
        table.add_column(heading, overflow="fold", max_width=width)
    for row in summary.rows(outcomes):
        style = {"ok": "green", "FAILED": "bold red"}.get(row[-1], "dim")
        table.add_row(*row[:-1], Text(row[-1], style=style))
    return table
