"""Links: what cannot be followed cannot be written."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dashboards.catalogue import (
    CLAIM,
    DEVICE,
    FLEET,
    NODE,
    REMEDIATION,
    LinkError,
    alert_path,
    path,
)
from dashboards.panel import Link


def test_a_path_names_the_dashboard_and_its_variables() -> None:
    assert path(FLEET, {}) == "/d/draguard-fleet"
    assert path(NODE, {"node": "a", "cluster": "b"}) == "/d/draguard-node?var-node=a&var-cluster=b"


def test_an_alerts_path_escapes_values_and_leaves_out_a_label_that_is_not_there() -> None:
    made = alert_path(DEVICE, {"cluster": "cluster", "uuid": "UUID"})

    assert made == (
        "/d/draguard-device?var-uuid={{ $labels.UUID | urlquery }}"
        "{{ with $labels.cluster }}&var-cluster={{ . | urlquery }}{{ end }}"
    )


def test_an_alerts_path_is_whole_whichever_labels_an_alert_has(prometheus_built: Path) -> None:
    """Rendered by the real templates of Prometheus: the first parameter follows `?`, others `&`."""
    made = alert_path(REMEDIATION, {"cluster": "cluster", "node": "node", "incident": "incident"})

    for labels, expected in (
        ({}, ""),
        ({"cluster": "a"}, "?var-cluster=a"),
        ({"node": "b"}, "?var-node=b"),
        ({"incident": "c d"}, "?var-incident=c+d"),
        ({"cluster": "a", "incident": "c"}, "?var-cluster=a&var-incident=c"),
        ({"cluster": "a", "node": "b"}, "?var-cluster=a&var-node=b"),
    ):
        url = f"/d/draguard-remediation{expected}"
        assert_annotated(prometheus_built, made, labels, url)


def assert_annotated(
    programs: Path, template: str, labels: Mapping[str, str], expected: str
) -> None:
    """Let the real promtool fill in an annotation of an alert with those labels."""
    rule = {"alert": "One", "expr": "up", "annotations": {"dashboard_url": template}}
    reported = ", ".join(f'{name}="{value}"' for name, value in labels.items())
    alert = {"exp_labels": labels, "exp_annotations": {"dashboard_url": expected}}
    test = {
        "interval": "1m",
        "input_series": [{"series": f"up{{{reported}}}", "values": "1x5"}],
        "alert_rule_test": [{"eval_time": "2m", "alertname": "One", "exp_alerts": [alert]}],
    }
    with TemporaryDirectory() as folder:
        rules, requested = Path(folder) / "rules.json", Path(folder) / "asked.json"
        rules.write_text(json.dumps({"groups": [{"name": "one", "rules": [rule]}]}))
        requested.write_text(json.dumps({"rule_files": [str(rules)], "tests": [test]}))
        done = subprocess.run(
            [programs / "promtool", "test", "rules", requested],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("make", [path, alert_path])
def test_a_variable_that_the_dashboard_does_not_have_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(LinkError, match=r"draguard-device has no variable \['gpu'\]"):
        make(DEVICE, {"uuid": "UUID", "gpu": "gpu"})


@pytest.mark.parametrize("make", [path, alert_path])
def test_a_variable_that_the_dashboard_needs_must_be_given(make: object) -> None:
    assert callable(make)
    with pytest.raises(LinkError, match=r"draguard-device needs a value for \['uuid'\]"):
        make(DEVICE, {"cluster": "cluster"})


def test_a_link_in_a_panel_is_checked_when_it_is_declared() -> None:
    with pytest.raises(LinkError, match=r"unknown variables \['pod'\], missing variables"):
        Link(title="Claim", board=CLAIM, labels={"pod": "pod"})


def test_a_link_takes_its_variables_from_the_row_or_series_and_keeps_time_and_source() -> None:
    link = Link(title="Node", board=NODE, labels={"cluster": "cluster", "node": "Hostname"})

    assert link.of_series() == (
        "/d/draguard-node?${datasource:queryparam}&var-cluster=${__field.labels.cluster:percentencode}"
        "&var-node=${__field.labels.Hostname:percentencode}&${__url_time_range}"
    )
    assert link.of_row({"cluster", "Hostname"}) == link.of_series().replace(
        "__field.labels", "__data.fields"
    )


def test_a_row_without_its_cluster_keeps_the_clusters_that_were_chosen() -> None:
    link = Link(title="Node", board=NODE, labels={"cluster": "cluster", "node": "Hostname"})

    assert link.of_row({"Hostname"}) == (
        "/d/draguard-node?${datasource:queryparam}&${cluster:queryparam}"
        "&var-node=${__data.fields.Hostname:percentencode}&${__url_time_range}"
    )


def test_the_catalogue_and_the_queries_are_there_without_grafanalib() -> None:
    """Rules are made where nothing draws a dashboard."""
    script = (
        "import sys; from dashboards import catalogue, boards; list(boards.queries());"
        "print([name for name in sys.modules if name.startswith('grafanalib')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )

    assert ran.stdout.strip() == "[]"
