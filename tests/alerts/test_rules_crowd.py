"""The rules where pages overlap or contradict each other, on a real Prometheus: no other alert.

The story is that of tests/dashboards/crowd.py: one node and two replicas of the remediator, told
once, and told again by a new pod, a second Prometheus, a second job.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from alerts.__main__ import FOLDER
from tests.dashboards import crowd
from tests.exporter.running import free_port
from tests.lab.cluster import await_true
from tests.lab.prometheus import Prometheus

RULES = FOLDER / "draguard.rules.yaml"
Series = tuple[str, frozenset[tuple[str, str]]]
Alerts = set[Series]
Recorded = dict[Series, float]
TOLD = {
    "DraguardAgentStale",
    "DraguardClaimIdle",
    "DraguardDeviceFenced",
    "DraguardExporterDown",
    "DraguardGpuMissing",
    "DraguardHeldByBudget",
    "DraguardRuleStatusMissing",
    "DraguardSliceFault",
    "DraguardSourceDown",
}
"""What the story is told of by."""
FORGOTTEN_AFTER = "20m"
"""Instead of five: nothing is scraped, and a busy machine takes its time."""


class Evaluated(NamedTuple):
    prometheus: Prometheus

    def alerts(self, cluster: str) -> Alerts:
        """Return the alerts of a cluster, pending ones too, by name and labels."""
        found = self.prometheus.query(f'ALERTS{{cluster="{cluster}"}}')
        aside = {"cluster", "alertname", "alertstate", "__name__"}
        return {
            (
                one["metric"]["alertname"],
                frozenset(item for item in one["metric"].items() if item[0] not in aside),
            )
            for one in found
        }

    def recorded(self, cluster: str) -> Recorded:
        """Return what was recorded of a cluster, but times and what counts pages."""
        found = self.prometheus.query(f'{{__name__=~".+:.+:.+",cluster="{cluster}"}}')
        return {
            (
                one["metric"]["__name__"],
                frozenset(item for item in one["metric"].items() if item[0] != "cluster"),
            ): float(one["value"][1])
            for one in found
            if not one["metric"]["__name__"].startswith("job:")
        }

    def all(self, cluster: str) -> tuple[Alerts, Recorded]:
        return self.alerts(cluster), self.recorded(cluster)


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

    assert [(one["name"], one.get("lastError")) for one in rules if one["health"] != "ok"] == []


def names(evaluated: Evaluated) -> set[str]:
    return {name for name, _ in evaluated.alerts(crowd.ONCE)}


def test_the_story_is_one_that_alerts(evaluated: Evaluated) -> None:
    """Two that say nothing would be alike, too."""
    with suppress(AssertionError):
        await_true("every alert", lambda: names(evaluated) == TOLD)
    assert names(evaluated) == TOLD


@pytest.mark.parametrize("shape", [name for name in crowd.SAME if name != crowd.ONCE])
def test_what_is_told_twice_is_one_alert_and_recorded_once(
    shape: str, evaluated: Evaluated
) -> None:
    await_true("alerts", lambda: names(evaluated) >= TOLD)
    with suppress(AssertionError):
        await_true("the same", lambda: evaluated.all(shape) == evaluated.all(crowd.ONCE))
    assert evaluated.all(shape) == evaluated.all(crowd.ONCE)
