"""The page of the exporter alone: latency, CPU for each scrape, one scraper and eight at once.

Each scrape is compared with the time in which prometheus_client renders the same families. A
program that collects when it is scraped needs that time at every scrape.
"""
# pyright: basic
# prometheus_client carries no types.

import re
import threading
import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.figures import Figure, Section, milliseconds, ratios
from benchmarks.lone import GPUS, SLICES, Ground, Layout, Lone
from benchmarks.processes import cpu_seconds
from benchmarks.scraper import Scraper, page

SCRAPES = 500
PAIRS = 40
_AT_ONCE = 8
_PAUSE = 0.002
_WARM_UP = 10
_BUDGETS = {GPUS.name: "p99 1.7", SLICES.name: "p99 5"}
_RENDER = re.compile(rb"^draguard_render_duration_seconds (\S+)$", re.MULTILINE)


def measure(ground: Ground, layout: Layout) -> Section:
    ground.say(f"scrapes of {layout.name}: {SCRAPES} of each kind")
    with Lone(ground, layout) as lone:
        figures = [
            figure
            for gzip, name in ((True, "gzip"), (False, "plain"))
            for scrapers in (1, _AT_ONCE)
            for figure in _scrapes(lone, name, gzip=gzip, scrapers=scrapers)
        ]
        figures += _against_client(lone)
        figures += [
            Figure(what="rendering in all four forms, once a sample", unit="ms", values=values)
            for values in [milliseconds(map(float, _RENDER.findall(page(lone.port))))]
        ]
    return Section(f"Scrape of {layout.name} with pods and claims, kept-alive", tuple(figures))


def _scrapes(lone: Lone, name: str, *, gzip: bool, scrapers: int) -> list[Figure]:
    took, size, cost = _scrape(lone, gzip=gzip, scrapers=scrapers)
    crowd = "1 scraper" if scrapers == 1 else f"{scrapers} scrapers at once"
    what = f"{name}, {size / 1000:.1f} kB, {crowd}"
    return [
        Figure(
            what=what,
            unit="ms",
            values=milliseconds(took),
            budget=_BUDGETS.get(lone.layout.name, "") if scrapers == 1 else "",
            digits=2,
        ),
        Figure(what="CPU of the agent", unit="ms", values=(1000 * cost,), digits=2, part=True),
    ]


def _scrape(lone: Lone, *, gzip: bool, scrapers: int) -> tuple[list[float], int, float]:
    """Return the seconds of each scrape, the body's size, and CPU seconds of the agent for one."""
    took: list[float] = []
    sizes: list[int] = []
    each = SCRAPES // scrapers

    def one() -> None:
        with Scraper(lone.port, gzip=gzip) as scraper:
            for _ in range(_WARM_UP):
                scraper.scrape()
            begin.wait()
            for _ in range(each):
                seconds, body = scraper.scrape()
                took.append(seconds)
                time.sleep(_PAUSE)
            sizes.append(len(body))

    begin = threading.Barrier(scrapers + 1)
    threads = [threading.Thread(target=one, daemon=True) for _ in range(scrapers)]
    for thread in threads:
        thread.start()
    begin.wait()
    before = cpu_seconds(lone.exporter["agent"])
    for thread in threads:
        thread.join()
    used = cpu_seconds(lone.exporter["agent"]) - before
    return took, sizes[0], used / (each * scrapers)


class _Given:
    """A collector of families that are there already, so that only rendering is measured."""

    def __init__(self, text: str) -> None:
        self._families = list(text_string_to_metric_families(text))

    def collect(self) -> Iterable[Metric]:
        return self._families


def _against_client(lone: Lone) -> list[Figure]:
    """Measure a scrape of ours and a rendering by prometheus_client in turns."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(page(lone.port).decode()))
    ours: list[float] = []
    theirs: list[float] = []
    with Scraper(lone.port) as scraper:
        for _ in range(PAIRS):
            ours.append(scraper.scrape()[0])
            begun = time.perf_counter()
            generate_latest(registry)
            theirs.append(time.perf_counter() - begun)
            time.sleep(_PAUSE)
    return [
        Figure(
            what="prometheus_client's generate_latest, same families",
            unit="ms",
            values=milliseconds(theirs),
            digits=2,
        ),
        Figure(
            what="a plain scrape of ours, as part of it",
            unit="x",
            values=ratios(ours, theirs),
            digits=3,
            part=True,
        ),
    ]
