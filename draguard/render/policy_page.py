"""The explanation of a signal under a policy as a page. Pure."""

from collections.abc import Iterator

from draguard.render.blocks import Block, Cell, Facts, Lines, Table, Text, Tone
from draguard.trial.explanation import Course, Explanation

_TONES: dict[str, Tone] = {
    "NoExecute": "bad",
    "Evict": "bad",
    "NoSchedule": "warn",
    "rule removed": "good",
}
_ROW = ("mode", "ceiling", "settle", "soak", "patient", "repeat", "sticky", "probation", "evict")
_TITLES = {"evict": "eviction api"}
"""Of keys that would read as something else: NoExecute evicts as well."""
_SHORT = 600
"""Seconds below which a time is given in seconds."""


def policy_page(found: Explanation) -> Iterator[Block]:
    yield Facts(tuple(_facts(found)))
    rows: list[tuple[Text, ...]] = []
    for fault in {fault.fault_class: fault for fault in found.faults}.values():
        values = (getattr(fault.row, name) for name in _ROW)
        cells = ({True: "yes", False: "no"}.get(value, str(value)) for value in values)
        rows.append((fault.fault_class, fault.row.name, *cells))
    columns = tuple(_TITLES.get(name, name).upper() for name in ("class", "row", *_ROW))
    yield Table(columns, tuple(rows), title="Policy rows")
    yield Lines(tuple(Cell(why, "warn") for why in found.deferred))
    yield from course_tables(found)


def course_tables(found: Explanation) -> Iterator[Block]:
    """Give the actions step by step, and beside them those in enforce mode."""
    modes = sorted({fault.row.mode for fault in found.faults})
    if found.faults:
        yield _course(found.course, f"Actions ({', '.join(modes)})")
    if found.enforced is not None:
        yield _course(found.enforced, "Actions in enforce mode")


def repair(needs: str) -> str:
    """Name the repair of a fault; `nothing` would read as if no repair helped."""
    return "none needed" if needs == "nothing" else needs


def _facts(found: Explanation) -> Iterator[tuple[str, Text]]:
    yield "signal", Cell(found.signal, "strong")
    yield "place", found.place
    yield "verdict", f"{found.verdict}{f': {found.why}' if found.why else ''}"
    for fault in found.faults:
        yield "fault", f"class {fault.fault_class}, {fault.cause}: {fault.evidence}"
        sure = "certain" if fault.certain else f"uncertain: {fault.doubt}"
        over = "; resolved by its own evidence" if fault.over else ""
        yield "", f"{sure}{over}; repair: {repair(fault.needs)}"
    if not found.faults:
        yield "action", "none: this signal alone is not a fault"


def _course(course: Course, title: str) -> Table:
    rows: list[tuple[Text, ...]] = []
    repaired = course.repaired_after
    for line in course.lines:
        if repaired is not None and line.after >= repaired:
            rows.append((_clock(repaired), Cell("(the GPU is repaired here)", "strong")))
            repaired = None
        tones: list[Tone] = [tone for word, tone in _TONES.items() if word in line.text]
        rows.append((_clock(line.after), Cell(line.text, *tones[:1])))
    if rows and course.released_after is None:
        rows.append(("", f"the incident stays open: {course.end}"))
    elif rows and course.released_after is not None:
        rows.append((_clock(course.released_after), "incident closed"))
    return Table(("AFTER", "ACTION"), tuple(rows), title, nothing="no action, and no incident")


def _clock(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < _SHORT else f"{seconds / 60:.1f} min"
