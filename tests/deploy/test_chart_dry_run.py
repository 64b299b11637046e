"""Every object of every setting, as the real API server takes it: strictly, without storing.

Operators are not here, but their kinds are: ServiceMonitor, PodMonitor and PrometheusRule from the
CRDs of Prometheus' operator, GrafanaDashboard from that of the grafana-operator.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import manifests
from deploy.sources import ROOT
from simulator.cluster.controlplane import ControlPlane, ControlPlaneError
from tests.deploy import rendered
from tests.deploy.settings import EVERYTHING, SETTINGS
from tests.lab import operators

Json = dict[str, Any]
pytestmark = [pytest.mark.usefixtures("helm_built"), pytest.mark.verify]
OF_OPERATORS = ("monitoring.coreos.com/", "grafana.integreatly.org/")


def tried(plane: ControlPlane, text: str) -> str:
    """Apply without storing; raises ControlPlaneError where one object is refused."""
    requested = (
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        "--validate=strict",
    )
    return plane.kubectl(*requested, "-f", "-", stdin=text)


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_api_server_takes_every_object(operators_known: ControlPlane, setting: str) -> None:
    text = rendered.text(SETTINGS[setting])

    assert len(tried(operators_known, text).splitlines()) == len(list(yaml.safe_load_all(text)))


FILES = [*sorted(manifests.FOLDER.glob("*.yaml")), ROOT / "alerts/generated/prometheusrule.yaml"]


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_the_api_server_takes_every_plain_manifest(
    operators_known: ControlPlane, file: Path
) -> None:
    text = file.read_text(encoding="utf-8")

    assert len(tried(operators_known, text).splitlines()) == len(list(yaml.safe_load_all(text)))


def of_operators() -> dict[str, Json]:
    """Return one rendered object of each kind that an operator brings along."""
    settings = (*EVERYTHING, *SETTINGS["PodMonitors"], "monitoring.serviceMonitor.enabled=false")
    found = [*rendered.objects(EVERYTHING), *rendered.objects(settings)]
    return {
        manifest["kind"]: manifest
        for manifest in found
        if manifest["apiVersion"].startswith(OF_OPERATORS)
    }


def test_every_kind_of_an_operator_is_looked_at() -> None:
    kinds = {f"{kind}s".lower() for kind in of_operators()}

    assert kinds == {*operators.OF_THE_CHART}


def unknown(manifest: Json) -> None:
    manifest["spec"]["selektor"] = {}


def port(manifest: Json) -> None:
    manifest["spec"]["endpoints"][0]["port"] = 9400


def pod_port(manifest: Json) -> None:
    manifest["spec"]["podMetricsEndpoints"][0]["honourLabels"] = True


def interval(manifest: Json) -> None:
    manifest["spec"]["endpoints"][0]["interval"] = "often"


def step(manifest: Json) -> None:
    manifest["spec"]["podMetricsEndpoints"][0]["relabelings"][0]["action"] = "rename"


def selector(manifest: Json) -> None:
    del manifest["spec"]["selector"]


def expression(manifest: Json) -> None:
    del manifest["spec"]["groups"][0]["rules"][0]["expr"]


def patience(manifest: Json) -> None:
    manifest["spec"]["groups"][0]["rules"][0]["for"] = "a while"


def instances(manifest: Json) -> None:
    manifest["spec"]["instanceSelector"]["matchLabels"]["dashboards"] = True


MISTAKES: list[tuple[str, Callable[[Json], None], str]] = [
    ("ServiceMonitor", unknown, "selektor"),
    ("ServiceMonitor", port, "endpoints"),
    ("ServiceMonitor", interval, "interval"),
    ("ServiceMonitor", selector, "selector"),
    ("PodMonitor", unknown, "selektor"),
    ("PodMonitor", pod_port, "honourLabels"),
    ("PodMonitor", step, "action"),
    ("PrometheusRule", unknown, "selektor"),
    ("PrometheusRule", expression, "expr"),
    ("PrometheusRule", patience, "for"),
    ("GrafanaDashboard", unknown, "selektor"),
    ("GrafanaDashboard", instances, "matchLabels"),
]


@pytest.mark.parametrize(("kind", "mistake", "named"), MISTAKES)
def test_a_mistake_in_it_would_be_noticed(
    operators_known: ControlPlane, kind: str, mistake: Callable[[Json], None], named: str
) -> None:
    one = of_operators()[kind]
    assert tried(operators_known, yaml.safe_dump(one))

    mistake(one)

    with pytest.raises(ControlPlaneError, match=named):
        tried(operators_known, yaml.safe_dump(one))


AFTERWARDS = [
    ("dashboards.grafanaOperator.instanceLabels.dashboards=other", "immutable"),
    ("dashboards.grafanaOperator.allowCrossNamespaceImport=false", "requires a recreate"),
    ("dashboards.folder=Other", ""),
]


@pytest.fixture
def dashboards(operators_known: ControlPlane) -> Iterator[ControlPlane]:
    text = rendered.text(SETTINGS["dashboards"], "--show-only=templates/dashboards.yaml")
    operators_known.kubectl("apply", "--server-side", "-f", "-", stdin=text)
    yield operators_known
    operators_known.kubectl("delete", "-f", "-", stdin=text)


@pytest.mark.parametrize(("value", "refusal"), AFTERWARDS)
def test_what_the_values_say_of_changing_a_dashboard_later(
    dashboards: ControlPlane, value: str, refusal: str
) -> None:
    values = (*SETTINGS["dashboards"], value)
    text = rendered.text(values, "--show-only=templates/dashboards.yaml")
    if not refusal:
        assert tried(dashboards, text)
        return
    with pytest.raises(ControlPlaneError, match=refusal):
        tried(dashboards, text)


LISTED = (*OF_OPERATORS, "admissionregistration.k8s.io/", "apiextensions.k8s.io/")
"""Kinds whose lists GitOps tools compare as they stand; of others they know the defaults."""


def changed(given: Any, stored: Any, at: str = "") -> Iterator[str]:
    """Give the lists that are stored otherwise than they were given."""
    if isinstance(given, dict):
        for key, below in given.items():  # pyright: ignore[reportUnknownVariableType] - JSON
            yield from changed(below, stored.get(key), f"{at}/{key}")
    elif isinstance(given, list) and given != stored:
        yield at


@pytest.mark.parametrize("more", [SETTINGS["ServiceMonitors"], SETTINGS["PodMonitors"]])
def test_the_server_changes_nothing_in_a_list(
    operators_known: ControlPlane, more: tuple[str, ...]
) -> None:
    """A tool that compares a list with what it applied would never be content."""
    monitors = ("monitoring.serviceMonitor.enabled=false", *more)
    given = [
        manifest
        for manifest in rendered.objects((*EVERYTHING, *monitors))
        if manifest["apiVersion"].startswith(LISTED)
    ]
    requested = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-o=json")
    stated = operators_known.kubectl(*requested, "-f", "-", stdin=yaml.safe_dump_all(given))

    for manifest, stored in zip(given, json.loads(stated)["items"], strict=True):
        assert manifest["metadata"]["name"] == stored["metadata"]["name"]
        assert list(changed(manifest, stored)) == [], manifest["metadata"]["name"]
