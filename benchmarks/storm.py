"""A thousand XID lines a second: CPU, report writes, memory, and whether all were counted."""

import random
import re
import time
from collections.abc import Iterator, Mapping

from benchmarks.figures import Figure, Section, milliseconds
from benchmarks.processes import cpu_seconds, maps_of, pss_megabytes
from benchmarks.scraper import page
from benchmarks.stage import GPUS, Stage
from benchmarks.waiting import Say, await_true
from simulator import driver_messages

SECONDS = 60.0
FIRST = 10.0
"""Seconds in which the sensor's ring of the last signals fills."""
RATE = 1000
PIECE = (2.0, 5.0)
"""Seconds of storm, at least and at most, after which its last line is waited for. They are drawn:
the page is made in intervals, and one end would be measured at one moment of them."""
_STEP = 0.02
_CODES = (13, 31, 43, 45)
_COUNT = re.compile(rb"^draguard_xid_errors_total\{.*\} (\S+)$", re.MULTILINE)


def measure(stage: Stage, say: Say) -> Section:
    say(f"storm: {RATE} lines a second for {SECONDS:.0f} s")
    stage.reports.forget()
    counted, memory = _counted(stage), _memory(stage)
    begun, before = time.monotonic(), _cpu(stage)
    written = _write(stage, FIRST)
    full = _memory(stage)
    behind: list[float] = []
    for piece in _pieces(SECONDS - FIRST):
        written += _write(stage, piece)
        behind.append(_await_page(stage, counted + written))
    seconds = time.monotonic() - begun
    used = _cpu(stage) - before
    reports = len(stage.reports.since(begun))
    after = _memory(stage)
    return Section(
        f"Storm: {RATE} XID lines a second on {GPUS} GPUs for {SECONDS:.0f} s",
        (
            Figure(
                what="exporter, CPU",
                unit="cores",
                values=(used / seconds,),
                budget="0.25",
                digits=3,
            ),
            Figure(what="report writes", unit="per s", values=(reports / seconds,), budget="2"),
            Figure(what="lines written", unit="", values=(written,), digits=0),
            Figure(what="lines counted", unit="", values=(_counted(stage) - counted,), digits=0),
            Figure(
                what="last line written to all on the page", unit="ms", values=milliseconds(behind)
            ),
            _growth(f"memory grew in the first {FIRST:.0f} s by", memory, full),
            *(_growth(name, memory, full, name) for name in memory),
            _growth("memory grew from then to the end by", full, after),
            *(_growth(name, full, after, name) for name in memory),
        ),
    )


def _growth(
    what: str, before: Mapping[str, float], after: Mapping[str, float], part: str = ""
) -> Figure:
    names = [part] if part else list(after)
    grown = sum(after[name] - before[name] for name in names)
    return Figure(what=what, unit="MB", values=(grown,), part=bool(part))


def _pieces(seconds: float) -> Iterator[float]:
    """Yield lengths that are that long together."""
    dice = random.Random(1)  # noqa: S311 - no secret
    while seconds > 0:
        piece = min(seconds, dice.uniform(*PIECE))
        seconds -= piece
        yield piece


def _await_page(stage: Stage, lines: int) -> float:
    """Return after how many seconds the page has counted all lines."""
    begun = time.monotonic()
    await_true("all lines are counted", lambda: _counted(stage) >= lines)
    return time.monotonic() - begun


def _write(stage: Stage, seconds: float) -> int:
    """Write the lines in small steps; returns how many."""
    begun = time.monotonic()
    slots = [gpu.pci for gpu in stage.node.scenario.load().gpus]
    lines = [driver_messages.xid(slot, code, pid=4242) for slot in slots for code in _CODES]
    total = int(seconds * RATE)
    written = 0
    while written < total:
        due = min(total, int((time.monotonic() - begun) * RATE))
        if due > written:
            stage.node.kernel_log.write_all(
                [lines[number % len(lines)] for number in range(written, due)]
            )
            written = due
        time.sleep(_STEP)
    return written


def _counted(stage: Stage) -> int:
    return int(sum(float(number) for number in _COUNT.findall(page(stage.port))))


def _cpu(stage: Stage) -> float:
    return sum(cpu_seconds(pid) for pid in stage.exporter.values())


def _memory(stage: Stage) -> dict[str, float]:
    return {name: pss_megabytes(maps_of(pid)) for name, pid in stage.exporter.items()}
