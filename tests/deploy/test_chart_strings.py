"""What a person gives as a string stays that string, whatever else YAML could take it for.

Each odd value is judged against a harmless one: with it put in the harmless one's place, the API
server's answers are the same, types and all. The text goes to the server as Helm renders it: this
project's own reader of YAML takes `1e3` for a word, and Kubernetes' takes it for a number.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deploy.program import NAMESPACE, RELEASE, HelmError, run
from deploy.sources import CHART
from simulator.cluster.controlplane import ControlPlane
from tests.deploy import rendered

Json = dict[str, Any]
pytestmark = [pytest.mark.usefixtures("helm_built"), pytest.mark.verify]
HARMLESS = "harmless"
NAMES = ["123", "007", "1e3", "0x1f", "0b11", "null", "yes", "off", "y", "true", "2026-11-21"]
"""Names of Kubernetes objects that YAML 1.1 or 1.2 takes for something else."""
DOTTED = ["1.10", "1.0e3", "12.30"]
"""And such as no namespace may have."""
FREE = [
    *NAMES,
    *("~", "=", "<<", "Null", "TRUE", ".inf", "-1", "12:30:45", "1_000", "+1"),
    *("a: b", "a #b", "#a", "- a", "? a", "*a", "&a", "!a", "%a", "@a", "`a", "|", ">", "a:"),
    *("'", '"', "\\", "{a", "[a", "a, b", "{{ .Values }}", "${A}", "ü - 日本", " a ", "---"),
]
"""What may stand where any text may."""


def names(name: str, namespace: str) -> Json:
    """Return values that give a name wherever there is one to give."""
    labels = {name: name}
    seen_by = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    return {
        "extraLabels": labels,
        "commonAnnotations": labels,
        "clusterName": name,
        "image": {
            "allowLocal": True,
            "tag": name,
            "pullSecrets": [name],
            "exporter": {"repository": name},
            "controller": {"repository": f"{name}/{name}"},
        },
        "exporter": {
            "gpu": {"runtimeClassName": name},
            "priorityClassName": name,
            "nodeSelector": labels,
            "tolerations": [{"key": name, "operator": "Equal", "value": name}],
            "web": {"configSecret": name, "key": name},
            "nvidiaResourceNames": [name, f"example.com/{name}"],
            "extraPodLabels": labels,
            "podAnnotations": labels,
            "serviceAccount": {"annotations": labels},
            "pauseLabels": [name],
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": name, "operator": "In", "values": [name]}]}
            ],
        },
        "remediator": {
            "policy": {"existingConfigMap": name},
            "priorityClassName": name,
            "nodeSelector": labels,
            "podAnnotations": labels,
        },
        "explainer": {
            "priorityClassName": name,
            "nodeSelector": labels,
            "podAnnotations": labels,
            "web": {"configSecret": name, "key": name},
        },
        "userRoles": {"viewers": seen_by, "operators": seen_by},
        "monitoring": {
            "labels": labels,
            "serviceMonitor": {"enabled": True},
            "rules": {"enabled": True},
        },
        "dashboards": {
            "enabled": True,
            "namespace": namespace,
            "label": name,
            "labelValue": name,
            "folderAnnotation": name,
            "folder": name,
            "grafanaOperator": {"enabled": True, "instanceLabels": labels},
        },
    }


def texts(text: str) -> Json:
    """Return values that give a text wherever any may be given."""
    step = {"targetLabel": "cluster", "replacement": text}
    return {
        "image": {"allowLocal": True},
        "exporter": {
            "podAnnotations": {"note": text},
            "seLinuxOptions": {"level": text},
            "counters": text,
            "extraArgs": [f"--such={text}"],
            "gpu": {"access": "driver-root", "driverRoot": f"/{text}"},
            "kubeletPath": f"/{text}",
            "dcgm": {"mode": "embedded", "libraryHostPath": f"/{text}"},
            "sensor": {"extraEnv": [{"name": "A", "value": text}]},
        },
        "remediator": {
            "policy": {"text": f"{text}\n{{}}"},  # `{}`: a null or a comment alone is refused
            "podAnnotations": {"note": text},
            "extraArgs": [f"--such={text}"],
            "extraEnv": [{"name": "A", "value": text}],
        },
        "explainer": {"podAnnotations": {"note": text}, "extraArgs": [f"--such={text}"]},
        "userRoles": {"viewers": [{"kind": "User", "name": f"a{text}"}]},
        "monitoring": {"podMonitor": {"enabled": True}, "relabelings": [step]},
        "dashboards": {"enabled": True, "folder": f"a{text}"},
    }


class Server:
    """What the API server makes of a rendered release."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane = plane
        self._file = folder / "values.json"
        self.harmless = cache(self._harmless)

    def takes(self, values: Json, namespace: str = NAMESPACE) -> list[Json]:
        self._file.write_bytes(msgspec.json.encode(values))
        text = run(
            *("template", RELEASE, str(CHART), "--namespace", namespace, "--no-hooks"),
            f"--values={self._file}",
        )
        requested = ("apply", "--server-side", "--force-conflicts", "--dry-run=server")
        stated = self._plane.kubectl(*requested, "--validate=strict", "-o=json", "-f=-", stdin=text)
        found: list[Json] = msgspec.json.decode(stated)["items"]
        return [without_its_own(manifest) for manifest in found]

    def _harmless(self, make: Callable[..., Json], *more: str) -> list[Json]:
        return self.takes(make(HARMLESS, *more), *more)


