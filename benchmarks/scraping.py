"""Scrapes of the real agent's page: latency, and what each costs the agent in CPU."""

import time

from benchmarks.figures import Figure, Section, milliseconds
from benchmarks.processes import cpu_seconds
from benchmarks.scraper import Scraper
from benchmarks.stage import GPUS, Stage
from benchmarks.waiting import Say

SCRAPES = 500
_PAUSE = 0.002
_WARM_UP = 10


def measure(stage: Stage, say: Say) -> Section:
    figures: list[Figure] = []
    for name, gzip in (("gzip", True), ("identity", False)):
        took, cost, size = _scrape(stage, gzip=gzip)
        figures += [
            Figure(
                what=f"{name}, {size / 1000:.1f} kB: latency",
                unit="ms",
                values=milliseconds(took),
                budget="p99 1.7",
                digits=2,
            ),
            Figure(
                what=f"{name}: CPU of the agent per scrape",
                unit="ms",
                values=(1000 * cost,),
                digits=2,
            ),
        ]
        say(f"scraping: {SCRAPES} with {name}")
    return Section(f"Scrape of {GPUS} GPUs with pods and claims, kept-alive", tuple(figures))


def _scrape(stage: Stage, *, gzip: bool) -> tuple[list[float], float, int]:
    """Return the seconds of each scrape, the mean CPU seconds of one, and the body's size."""
    agent = stage.exporter["agent"]
    with Scraper(stage.port, gzip=gzip) as scraper:
        for _ in range(_WARM_UP):
            scraper.scrape()
        before = cpu_seconds(agent)
        took: list[float] = []
        size = 0
        for _ in range(SCRAPES):
            seconds, body = scraper.scrape()
            took.append(seconds)
            size = len(body)
            time.sleep(_PAUSE)
        return took, (cpu_seconds(agent) - before) / SCRAPES, size
