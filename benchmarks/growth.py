"""Memory of the exporter alone: after the start, after many scrapes, after minutes of work."""

import time

from benchmarks.figures import Figure, Section
from benchmarks.lone import GPUS, SLICES, Ground, Layout, Lone
from benchmarks.processes import alone_megabytes, maps_of, pss_megabytes
from benchmarks.programs import DCGM_CHILD
from benchmarks.scraper import Scraper, page

SCRAPES = 10_000
MINUTES = 2.0
_SETTLE = 10.0
"""Seconds after the first page; the report and the second page are made in them."""
_INTERVAL = 0.1
"""Seconds between samples, so that a minute sees what five hours see at 30 s."""
_HOURS_A_MINUTE = 5
_BUDGETS = {GPUS.name: "75", SLICES.name: "95"}


def measure(ground: Ground, layout: Layout, minutes: float, *, dcgm: bool = False) -> Section:
    title = f"Memory of {layout.name}, {'DCGM embedded' if dcgm else 'NVML only'}"
    ground.say(f"{title}: {SCRAPES} scrapes, {minutes:g} minutes")
    with Lone(ground, layout, f"--interval={_INTERVAL:g}", dcgm=dcgm) as lone:
        time.sleep(_SETTLE)
        figures = memory(lone, "after the start", parts=True)
        with Scraper(lone.port, gzip=True) as scraper:
            for _ in range(SCRAPES):
                scraper.scrape()
        figures += memory(lone, f"after {SCRAPES:,} scrapes")
        for half in (1, 2):
            end = time.monotonic() + 30 * minutes
            while time.monotonic() < end:
                time.sleep(min(15.0, max(0.0, end - time.monotonic())))
                page(lone.port)
            hours = half * minutes * _HOURS_A_MINUTE / 2
            figures += memory(lone, f"after the samples of {hours:g} hours more", parts=True)
    return Section(title, tuple(figures))


def memory(lone: Lone, when: str, *, parts: bool = False) -> list[Figure]:
    """Return the memory of all processes; DCGM's child is counted apart."""
    maps = {name: maps_of(pid) for name, pid in lone.exporter.items()}
    apart = maps.pop(DCGM_CHILD, None)
    budget = _BUDGETS.get(lone.layout.name, "")
    whole = sum(map(pss_megabytes, maps.values()))
    found = [
        _figure(f"{when}: PSS", whole, budget),
        _figure("alone on a machine", alone_megabytes(maps.values()), budget, part=True),
    ]
    if parts:
        found += [
            _figure(f"{n}, PSS", pss_megabytes(process_maps), part=True)
            for n, process_maps in maps.items()
        ]
    if apart is not None:
        found.append(_figure(f"{DCGM_CHILD}, apart: PSS", pss_megabytes(apart), part=True))
    return found


def _figure(what: str, value: float, budget: str = "", *, part: bool = False) -> Figure:
    return Figure(what=what, unit="MB", values=(value,), budget=budget, part=part)
