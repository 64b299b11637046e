"""What Prometheus' operator, Grafana's sidecar and the grafana-operator are given."""

import json
from pathlib import Path

import pytest
import yaml

from deploy.sources import ROOT
from tests.deploy import rendered
from tests.deploy.rendered import Json
from tests.deploy.settings import SETTINGS

pytestmark = pytest.mark.usefixtures("helm_built")
OPERATORS = {"ServiceMonitor", "PodMonitor", "PrometheusRule", "GrafanaDashboard"}
DASHBOARDS = sorted((ROOT / "dashboards" / "json").glob("*.json"))
RULES = ROOT / "alerts" / "generated" / "draguard.rules.yaml"
OURS = {"pod", "namespace", "container"}
"""Labels with which our pages say who holds a device."""


def of_kind(setting: str, kind: str) -> list[Json]:
    return [
        manifest for manifest in rendered.objects(SETTINGS[setting]) if manifest["kind"] == kind
    ]


def test_by_default_nothing_needs_an_operator() -> None:
    assert not {manifest["kind"] for manifest in rendered.objects()} & OPERATORS


def endpoints(setting: str) -> dict[str, Json]:
    found = [*of_kind(setting, "ServiceMonitor"), *of_kind(setting, "PodMonitor")]
    return {
        monitor["metadata"]["name"]: (
            monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
        )[0]
        for monitor in found
    }


@pytest.mark.parametrize("setting", ["ServiceMonitors", "PodMonitors"])
def test_a_monitor_keeps_our_labels_and_adds_none_that_would_stand_for_a_holder(
    setting: str,
) -> None:
    found = endpoints(setting)

    assert found.keys() == {"draguard-exporter", "draguard-remediator", "draguard-explainer"}
    for name, endpoint in found.items():
        assert endpoint["honorLabels"] is True
        assert endpoint["port"] == "metrics"
        jobs = [
            step["replacement"]
            for step in endpoint["relabelings"]
            if step.get("targetLabel") == "job"
        ]
        assert jobs == [name]
        (drop,) = [step for step in endpoint["relabelings"] if step.get("action") == "labeldrop"]
        assert set(drop["regex"].split("|")) >= OURS


@pytest.mark.parametrize("setting", ["ServiceMonitors", "PodMonitors"])
def test_a_target_that_is_down_says_of_which_node(setting: str) -> None:
    steps = endpoints(setting)["draguard-exporter"]["relabelings"]

    assert {
        "action": "replace",
        "sourceLabels": ["__meta_kubernetes_pod_node_name"],
        "targetLabel": "node",
    } in steps


def test_a_service_monitor_selects_the_service_that_has_its_port() -> None:
    objects = rendered.objects(SETTINGS["ServiceMonitors"])
    services = {
        manifest["metadata"]["name"]: manifest
        for manifest in objects
        if manifest["kind"] == "Service"
    }

    for monitor in of_kind("ServiceMonitors", "ServiceMonitor"):
        desired = monitor["spec"]["selector"]["matchLabels"].items()
        (service,) = [
            found for found in services.values() if desired <= found["metadata"]["labels"].items()
        ]
        assert service["metadata"]["name"] == monitor["metadata"]["name"]
        assert [port["name"] for port in service["spec"]["ports"]] == ["metrics"]


def ports_of(pod: Json) -> list[str]:
    return [port["name"] for container in pod["containers"] for port in container.get("ports", ())]


