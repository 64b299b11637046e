"""A page of metrics from tables of families: the one door to prometheus_client of the controllers.

Families of the process itself are counters, gauges and histograms that live as long as it does.
Families that are shown anew at each look (`ShownRows`) are gauges whose rows come as values.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.openmetrics import exposition as openmetrics_exposition

from serving.families import Family, Labels, Rows

_openmetrics = cast(
    "Callable[[CollectorRegistry], bytes]",
    openmetrics_exposition.generate_latest,  # pyright: ignore[reportUnknownMemberType] - untyped
)


class ShownRows:
    """A collector (of prometheus_client) that returns the rows which it was given last."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = tuple(families)
        self._rows: Rows | None = None
        self._shown: tuple[GaugeMetricFamily, ...] = ()
        self.show({})

    def show(self, rows: Rows) -> None:
        """Replace everything that is exported; a series that is not in `rows` vanishes."""
        # Who gathers rows returns the same object while it is fresh.
        if rows is self._rows:
            return
        made: list[GaugeMetricFamily] = []
        for family in self._families:
            gauge = GaugeMetricFamily(family.base_name, family.text, labels=family.labels)
            for labels, value in rows.get(family.name, {}).items():
                gauge.add_metric(labels, value)
            made.append(gauge)
        self._rows, self._shown = rows, tuple(made)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._shown


class Registry:
    """Every family of two tables, by the name in its row."""

    def __init__(self, own: Iterable[Family], shown: Iterable[Family]) -> None:
        self._registry = CollectorRegistry()
        self.gauges: dict[str, Gauge] = {}
        self.counters: dict[str, Counter] = {}
        self.histograms: dict[str, Histogram] = {}
        for family in own:
            self._make(family)
        self._shown = ShownRows(shown)
        self._registry.register(self._shown)

    def _make(self, family: Family) -> None:
        name = family.base_name
        made: Counter | Gauge | Histogram
        if family.kind == "counter":
            made = Counter(name, family.text, family.labels, registry=self._registry)
            self.counters[family.name] = made
        elif family.kind == "gauge":
            made = Gauge(name, family.text, family.labels, registry=self._registry)
            self.gauges[family.name] = made
        else:
            buckets = family.buckets or Histogram.DEFAULT_BUCKETS
            made = Histogram(
                name, family.text, family.labels, buckets=buckets, registry=self._registry
            )
            self.histograms[family.name] = made
        for values in product(*family.known) if family.known else ():
            made.labels(*values)

    def replace(self, name: str, values: Mapping[Labels, float]) -> None:
        """Set a gauge to these rows: a label that is not among them vanishes from the page."""
        gauge = self.gauges[name]
        gauge.clear()
        for labels, value in values.items():
            gauge.labels(*labels).set(value)

    def show(self, rows: Rows) -> None:
        """Replace what is shown anew at each look; {} while it is not known."""
        self._shown.show(rows)

    def page(self, *, openmetrics: bool) -> bytes:
        return _openmetrics(self._registry) if openmetrics else generate_latest(self._registry)