UNQUOTED = [
    ("image: {tag: 1.10}", "/image/tag"),
    ("image: {pullSecrets: [007]}", "/image/pullSecrets/0"),
    ("exporter: {nodeSelector: {gpu: yes}}", "/exporter/nodeSelector/gpu"),
    ("exporter: {gpu: {runtimeClassName: 1e3}}", "/exporter/gpu/runtimeClassName"),
    ("exporter: {podAnnotations: {seen: 2026}}", "/exporter/podAnnotations/seen"),
    ("exporter: {extraCapabilities: [NO]}", "/exporter/extraCapabilities/0"),
    (
        "exporter: {nodeSelectorTerms: [{matchFields: [{key: a, operator: In, values: [on]}]}]}",
        "/exporter/nodeSelectorTerms/0/matchFields/0/values/0",
    ),
    ("exporter: {seLinuxOptions: {level: 0}}", "/exporter/seLinuxOptions/level"),
    ("remediator: {policy: {existingConfigMap: 007}}", "/remediator/policy/existingConfigMap"),
    ("remediator: {tolerations: [{key: a, value: true}]}", "/remediator/tolerations/0/value"),
    ("monitoring: {labels: {release: on}}", "/monitoring/labels/release"),
    ("dashboards: {labelValue: 1}", "/dashboards/labelValue"),
    ("dashboards: {namespace: 123}", "/dashboards/namespace"),
    ("userRoles: {viewers: [{kind: User, name: null}]}", "/userRoles/viewers/0/name"),
]
"""Values that a person forgot to quote: Helm reads no string."""


@pytest.mark.parametrize(("text", "named"), UNQUOTED)
def test_what_is_no_string_any_more_is_refused_by_name(
    tmp_path: Path, text: str, named: str
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(HelmError, match=f"'{named}': got [a-z]+, want string"):
        rendered.text((), f"--values={file}")


@pytest.fixture(scope="module")
def server(operators_known: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Server:
    for namespace in (HARMLESS, *NAMES):
        operators_known.kubectl("create", "namespace", namespace)
    return Server(operators_known, tmp_path_factory.mktemp("values"))


def without_its_own(manifest: Json) -> Json:
    """Return an object without what the server gives to each anew."""
    own = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "generation")
    kept = {name: reported for name, reported in manifest["metadata"].items() if name not in own}
    return {**manifest, "metadata": kept}


def put(tree: Any, text: str) -> Any:
    """Return the tree with a text in the place of the harmless one, in keys too."""
    match tree:
        case dict():
            return {put(key, text): put(below, text) for key, below in tree.items()}  # pyright: ignore[reportUnknownVariableType] - JSON
        case list():
            return [put(below, text) for below in tree]  # pyright: ignore[reportUnknownVariableType] - JSON
        case str():
            return tree.replace(HARMLESS, text)
        case other:
            return other


@pytest.mark.parametrize("name", NAMES)
def test_a_name_stays_the_name_that_was_given(server: Server, name: str) -> None:
    expected = put(server.harmless(names, HARMLESS), name)

    assert server.takes(names(name, name), name) == expected


@pytest.mark.parametrize("name", DOTTED)
def test_a_name_that_looks_like_a_fraction_does_too(server: Server, name: str) -> None:
    expected = put(server.harmless(names, NAMESPACE), name)

    assert server.takes(names(name, NAMESPACE)) == expected


@pytest.mark.parametrize("text", FREE)
def test_a_text_stays_the_text_that_was_given(server: Server, text: str) -> None:
    assert server.takes(texts(text)) == put(server.harmless(texts), text)