@pytest.mark.parametrize("setting", ["ServiceMonitors", "PodMonitors"])
def test_what_a_monitor_finds_is_in_its_own_namespace_and_has_the_port(setting: str) -> None:
    """Without a namespaceSelector an operator looks beside the monitor alone."""
    objects = rendered.objects(SETTINGS[setting])
    pods = [
        manifest["spec"]["template"]
        for manifest in objects
        if "template" in manifest.get("spec", {})
    ]
    services = [manifest for manifest in objects if manifest["kind"] == "Service"]

    for monitor in [*of_kind(setting, "ServiceMonitor"), *of_kind(setting, "PodMonitor")]:
        assert "namespaceSelector" not in monitor["spec"]
        desired = monitor["spec"]["selector"]["matchLabels"].items()
        (pod,) = [found for found in pods if desired <= found["metadata"]["labels"].items()]
        assert ports_of(pod["spec"]) == ["metrics"]
        (service,) = [
            found
            for found in services
            if found["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        ]
        assert {port["targetPort"] for port in service["spec"]["ports"]} == {"metrics"}
        assert service["metadata"]["namespace"] == monitor["metadata"]["namespace"]


def test_monitors_carry_the_labels_that_a_prometheus_selects_by() -> None:
    for monitor in of_kind("ServiceMonitors", "ServiceMonitor"):
        assert monitor["metadata"]["labels"]["release"] == "kube-prometheus-stack"


@pytest.mark.parametrize("kind", ["ServiceMonitors", "PodMonitors"])
def test_the_name_of_the_cluster_is_a_label_of_the_target(kind: str) -> None:
    """Before the user's own relabelings, which may say otherwise."""
    own = (
        "monitoring.relabelings[0].targetLabel=cluster",
        "monitoring.relabelings[0].replacement=mine",
    )
    for found in rendered.objects((*SETTINGS[kind], "clusterName=east-1", *own)):
        if found["kind"] in ("ServiceMonitor", "PodMonitor"):
            spec = found["spec"]
            (endpoint,) = spec.get("endpoints") or spec["podMetricsEndpoints"]
            steps = [
                step["replacement"]
                for step in endpoint["relabelings"]
                if step.get("targetLabel") == "cluster"
            ]
            assert steps == ["east-1", "mine"]


def test_a_cluster_without_a_name_gets_no_label() -> None:
    for found in rendered.objects(SETTINGS["ServiceMonitors"]):
        if found["kind"] == "ServiceMonitor":
            assert "'cluster'" not in str(found["spec"]["endpoints"])


def test_a_page_under_tls_is_scraped_under_tls() -> None:
    """Each by its own values: only those of the exporter name a user here."""
    objects = rendered.objects((*SETTINGS["TLS"], *SETTINGS["ServiceMonitors"]))
    one, *others = [
        found["spec"]["endpoints"][0] for found in objects if found["kind"] == "ServiceMonitor"
    ]

    assert one["scheme"] == "https"
    assert one["tlsConfig"] == {"insecureSkipVerify": True}
    assert one["basicAuth"]["username"] == {"name": "scrape", "key": "user"}
    assert [other["scheme"] for other in others] == ["https", "https"]
    assert not [other for other in others if "basicAuth" in other]


def test_every_dashboard_is_a_config_map_that_the_sidecar_finds() -> None:
    found = of_kind("dashboards", "ConfigMap")
    boards = {
        name: text
        for config_map in found
        for name, text in config_map["data"].items()
        if name.endswith(".json")
    }

    assert boards.keys() == {path.name for path in DASHBOARDS}
    for path in DASHBOARDS:
        assert json.loads(boards[path.name]) == json.loads(path.read_text(encoding="utf-8"))
    for config_map in found:
        if "dashboard" in config_map["metadata"]["name"]:
            assert config_map["metadata"]["namespace"] == "monitoring"
            assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
            assert config_map["metadata"]["annotations"] == {"grafana_folder": "Draguard"}


def test_the_grafana_operator_reads_the_same_config_maps() -> None:
    maps = {
        config_map["metadata"]["name"]: config_map
        for config_map in of_kind("dashboards", "ConfigMap")
    }

    found = of_kind("dashboards", "GrafanaDashboard")
    assert len(found) == len(DASHBOARDS)
    for dashboard in found:
        reference = dashboard["spec"]["configMapRef"]
        assert reference["key"] in maps[reference["name"]]["data"]
        assert (
            dashboard["metadata"]["namespace"] == maps[reference["name"]]["metadata"]["namespace"]
        )
        assert dashboard["spec"]["instanceSelector"] == {"matchLabels": {"dashboards": "grafana"}}


def rules_of(groups: list[Json]) -> list[Json]:
    return [rule for group in groups for rule in group["rules"]]


def source() -> list[Json]:
    found: list[Json] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return found


def without_urls(rule: Json) -> Json:
    kept = {
        name: text
        for name, text in rule.get("annotations", {}).items()
        if not name.endswith("_url")
    }
    return {**rule, "annotations": kept}


def test_the_prometheus_rule_has_every_rule_as_it_was_tested() -> None:
    (one,) = of_kind("rules", "PrometheusRule")
    found = one["spec"]["groups"]

    assert [group["name"] for group in found] == [group["name"] for group in source()]
    assert list(map(without_urls, rules_of(found))) == list(map(without_urls, rules_of(source())))


def test_its_pages_lead_to_where_runbooks_and_dashboards_are_served() -> None:
    (one,) = of_kind("rules", "PrometheusRule")
    alerts = [rule for rule in rules_of(one["spec"]["groups"]) if "alert" in rule]

    for rule in alerts:
        runbook = rule["annotations"]["runbook_url"]
        assert runbook == f"https://wiki.example.org/runbooks/{rule['alert']}.md"
    boards = [rule["annotations"].get("dashboard_url", "") for rule in alerts]
    assert any(boards)
    assert all(link.startswith("https://grafana.example.org/g/d/") for link in boards if link)


def test_a_page_has_no_url_that_leads_nowhere() -> None:
    text = rendered.text(("monitoring.rules.enabled=true",))

    assert "runbook_url" not in text
    assert "example.com" not in text


def test_alerts_can_be_left_out_and_get_labels_and_another_severity() -> None:
    settings = (
        "monitoring.rules.enabled=true",
        "monitoring.rules.disabled={DraguardClaimIdle}",
        "monitoring.rules.severities.DraguardGpuGone=warning",
        "monitoring.rules.alertLabels.team=gpu",
        "monitoring.rules.alertLabels.severity=info",
    )
    (one,) = rendered.of_kind(rendered.objects(settings), "PrometheusRule")
    found = {rule["alert"]: rule for rule in rules_of(one["spec"]["groups"]) if "alert" in rule}
    tested = {rule["alert"]: rule for rule in rules_of(source()) if "alert" in rule}

    assert tested.keys() - found.keys() == {"DraguardClaimIdle"}
    assert found["DraguardGpuGone"]["labels"].pop("severity") == "warning"
    assert tested["DraguardGpuGone"]["labels"].pop("severity") == "critical"
    # A label for all replaces none of an alert's own.
    assert all(
        rule["labels"] == {"team": "gpu"} | tested[name]["labels"] for name, rule in found.items()
    )


@pytest.mark.parametrize("value", ["disabled={DraguardGpuLots}", "severities.DraguardGpuLots=info"])
def test_an_alert_that_does_not_exist_is_refused_by_name(value: str) -> None:
    from deploy.program import HelmError

    with pytest.raises(HelmError, match="the alert DraguardGpuLots, which does not exist"):
        rendered.text(("monitoring.rules.enabled=true", f"monitoring.rules.{value}"))


@pytest.mark.parametrize("label", ["cluster", "node", "UUID", "incident", "instance", "pod"])
def test_a_label_that_tells_alerts_apart_is_refused(label: str) -> None:
    """Alerts with the same labels would end the whole rule."""
    from deploy.program import HelmError

    setting = f"monitoring.rules.alertLabels.{label}=x"
    with pytest.raises(HelmError, match=f"cannot set {label}: alerts have this label"):
        rendered.text(("monitoring.rules.enabled=true", setting))


def test_a_chart_without_its_rules_says_what_to_run(tmp_path: Path) -> None:
    """As from a checkout in which nothing was generated."""
    from deploy.program import HelmError
    from deploy.program import rendered as helm
    from deploy.sources import CHART

    for path in CHART.rglob("*"):
        if path.is_file() and "files" not in path.parts:
            copy = tmp_path / path.relative_to(CHART)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())

    with pytest.raises(HelmError, match="make generate"):
        helm(tmp_path, ("monitoring.rules.enabled=true",))
