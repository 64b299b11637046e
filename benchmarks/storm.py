"""A thousand XID lines a second: CPU, report writes, memory, and whether all were counted."""

import re
import time

from benchmarks.figures import Figure, Section
from benchmarks.processes import cpu_seconds, maps_of, pss_megabytes
from benchmarks.scraper import page
from benchmarks.stage import GPUS, Say, Stage, await_true
from simulator import driver_messages

SECONDS = 10.0
RATE = 1000
_STEP = 0.02
_CODES = (13, 31, 43, 45)
_COUNT = re.compile(rb"^draguard_xid_errors_total\{.*\} (\S+)$", re.MULTILINE)


def measure(stage: Stage, say: Say) -> Section:
    say(f"storm: {RATE} lines a second for {SECONDS:.0f} s")
    stage.reports.forget()
    counted, memory = _counted(stage), _memory(stage)
    begun, before = time.monotonic(), _cpu(stage)
    written = _write(stage, begun)
    seconds = time.monotonic() - begun
    used = _cpu(stage) - before
    reports = len(stage.reports.since(begun))
    await_true("all lines are counted", lambda: _counted(stage) - counted >= written)
    behind = time.monotonic() - begun - seconds
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
            Figure(what="last line written to all on the page", unit="ms", values=(1000 * behind,)),
            Figure(what="memory grew by", unit="MB", values=(_memory(stage) - memory,)),
        ),
    )


def _write(stage: Stage, begun: float) -> int:
    """Write the lines in small steps; returns how many."""
    slots = [gpu.pci for gpu in stage.node.scenario.load().gpus]
    lines = [driver_messages.xid(slot, code, pid=4242) for slot in slots for code in _CODES]
    total = int(SECONDS * RATE)
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
    return int(sum(float(one) for one in _COUNT.findall(page(stage.port))))


def _cpu(stage: Stage) -> float:
    return sum(cpu_seconds(pid) for pid in stage.exporter.values())


def _memory(stage: Stage) -> float:
    return sum(pss_megabytes(maps_of(pid)) for pid in stage.exporter.values())
