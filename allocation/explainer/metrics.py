"""The page of the explainer's metrics."""

import threading
from collections.abc import Mapping
from math import nan

import msgspec

from allocation.explainer.families import (
    CLAIM_FAMILIES,
    CLASSES,
    DURATION_FAMILIES,
    OTHER,
    OWN_FAMILIES,
)
from kubeapi.event_recorder import Result
from serving.families import Rows
from serving.prometheus import Registry


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the process at one moment, gathered for each scrape."""

    leading: bool
    watch_ages: Mapping[str, float]
    """Seconds, by collection."""
    untrusted: Mapping[str, bool]
    undecodable: int
    look_age: float | None
    """Seconds since the last one that was finished; None: this replica does not look."""
    evaluator_starts: int


class LookReading(msgspec.Struct, frozen=True, kw_only=True):
    """What one look found."""

    rows: Rows
    dropped: Mapping[str, int]
    seconds: float
    unexplained: int
    reason_age: float


class Metrics:
    """Every family of the tables. Thread-safe."""

    def __init__(self, version: str = "") -> None:
        self._registry = Registry((*OWN_FAMILIES, *DURATION_FAMILIES), CLAIM_FAMILIES)
        self._guard = threading.Lock()
        self._evaluator_starts = 0
        self._classes = set[str]()
        for result in ("posted", "failed", "dropped"):
            self._registry.counters["events"].labels(result)
        self._registry.gauges["build_info"].labels(version).set(1)

    def count_answer(self, verb: str, status: int | None) -> None:
        """Count one answer of the API server, None for no answer. Any thread may call it."""
        code = "none" if status is None else str(status)
        self._registry.counters["api_requests"].labels(verb, code).inc()

    def count_event(self, result: Result) -> None:
        self._registry.counters["events"].labels(result).inc()

    def count_failed_look(self) -> None:
        self._registry.counters["look_failures"].inc()

    def observe(self, family: str, device_class: str, seconds: float) -> None:
        """Count one step on a claim's way; tenants may invent any number of classes."""
        if len(self._classes) < CLASSES:
            self._classes.add(device_class)
        name = device_class if device_class in self._classes else OTHER
        self._registry.histograms[family].labels(name).observe(seconds)

    def show(self, look: LookReading | None) -> None:
        """Replace what is exported of claims; None: it is not known, or another replica leads."""
        gauges = self._registry.gauges
        with self._guard:
            self._registry.show(look.rows if look else {})
            dropped: Mapping[str, int] = look.dropped if look else {}
            self._registry.replace(
                "rows_dropped", {(name,): float(count) for name, count in dropped.items()}
            )
            if look is not None:
                gauges["look_seconds"].set(look.seconds)
            gauges["unexplained_pods"].set(look.unexplained if look else 0)
            gauges["reason_age_seconds"].set(look.reason_age if look else 0)

    def page(self, now: Reading, *, openmetrics: bool) -> bytes:
        """Return the page of this moment."""
        gauges = self._registry.gauges
        with self._guard:
            gauges["leader"].set(now.leading)
            gauges["undecodable_objects"].set(now.undecodable)
            gauges["look_age_seconds"].set(nan if now.look_age is None else now.look_age)
            untrusted = {(kind,): float(value) for kind, value in now.untrusted.items()}
            self._registry.replace("collection_untrusted", untrusted)
            ages = {(kind,): age for kind, age in now.watch_ages.items()}
            self._registry.replace("watch_age_seconds", ages)
            # The evaluator counts from its start: add what is new since the last page.
            new = now.evaluator_starts - self._evaluator_starts
            self._registry.counters["evaluator_starts"].inc(new)
            self._evaluator_starts = now.evaluator_starts
            return self._registry.page(openmetrics=openmetrics)
