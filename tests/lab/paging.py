"""From pages of metrics to whoever is paged: real Prometheus, real Alertmanager, on loopback.

The shipped rules and the shipped routing, with one change: a minute is shorter, for both alike, so
that everything still comes in the shipped order.
"""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.exporter.running import free_port
from tests.lab.alertmanager import Alertmanager, Pager, rehearsed, shortened
from tests.lab.cluster import await_true
from tests.lab.prometheus import Prometheus

ALERTS = Path(__file__).parents[2] / "alerts"
RULES = ALERTS / "generated" / "draguard.rules.yaml"
CONFIG = ALERTS / "alertmanager" / "alertmanager.yml"
TEMPLATE = ALERTS / "alertmanager" / "draguard.tmpl"
Json = dict[str, Any]


class Programs(NamedTuple):
    prometheus: Path
    alertmanager: Path


class Target(NamedTuple):
    """A page to scrape, and the labels that a discovery would give it."""

    address: str
    labels: Mapping[str, str]


class Paging(NamedTuple):
    prometheus: Prometheus
    alertmanager: Alertmanager
    pager: Pager


@contextmanager
def paging(
    programs: Programs, folder: Path, targets: Mapping[str, Target], *, minute: float
) -> Generator[Paging]:
    """Run both servers; when the block begins, Prometheus knows Alertmanager and its targets."""
    port = free_port()
    with Pager() as pager:
        config = rehearsed(CONFIG, folder, pager.url, minute=minute)
        with Alertmanager(programs.alertmanager, folder, config, port=port) as alertmanager:
            prometheus = Prometheus(programs.prometheus, folder, {}, port=free_port())
            _configure(folder, targets, alertmanager.address, minute)
            with prometheus as server:
                up = f"count(up == 1) == {len(targets)}"
                await_true("every target is up", lambda: server.query(up))
                # An alert that fires before Alertmanager is known is notified a minute late.
                await_true("pages arrive", lambda: pager.taken("/draguard-watchdog"))
                yield Paging(server, alertmanager, pager)


def _configure(
    folder: Path, targets: Mapping[str, Target], alertmanager: str, minute: float
) -> None:
    rules = folder / "rules.yaml"
    rules.write_text(yaml.safe_dump(_hastened(RULES, minute)), encoding="utf-8")
    config = {
        "global": {
            # As long may a scrape take: a page that stalls for a second is not down.
            "scrape_interval": "5s",
            "evaluation_interval": "1s",
            "external_labels": {"cluster": "lab"},
        },
        "rule_files": [str(rules)],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [_job(name, target) for name, target in targets.items()],
    }
    (folder / "prometheus.json").write_text(json.dumps(config), encoding="utf-8")


def _job(name: str, target: Target) -> Json:
    there = {"targets": [target.address], "labels": dict(target.labels)}
    return {"job_name": name, "honor_labels": True, "static_configs": [there]}


def _hastened(path: Path, minute: float) -> Json:
    rules = yaml.safe_load(path.read_text(encoding="utf-8"))
    for group in rules["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            for key in rule.keys() & {"for", "keep_firing_for"}:
                rule[key] = shortened(rule[key], minute)
    return rules
