"""What a house adds to every workload: variables, volumes, annotations, placement."""

from typing import Any

import pytest

from tests.deploy import rendered
from tests.deploy.rendered import Json, container, is_hook, of_kind, only, pod
from tests.deploy.settings import EVERYTHING, EXTENDED

pytestmark = pytest.mark.usefixtures("helm_built")


def added(name: str, key: str) -> list[Any]:
    """Return what a container has with the extension points and not without them."""
    before = container(rendered.objects(), name).get(key, [])
    return [one for one in container(rendered.objects(EXTENDED), name)[key] if one not in before]


@pytest.mark.parametrize(
    ("name", "variable", "path"),
    [
        ("sensor", {"name": "HTTPS_PROXY", "value": "a"}, "/extra"),
        ("agent", {"name": "TZ", "value": "UTC"}, "/more"),
        ("remediator", {"name": "HTTPS_PROXY", "value": "b"}, "/extra"),
        ("explainer", {"name": "HTTPS_PROXY", "value": "c"}, "/extra"),
    ],
)
def test_a_container_gets_its_own_variables_and_mounts(
    name: str, variable: Json, path: str
) -> None:
    assert added(name, "env") == [variable]
    assert [mount["mountPath"] for mount in added(name, "volumeMounts")] == [path]


@pytest.mark.parametrize(
    ("kind", "name", "group", "kept"),
    [
        ("DaemonSet", "exporter", 7, 3),
        ("Deployment", "remediator", 8, 4),
        ("Deployment", "explainer", 9, 5),
    ],
)
def test_a_pod_gets_volumes_and_keeps_what_the_chart_needs(
    kind: str, name: str, group: int, kept: int
) -> None:
    objects, plain = rendered.objects(EXTENDED), rendered.objects()
    extended, before = pod(objects, kind, name), pod(plain, kind, name)

    assert [one["name"] for one in extended["volumes"] if one not in before["volumes"]] == ["extra"]
    assert extended["securityContext"] == {
        **before.get("securityContext", {}),
        "supplementalGroups": [group],
    }
    assert only(objects, kind, name)["spec"]["revisionHistoryLimit"] == kept


def test_affinity_is_added_to_the_placement_of_the_chart() -> None:
    objects, before = rendered.objects(EXTENDED), rendered.objects()
    exporter = pod(objects, "DaemonSet")["affinity"]
    remediator, explainer = (
        pod(objects, "Deployment", name)["affinity"] for name in ("remediator", "explainer")
    )

    assert exporter.keys() == {"nodeAffinity", "podAntiAffinity"}
    assert exporter["nodeAffinity"] == pod(before, "DaemonSet")["affinity"]["nodeAffinity"]
    assert remediator.keys() == {"nodeAffinity", "podAffinity", "podAntiAffinity"}
    assert explainer.keys() == {"nodeAffinity", "podAntiAffinity"}
    for name, affinity in (("remediator", remediator), ("explainer", explainer)):
        apart = pod(before, "Deployment", name)["affinity"]["podAntiAffinity"]
        assert affinity["podAntiAffinity"] == apart


def test_an_anti_affinity_of_the_remediator_replaces_that_of_the_chart() -> None:
    kind = "requiredDuringSchedulingIgnoredDuringExecution"
    value = f"remediator.affinity.podAntiAffinity.{kind}[0].topologyKey=zone"
    objects = rendered.objects((value,))

    assert pod(objects, "Deployment", "remediator")["affinity"]["podAntiAffinity"] == {
        kind: [{"topologyKey": "zone"}]
    }


def test_an_annotation_is_on_every_object_beside_those_of_the_chart() -> None:
    plain = rendered.objects(EVERYTHING)
    objects = rendered.objects((*EVERYTHING, "commonAnnotations.owner=gpu"))

    for before, after in zip(plain, objects, strict=True):
        if after["kind"] != "CustomResourceDefinition":
            assert after["metadata"].pop("annotations") == {
                **before["metadata"].pop("annotations", {}),
                "owner": "gpu",
            }
        assert after == before


