"""The rules where scrapes overlap or contradict each other, on a real Prometheus.

The scenario is that of tests/dashboards/crowd.py: one node and two replicas of the remediator,
scraped once, and again as a new pod, by a second Prometheus, by a second job.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from alerts.__main__ import FOLDER
from tests.dashboards import crowd
from tests.exporter.running import free_port
from tests.lab.cluster import await_true
from tests.lab.prometheus import Prometheus

RULES = FOLDER / "draguard.rules.yaml"
Json = dict[str, Any]
Series = tuple[str, frozenset[tuple[str, str]]]
Alerts = set[Series]
Recorded = dict[Series, float]
REPORTED = {
    "DraguardAgentStale",
    "DraguardClaimIdle",
    "DraguardDeviceTainted",
    "DraguardEvictionBlocked",
    "DraguardExporterDown",
    "DraguardGpuMissing",
    "DraguardDeferredByBudget",
    "DraguardKernelLogIncomplete",
    "DraguardRuleStatusMissing",
    "DraguardSignalsDropped",
    "DraguardSliceFault",
    "DraguardSourceDown",
}
"""The alerts of the scenario, in which every counter of a page grows."""
FORGOTTEN_AFTER = "20m"
"""Instead of five: nothing is scraped, and a busy machine is slow."""


class Evaluated(NamedTuple):
    prometheus: Prometheus

    def at_once(self, *clusters: str) -> list[tuple[Alerts, Recorded]]:
        """Return alerts and recorded series, by cluster, at one moment.

        Rules are evaluated continuously: two queries would see two moments.
        """
        desired = "|".join(clusters)
        found = self.prometheus.query(f'{{__name__=~"ALERTS|.+:.+:.+",cluster=~"{desired}"}}')
        return [
            (_alerts(metrics), _recorded(metrics))
            for metrics in (
                [series for series in found if series["metric"]["cluster"] == cluster]
                for cluster in clusters
            )
        ]


def _alerts(found: list[Json]) -> Alerts:
    """Return alerts, pending ones too, by name and labels."""
    aside = {"cluster", "alertname", "alertstate", "__name__"}
    return {
        (
            series["metric"]["alertname"],
            frozenset(item for item in series["metric"].items() if item[0] not in aside),
        )
        for series in found
        if series["metric"]["__name__"] == "ALERTS"
    }


def _recorded(found: list[Json]) -> Recorded:
    """Return the recorded series, except times and counts of targets."""
    return {
        (
            series["metric"]["__name__"],
            frozenset(item for item in series["metric"].items() if item[0] != "cluster"),
        ): float(series["value"][1])
        for series in found
        if not series["metric"]["__name__"].startswith(("ALERTS", "job:"))
    }


@pytest.fixture(scope="module")
def evaluated(
    prometheus_built: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Evaluated]:
    folder = tmp_path_factory.mktemp("crowd")
    crowd.write(int(time.time()), prometheus_built, folder / "data")
    patient = f"--query.lookback-delta={FORGOTTEN_AFTER}"
    port = free_port()
    with Prometheus(
        prometheus_built, folder, {}, port=port, rules=[RULES], flags=[patient]
    ) as prometheus:
        await_true(
            "every rule was evaluated",
            lambda: all(rule["health"] != "unknown" for rule in prometheus.rules()),
        )
        yield Evaluated(prometheus)


def test_no_rule_fails(evaluated: Evaluated) -> None:
    rules = evaluated.prometheus.rules()

    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []


def names(evaluated: Evaluated) -> set[str]:
    ((alerts, _),) = evaluated.at_once(crowd.ONCE)
    return {name for name, _ in alerts}


def test_the_incident_is_one_that_alerts(evaluated: Evaluated) -> None:
    """Two empty results would be equal, too."""
    found: set[str] = set()

    def reported() -> bool:
        nonlocal found
        found = names(evaluated)
        return found == REPORTED

    with suppress(AssertionError):
        await_true("every alert", reported)
    assert found == REPORTED


@pytest.mark.parametrize("shape", [name for name in crowd.SAME if name != crowd.ONCE])
def test_what_is_reported_twice_is_one_alert_and_recorded_once(
    shape: str, evaluated: Evaluated
) -> None:
    await_true("alerts", lambda: names(evaluated) >= REPORTED)
    reported: list[tuple[Alerts, Recorded]] = []

    def alike() -> bool:
        nonlocal reported
        reported = evaluated.at_once(shape, crowd.ONCE)
        return reported[0] == reported[1]

    with suppress(AssertionError):
        await_true("the same", alike)
    assert reported[0] == reported[1]
