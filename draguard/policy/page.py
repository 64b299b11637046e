"""An explanation for a person to read. The door to rich of `draguard policy`."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from draguard.policy.explanation import Course, Explanation, FaultTold

_STYLES = {"NoExecute": "red", "NoSchedule": "yellow", "taken down": "green"}
_ROW = ("mode", "ceiling", "settle", "soak", "patient", "repeat", "sticky", "probation")
_PLAIN_WIDTH = 180


def show(told: Explanation, console: Console | None = None) -> None:
    """Print an explanation; without a terminal as plain, wide text."""
    out = console or Console(highlight=False)
    if not out.is_terminal:
        out.width = _PLAIN_WIDTH
    for line in _head(told):
        out.print(line, soft_wrap=True)
    if told.faults:
        out.print(_rows(told.faults))
    for line in _tail(told):
        out.print(line, soft_wrap=True)


def _head(told: Explanation) -> Iterator[Text]:
    yield Text(f"signal   {told.signal}", style="bold")
    yield Text(f"place    {told.place}")
    yield Text(f"verdict  {told.verdict}{f': {told.why}' if told.why else ''}")
    for one in told.faults:
        sure = "certain" if one.certain else f"in doubt: {one.doubt}"
        over = "; over by its own evidence" if one.over else ""
        yield Text(f"fault    class {one.fault_class}, {one.cause}: {one.evidence}")
        yield Text(f"         {sure}{over}; what repairs it: {one.needs}")
    if not told.faults:
        yield Text("nothing is done: this signal alone is no fault")


def _rows(faults: tuple[FaultTold, ...]) -> Table:
    table = Table(title="What the policy says", title_justify="left", box=None, pad_edge=False)
    for name in ("class", "row", *_ROW):
        table.add_column(name)
    for one in {fault.fault_class: fault for fault in faults}.values():
        values = (getattr(one.row, name) for name in _ROW)
        cells = ({True: "yes", False: "no"}.get(value, str(value)) for value in values)
        table.add_row(one.fault_class, one.row.name, *cells)
    return table


def _tail(told: Explanation) -> Iterator[Text]:
    for held in told.held:
        yield Text(f"no new harm now: {held}", style="bold")
    modes = sorted({one.row.mode for one in told.faults})
    if told.faults:
        yield Text(f"What it does ({', '.join(modes)})", style="italic")
        yield from _course(told.course)
    if told.enforced is not None:
        yield Text("What enforce would do", style="italic")
        yield from _course(told.enforced)


def _course(course: Course) -> Iterator[Text]:
    if not course.lines:
        yield Text("  nothing, not even an incident")
        return
    repaired = course.repaired_after
    for line in course.lines:
        if repaired is not None and line.after >= repaired:
            yield Text(f"{_clock(repaired)}  (here somebody repairs the GPU)", style="italic")
            repaired = None
        style = next((style for word, style in _STYLES.items() if word in line.text), "")
        yield Text(f"{_clock(line.after)}  {line.text}", style=style)
    if course.released_after is None:
        yield Text(f"  it stays open: {course.end}")
    else:
        yield Text(f"{_clock(course.released_after)}  the incident is closed")


def _clock(seconds: float) -> str:
    if seconds < 600:
        return f"{seconds:8.1f} s"
    return f"{seconds / 60:6.1f} min"
