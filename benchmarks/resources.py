"""CPU of all processes in their steady state, and the memory that they have taken."""

import time

from benchmarks.figures import Figure, Section
from benchmarks.processes import (
    alone_megabytes,
    cpu_seconds,
    leader_cpu_seconds,
    maps_of,
    pss_megabytes,
)
from benchmarks.programs import NVML_CHILD
from benchmarks.scraper import page
from benchmarks.stage import GPUS, Stage
from benchmarks.waiting import Say

WINDOW = 30.0
"""Seconds: one sample, two scrapes, three looks at the kubelet."""
_SCRAPE_EVERY = 15.0
_WAIT = "event wait"


def measure_cpu(stage: Stage, say: Say) -> Section:
    """Measure a window of production's rhythm: sampling every 30 s, a scrape every 15 s."""
    say(f"steady state: measuring {WINDOW:.0f} s")
    begun, before = time.monotonic(), _clocks(stage)
    for number in range(int(WINDOW / _SCRAPE_EVERY)):
        time.sleep(max(0.0, begun + _SCRAPE_EVERY * (number + 0.5) - time.monotonic()))
        page(stage.port)
    time.sleep(max(0.0, begun + WINDOW - time.monotonic()))
    seconds = time.monotonic() - begun
    used = {name: 1000 * (clock - before[name]) / seconds for name, clock in _clocks(stage).items()}
    remediator, wait = used.pop("remediator"), used.pop(_WAIT)
    return Section(
        f"CPU in the steady state, {GPUS} GPUs: a sample each 30 s, a scrape each 15 s",
        (
            _cpu("exporter without the simulated library's wait", sum(used.values()), "4.5"),
            *(_cpu(name, value, part=True) for name, value in used.items()),
            _cpu("the simulated library's wait for events", wait),
            _cpu("remediator, one node", remediator),
        ),
        (
            f"CPU is that of one window of {WINDOW:.0f} s. The simulated library looks at its file "
            "200 times a second while it waits for events; a real one sleeps.",
        ),
    )


def _clocks(stage: Stage) -> dict[str, float]:
    """Return CPU seconds by part; the NVML child's threads but the first only wait for events."""
    clocks = {name: cpu_seconds(pid) for name, pid in stage.exporter.items()}
    child = stage.exporter[NVML_CHILD]
    clocks[NVML_CHILD] = leader_cpu_seconds(child)
    clocks[_WAIT] = cpu_seconds(child) - clocks[NVML_CHILD]
    clocks["remediator"] = cpu_seconds(stage.remediator)
    return clocks


def _cpu(what: str, value: float, budget: str = "", *, part: bool = False) -> Figure:
    return Figure(what=what, unit="ms per s", values=(value,), budget=budget, digits=2, part=part)


def measure_memory(stage: Stage, say: Say, *, uptime: float, least: float = 20.0) -> Section:
    """Measure after at least `least` seconds of work; `uptime` is how long it is already."""
    time.sleep(max(0.0, least - uptime))
    say("memory")
    maps = {name: maps_of(pid) for name, pid in stage.exporter.items()}
    whole = sum(pss_megabytes(process_maps) for process_maps in maps.values())
    return Section(
        f"Memory, {GPUS} GPUs, NVML only",
        (
            _memory("exporter, PSS of all processes", whole, "75"),
            *(
                _memory(f"{name}, PSS", pss_megabytes(process_maps), part=True)
                for name, process_maps in maps.items()
            ),
            _memory("exporter, alone on a machine", alone_megabytes(maps.values()), "75"),
            _memory("remediator, PSS", pss_megabytes(maps_of(stage.remediator))),
        ),
        (
            "PSS shares out the pages of libraries among all Python processes, so remediator and "
            'benchmark make it smaller; "alone" counts such pages once, and in full.',
        ),
    )


def _memory(what: str, value: float, budget: str = "", *, part: bool = False) -> Figure:
    return Figure(what=what, unit="MB", values=(value,), budget=budget, part=part)