def test_an_annotation_of_the_chart_is_not_replaced() -> None:
    """Otherwise a Job of the uninstallation would be installed with the release."""
    plain, key = rendered.objects(), r"helm\.sh/hook"
    objects = rendered.objects((f"commonAnnotations.{key}=test",))

    for kind in ("Job", "ServiceAccount"):
        assert [is_hook(one) for one in of_kind(plain, kind, "cleanup")]
        for before, after in zip(
            of_kind(plain, kind, "cleanup"), of_kind(objects, kind, "cleanup"), strict=True
        ):
            assert after["metadata"]["annotations"] == before["metadata"]["annotations"]


_PART, _STACK = r"app\.kubernetes\.io/part-of", r"draguard\.dev/stack"
SAME_KEYS: list[tuple[tuple[str, ...], str, str, str]] = [
    ((f"extraLabels.{_PART}=a",), "Service", "app.kubernetes.io/part-of", "a"),
    ((r"extraLabels.app\.kubernetes\.io/version=a",), "Role", "app.kubernetes.io/version", "a"),
    (("extraLabels.team=a", "monitoring.labels.team=b"), "ServiceMonitor", "team", "b"),
    ((f"monitoring.labels.{_PART}=b",), "PrometheusRule", "app.kubernetes.io/part-of", "b"),
    (("extraLabels.grafana_dashboard=0",), "ConfigMap", "grafana_dashboard", "1"),
    (("stack=eks", f"extraLabels.{_STACK}=a"), "DaemonSet", "draguard.dev/stack", "eks"),
    (
        (r"extraLabels.pod-security\.kubernetes\.io/enforce=baseline",),
        "Namespace",
        "pod-security.kubernetes.io/enforce",
        "privileged",
    ),
]
"""Labels that are given twice, and which value is taken: that of the object before all objects'."""


@pytest.mark.parametrize(("values", "kind", "key", "taken"), SAME_KEYS)
def test_a_label_that_is_given_twice_is_rendered_once(
    values: tuple[str, ...], kind: str, key: str, taken: str
) -> None:
    sets = ["--set-string=" + value for value in values]
    objects = rendered.objects((*EVERYTHING, "namespace.create=true"), *sets)

    dashboards = "dashboard" if kind == "ConfigMap" else ""
    found = {body["metadata"]["labels"][key] for body in of_kind(objects, kind, dashboards)}
    assert found == {taken}


def test_pods_have_each_label_and_annotation_once_too() -> None:
    notes = {
        r"kubectl\.kubernetes\.io/default-container": "sensor",
        r"draguard\.dev/config-checksum": "a",
        "team": "a",
    }
    objects = rendered.objects(
        (
            *("extraLabels.team=a", "exporter.extraPodLabels.team=b", "exporter.config=a: 1"),
            f"exporter.extraPodLabels.{_PART}=b",
            *(f"exporter.podAnnotations.{key}={value}" for key, value in notes.items()),
        )
    )

    of = only(objects, "DaemonSet")["spec"]["template"]["metadata"]
    assert (of["labels"]["team"], of["labels"]["app.kubernetes.io/part-of"]) == ("b", "b")
    assert of["annotations"]["kubectl.kubernetes.io/default-container"] == "sensor"
    assert len(of["annotations"].pop("draguard.dev/config-checksum")) == 64
    assert of["annotations"]["team"] == "a"


def test_a_namespace_has_the_annotations_of_all_objects_beside_its_own() -> None:
    objects = rendered.objects(("namespace.create=true", "commonAnnotations.owner=gpu"))

    assert only(objects, "Namespace")["metadata"]["annotations"] == {
        "owner": "gpu",
        "helm.sh/resource-policy": "keep",
    }


def test_a_service_account_has_annotations_of_its_own() -> None:
    accounts = of_kind(rendered.objects(EXTENDED), "ServiceAccount")
    found = {one["metadata"]["name"]: one["metadata"]["annotations"] for one in accounts}

    assert found["draguard-agent"] == {"owner": "gpu", "who": "exporter"}
    assert found["draguard-remediator"] == {"owner": "gpu", "who": "remediator"}
    assert found["draguard-explainer"] == {"owner": "gpu", "who": "explainer"}
