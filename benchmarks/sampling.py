"""CPU and wake-ups of the exporter alone, at three sampling rates, one scrape each 15 s."""

import time

from benchmarks.figures import Figure, Section
from benchmarks.lone import Ground, Layout, Lone
from benchmarks.processes import (
    cpu_seconds,
    leader_cpu_seconds,
    leader_sleeps,
    sleeps,
)
from benchmarks.programs import CHILDREN
from benchmarks.scraper import page

INTERVALS = (1.0, 10.0, 30.0)
WINDOW = 60.0
"""Seconds: two samples at 30 s, four scrapes."""
_SETTLE = 5.0
"""Seconds after the start, in which page and report are made several times."""
_SCRAPE_EVERY = 15.0


def measure(ground: Ground, layout: Layout, *, dcgm: bool = False) -> Section:
    """Return the figures; `dcgm`: with DCGM embedded, without what the engine itself takes."""
    figures: list[Figure] = []
    title = f"CPU of {layout.name}{', DCGM embedded' if dcgm else ''}"
    for interval in INTERVALS:
        ground.say(f"{title} at {interval:.0f} s: {WINDOW:.0f} s")
        with Lone(ground, layout, f"--interval={interval:g}", dcgm=dcgm) as lone:
            figures += _window(lone, interval, dcgm=dcgm)
    return Section(
        f"{title}: a scrape each {_SCRAPE_EVERY:.0f} s",
        tuple(figures),
        (
            "Wake-ups are voluntary context switches of all threads. Of the vendor children only "
            "the first thread counts: the others wait for events, or are the simulated engine's, "
            "and the simulated libraries wake them all the time.",
        ),
    )


def _window(lone: Lone, interval: float, *, dcgm: bool) -> list[Figure]:
    time.sleep(_SETTLE)
    begun, clocks, naps = time.monotonic(), _clocks(lone), _naps(lone)
    for number in range(int(WINDOW / _SCRAPE_EVERY)):
        time.sleep(max(0.0, begun + _SCRAPE_EVERY * (number + 0.5) - time.monotonic()))
        page(lone.port)
    time.sleep(max(0.0, begun + WINDOW - time.monotonic()))
    seconds = time.monotonic() - begun
    used = {name: 1000 * (now - clocks[name]) / seconds for name, now in _clocks(lone).items()}
    woken = sum(_naps(lone).values()) - sum(naps.values())
    budget = "4.5" if interval == max(INTERVALS) and not dcgm else ""
    return [
        Figure(
            what=f"a sample each {interval:.0f} s, all processes",
            unit="ms per s",
            values=(sum(used.values()),),
            budget=budget,
            digits=2,
        ),
        *(
            Figure(what=name, unit="ms per s", values=(value,), digits=2, part=True)
            for name, value in used.items()
        ),
        Figure(what="wake-ups", unit="per min", values=(60 * woken / seconds,), digits=0),
    ]


def _clocks(lone: Lone) -> dict[str, float]:
    return {
        name: leader_cpu_seconds(pid) if name in CHILDREN else cpu_seconds(pid)
        for name, pid in lone.exporter.items()
    }


def _naps(lone: Lone) -> dict[str, int]:
    return {
        name: leader_sleeps(pid) if name in CHILDREN else sleeps(pid)
        for name, pid in lone.exporter.items()
    }
