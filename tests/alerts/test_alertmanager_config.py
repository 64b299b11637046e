"""The example configuration: amtool accepts it, it routes by severity, and no guard is missing."""

import re
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts.table import alerts
from tests.lab.alertmanager import amtool

SHIPPED = Path(__file__).parents[2] / "alerts" / "alertmanager" / "alertmanager.yml"
CONFIG: dict[str, Any] = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
RECEIVERS = {
    "critical": "draguard-page",
    "warning": "draguard-ticket",
    "info": "draguard-context",
}
SEVERITIES: dict[str, str] = {alert.name: alert.severity for alert in alerts()}
RULES: list[dict[str, Any]] = CONFIG["inhibit_rules"]
SIDES = ("source_matchers", "target_matchers")


def route_of(programs: Path, **labels: str) -> str:
    given = [f'{name}="{value}"' for name, value in labels.items()]
    done = amtool(programs, "config", "routes", "test", f"--config.file={SHIPPED}", *given)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_real_amtool_takes_the_shipped_file(alertmanager_built: Path) -> None:
    done = amtool(alertmanager_built, "check-config", str(SHIPPED))

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} inhibit rules" in done.stdout
    assert "1 templates" in done.stdout


def test_so_does_the_oldest(amtool_0_25_built: Path) -> None:
    done = amtool(amtool_0_25_built, "check-config", str(SHIPPED))

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", [name for name in SEVERITIES if name != "DraguardWatchdog"])
def test_each_alert_goes_where_its_severity_says(alertmanager_built: Path, name: str) -> None:
    severity = SEVERITIES[name]

    assert route_of(alertmanager_built, alertname=name, severity=severity) == RECEIVERS[severity]


def test_the_watchdog_goes_to_who_listens_for_silence(alertmanager_built: Path) -> None:
    route = route_of(alertmanager_built, alertname="DraguardWatchdog", severity="info")

    assert route == "draguard-watchdog"


def test_what_is_not_draguards_goes_where_it_went_before(alertmanager_built: Path) -> None:
    route = route_of(alertmanager_built, alertname="KubeNodeNotReady", severity="critical")

    assert route == "default"


def test_every_alert_that_the_file_names_exists() -> None:
    named = set(re.findall(r"Draguard[A-Z]\w+", SHIPPED.read_text(encoding="utf-8")))

    assert named - set(SEVERITIES) == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["source_matchers"][0]))
def test_a_label_that_must_be_equal_must_also_be_there(rule: dict[str, Any]) -> None:
    """Alertmanager treats a label that is missing on both sides as equal."""
    for label in set(rule["equal"]) - {"cluster"}:
        assert [side for side in SIDES if f'{label} =~ ".+"' not in rule[side]] == []
    assert "cluster" in rule["equal"]


MATCHER = re.compile(r'(\w+) (=~|!~|=|!=) "(.*)"')


def matches(matchers: list[str], labels: dict[str, str]) -> bool:
    for matcher in matchers:
        found = MATCHER.fullmatch(matcher)
        assert found, matcher
        name, operator, value = found.groups()
        pattern = value if "~" in operator else re.escape(value)
        if bool(re.fullmatch(pattern, labels.get(name, ""))) == operator.startswith("!"):
            return False
    return True


def inhibits(source: dict[str, str], target: dict[str, str]) -> bool:
    """Whether a rule lets one inhibit the other; labels that both have are equal."""
    equal = {name for name in {*source, *target} if source.get(name) == target.get(name)}
    sides = (
        (rule["source_matchers"], rule["target_matchers"])
        for rule in RULES
        if set(rule["equal"]) <= equal
    )
    return any(
        matches(one, source)
        and matches(two, target)
        and not (matches(one, target) and matches(two, source))
        for one, two in sides
    )


def test_no_two_alerts_inhibit_each_other_not_even_around_a_corner() -> None:
    """They would mute each other, and no notification would be sent."""
    ours: dict[str, dict[str, str]] = {
        alert.name: dict.fromkeys(alert.of.labels, "same") for alert in alerts()
    }
    theirs: dict[str, dict[str, str]] = {
        "KubeNodeNotReady": dict.fromkeys(("cluster", "node"), "same"),
        "GpuTooHot": dict.fromkeys(("cluster", "node", "UUID"), "same"),
    }
    fire = {
        name: {"alertname": name, "severity": SEVERITIES.get(name, "critical"), **labels}
        for name, labels in {**ours, **theirs}.items()
    }
    inhibited_by = {
        name: {other for other in fire if other != name and inhibits(fire[other], target)}
        for name, target in fire.items()
    }

    assert {"KubeNodeNotReady", "DraguardGpuGone"} <= inhibited_by["DraguardDeviceSick"]
    assert list(TopologicalSorter(inhibited_by).static_order())
