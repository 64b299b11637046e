"""An explanation for a person to read. Pure."""

from collections.abc import Iterator

from draguard.render.blocks import Block, Cell, Facts, Lines, Table, Text, Tone
from draguard.trial.explanation import Course, Explanation, FaultTold

_TONES: dict[str, Tone] = {
    "NoExecute": "bad",
    "Evict": "bad",
    "NoSchedule": "warn",
    "rule removed": "good",
}
_ROW = ("mode", "ceiling", "settle", "soak", "patient", "repeat", "sticky", "probation", "evict")
_SHORT = 600
"""Seconds below which a moment is told in seconds."""


def policy_page(told: Explanation) -> Iterator[Block]:
    yield Facts(tuple(_head(told)))
    yield _rows(told.faults)
    yield Lines(
        tuple(Cell(f"no new restriction or disruption now: {one}", "warn") for one in told.held)
    )
    yield from courses(told)


def courses(told: Explanation) -> Iterator[Block]:
    """Give what is done step by step, and beside it what enforce would do."""
    modes = sorted({one.row.mode for one in told.faults})
    if told.faults:
        yield _course(told.course, f"Actions ({', '.join(modes)})")
    if told.enforced is not None:
        yield _course(told.enforced, "Actions in enforce mode")


def _head(told: Explanation) -> Iterator[tuple[str, Text]]:
    yield "signal", Cell(told.signal, "strong")
    yield "place", told.place
    yield "verdict", f"{told.verdict}{f': {told.why}' if told.why else ''}"
    for one in told.faults:
        yield "fault", f"class {one.fault_class}, {one.cause}: {one.evidence}"
        sure = "certain" if one.certain else f"uncertain: {one.doubt}"
        over = "; resolved by its own evidence" if one.over else ""
        yield "", f"{sure}{over}; repair: {repair(one.needs)}"
    if not told.faults:
        yield "action", "none: this signal alone is not a fault"


def repair(needs: str) -> str:
    """Say what would repair a fault; `nothing` is to be done, and not: nothing helps."""
    return "none needed" if needs == "nothing" else needs


def _rows(faults: tuple[FaultTold, ...]) -> Table:
    rows: list[tuple[Text, ...]] = []
    for one in {fault.fault_class: fault for fault in faults}.values():
        values = (getattr(one.row, name) for name in _ROW)
        cells = ({True: "yes", False: "no"}.get(value, str(value)) for value in values)
        rows.append((one.fault_class, one.row.name, *cells))
    columns = tuple(name.upper() for name in ("class", "row", *_ROW))
    return Table(columns, tuple(rows), title="Policy rows")


def _course(course: Course, title: str) -> Table:
    rows = tuple(_steps(course))
    return Table(("AFTER", "ACTION"), rows, title, nothing="no action, and no incident")


def _steps(course: Course) -> Iterator[tuple[Text, ...]]:
    if not course.lines:
        return
    repaired = course.repaired_after
    for line in course.lines:
        if repaired is not None and line.after >= repaired:
            yield _clock(repaired), Cell("(the GPU is repaired here)", "strong")
            repaired = None
        yield _clock(line.after), Cell(line.text, _tone(line.text))
    if course.released_after is None:
        yield "", f"the incident stays open: {course.end}"
    else:
        yield _clock(course.released_after), "incident closed"


def _tone(text: str) -> Tone:
    for word, tone in _TONES.items():
        if word in text:
            return tone
    return ""


def _clock(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < _SHORT else f"{seconds / 60:.1f} min"
