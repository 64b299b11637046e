"""The doctor finds the chart's preset that the GPU nodes need, and compares the installed one."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
import yaml

from deploy.sources import CHART
from draguard.cluster.installation import Workload
from draguard.doctor.check import Check
from draguard.doctor.nodes import Node
from draguard.doctor.stack import LABEL, STACKS, UNTRIED, Stack, cluster_signs, found_on, judged
from kubeapi.client import Client
from kubeapi.resources import NODES
from simulator.cluster.controlplane import ControlPlane
from tests.chain.scene import LEASES
from tests.conftest import built
from tests.deploy import rendered
from tests.draguard.doctor.objects import stored_node
from tests.draguard.fleet import Fleet
from tests.draguard.printed import items, printed
from tests.lab.cluster import Json, await_true

GOLDENS: Mapping[str, Json] = {
    file.stem: yaml.safe_load(file.read_text(encoding="utf-8"))
    for file in sorted((Path(__file__).parents[2] / "deploy" / "stacks").glob("*.yaml"))
}
CLASSIC = GOLDENS["gpu-operator"]["labels"]
WITH, WITHOUT = "RuntimeClass nvidia", "no RuntimeClass nvidia"
AL2023, BOTTLEROCKET = "Amazon Linux 2023.8.20250908", "Bottlerocket OS 1.57.0 (aws-k8s-1.34)"
GROUP = {"eks.amazonaws.com/nodegroup": "gpus", "nvidia.com/gpu.present": "true"}
KARPENTER = GOLDENS["eks"]["labels"]


def cluster(golden: Json) -> tuple[str, str]:
    openshift = "config.openshift.io" in golden.get("apiGroups", ())
    return (
        WITH if "nvidia" in golden["runtimeClasses"] else WITHOUT,
        "API config.openshift.io" if openshift else "no API config.openshift.io",
    )


PLAIN = cluster({"runtimeClasses": []})


def exporter(
    stack: str = "",
    runtime_class: str = "nvidia",
    se_linux: str = "",
    selector: Mapping[str, str] | None = None,
) -> Workload:
    """A DaemonSet of a release with the name gpus."""
    labels = {LABEL: stack} if stack else {}
    meta = {
        "name": "e",
        "labels": labels,
        "annotations": {"meta.helm.sh/release-name": "gpus"},
    }
    context = {"seLinuxOptions": {"type": se_linux}} if se_linux else {}
    spec = {
        "runtimeClassName": runtime_class,
        "securityContext": context,
        "nodeSelector": selector or {},
    }
    return msgspec.convert({"metadata": meta, "spec": {"template": {"spec": spec}}}, Workload)


def preset(name: str) -> Workload:
    """As the chart renders it, and another test holds to the golden."""
    made = GOLDENS[name]["exporter"]
    return exporter(name, made["runtimeClassName"] or "", made["seLinux"] or "")


def reported(
    nodes: Sequence[Node],
    signs: Sequence[str],
    *installed: Workload,
    publishing: Collection[str] = (),
) -> Check:
    return judged(found_on(nodes, publishing, signs, installed), installed, LEASES)


def of_golden(name: str, *installed: Workload) -> Check:
    golden = GOLDENS[name]
    found = stored_node("a", labels=golden["labels"], os_image=golden.get("osImage", ""))
    publishing = {"a"} if golden.get("publishes") else ()
    return reported([found], cluster(golden), *installed, publishing=publishing)


def test_the_table_has_the_presets_of_the_chart() -> None:
    presets = yaml.safe_load((CHART / "stacks.yaml").read_text(encoding="utf-8"))["stacks"]

    assert [stack.name for stack in STACKS] == list(presets)


@pytest.mark.parametrize("name", GOLDENS)
def test_what_a_stack_has_is_recognized_and_reported_before_anything_is_installed(
    name: str,
) -> None:
    found = of_golden(name)

    assert found.state == "ok"
    assert found.says.startswith(f"looks like {name} (")
    assert " or " not in found.says
    assert found.says.endswith(f"no DaemonSet here: install with --set stack={name}")


@pytest.mark.parametrize("name", GOLDENS)
def test_the_installed_preset_of_the_stack_is_ok_and_another_is_not(name: str) -> None:
    assert of_golden(name, preset(name)).state == "ok"
    assert "which are not judged" not in of_golden(name, preset(name)).says
    for other in GOLDENS.keys() - {name}:
        assert of_golden(name, preset(other)).state == "warn"


@pytest.mark.parametrize("name", GOLDENS)
def test_without_a_preset_it_is_the_gpu_operators(name: str) -> None:
    assert of_golden(name, exporter()).state == ("ok" if name == "gpu-operator" else "warn")


def test_the_remedy_is_the_command() -> None:
    assert of_golden("gke", exporter()) == Check(
        "stack",
        "warn",
        "looks like gke (cloud.google.com/gke-accelerator=nvidia-h100-80gb; untried on real "
        "hardware) on 1 node; installed is gpu-operator",
        "helm upgrade gpus deploy/helm/draguard -n draguard-system --reset-then-reuse-values "
        "--set stack=gke",
    )


def test_labels_are_quoted_as_the_nodes_have_them() -> None:
    key = "cloud.google.com/gke-accelerator"
    kinds = ("nvidia-l4", "nvidia-l4", "nvidia-a100")
    nodes = [
        stored_node(f"n-{n}", labels={key: kind, "other": kind}) for n, kind in enumerate(kinds)
    ]
    found = reported(nodes, PLAIN)

    assert found.says.startswith(f"looks like gke ({key}=nvidia-a100, {key}=nvidia-l4; untried")
    assert " on 3 nodes; " in found.says
    classic = of_golden("gpu-operator").says
    assert "(nvidia.com/gpu.deploy.device-plugin, RuntimeClass nvidia, " in classic


def test_what_helm_did_not_install_is_rendered_again() -> None:
    applied = msgspec.structs.replace(
        exporter(), metadata=msgspec.structs.replace(exporter().metadata, annotations={})
    )

    assert of_golden("gke", applied).remedy == "render the chart again with --set stack=gke"


@pytest.mark.parametrize("stack", STACKS, ids=lambda stack: stack.name)
def test_a_stack_that_was_only_rendered_is_reported_as_untried(stack: Stack) -> None:
    assert (UNTRIED in of_golden(stack.name).says) == (not stack.tried)


@pytest.mark.parametrize(
    ("labels", "os_image", "publishes", "signs", "says"),
    [
        (KARPENTER, BOTTLEROCKET, False, PLAIN, "looks like eks-auto ("),
        (GROUP, AL2023, False, PLAIN, "looks like eks ("),
        (GROUP, BOTTLEROCKET, False, PLAIN, "looks like eks-auto ("),
        (GROUP, AL2023, True, PLAIN, "looks like eks ("),
        # The NRI plugin removes the RuntimeClass.
        (CLASSIC, "", False, PLAIN, "looks like gpucluster ("),
        ({}, "", True, PLAIN, "looks like driver-only ("),
    ],
)
def test_each_other_sign_tells_a_stack(
    labels: dict[str, str], os_image: str, publishes: bool, signs: Sequence[str], says: str
) -> None:
    found = reported(
        [stored_node("a", labels=labels, os_image=os_image)],
        signs,
        publishing={"a"} if publishes else (),
    )

    assert found.says.startswith(says)
    assert " or " not in found.says


BOTH = {**CLASSIC, **GOLDENS["gke"]["labels"]}


@pytest.mark.parametrize(
    ("installed", "state"), [("gke", "ok"), ("gpu-operator", "ok"), ("aks", "unknown")]
)
def test_nodes_that_may_be_either_are_no_fault(installed: str, state: str) -> None:
    signs = cluster(GOLDENS["gpu-operator"])
    found = reported([stored_node(labels=BOTH)], signs, exporter(installed))

    assert found.state == state
    assert "gpu-operator (" in found.says
    assert " or gke (" in found.says
    before = reported([stored_node(labels=BOTH)], signs).says
    assert before.endswith("install with --set stack=gpu-operator or --set stack=gke")


@pytest.mark.parametrize(
    ("labels", "os_image", "signs"),
    [
        ({"nvidia.com/gpu.present": "true"}, "", PLAIN),
        (GROUP, "Ubuntu 24.04.3 LTS", PLAIN),
        ({"cloud.google.com/gke-accelerator": "another"}, "", PLAIN),
    ],
)
def test_nodes_that_tell_nothing_are_no_fault(
    labels: dict[str, str], os_image: str, signs: Sequence[str]
) -> None:
    found = reported([stored_node("a", labels=labels, os_image=os_image)], signs, exporter("gke"))

    assert found.state == "unknown"
    assert "nothing on the GPU nodes shows the stack" in found.says


def test_nodes_without_gpus_do_not_count() -> None:
    without = {"eks.amazonaws.com/nodegroup": "web"}
    signs = ("no RuntimeClass nvidia", "API config.openshift.io")

    for labels, seen in ((without, PLAIN), ({}, signs)):
        found = reported([stored_node(labels=labels, os_image=AL2023)], seen, exporter())
        assert found.says == "no node has a label of GPU nodes"


def test_a_node_that_the_charts_exporter_selects_is_a_gpu_node() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    terms = [term["matchExpressions"][0] for term in values["exporter"]["nodeSelectorTerms"]]

    assert len(terms) > 5
    for term in terms:
        label = {term["key"]: term.get("values", ["any"])[0]}
        found = reported([stored_node(labels=label)], PLAIN)
        assert "no node has a label" not in found.says, label


@pytest.mark.parametrize(
    "own",
    [
        exporter("", ""),
        exporter("", "nvidia-cdi"),
        exporter("", "nvidia", "spc_t"),
        exporter("gpu-operator", "nvidia-cdi"),
    ],
)
def test_values_that_were_set_one_by_one_are_not_judged(own: Workload) -> None:
    found = of_golden("gke", own)

    assert found.state == "ok"
    assert "values of its own, which are not judged" in found.says


def test_nodes_of_two_stacks_need_pools() -> None:
    nodes = [stored_node(name, labels=GOLDENS[name]["labels"]) for name in ("aks", "gke")]

    one = reported(nodes, PLAIN, exporter("aks"))
    assert one.state == "warn"
    assert "docs/install.md, Nodes that differ" in one.remedy
    assert "install with the `stack` of each pool" in reported(nodes, PLAIN).says
    pools = judged(found_on(nodes[:1], (), PLAIN), [preset("gke"), preset("gke")], LEASES)
    assert "docs/install.md, Nodes that differ" in pools.remedy
    both = reported(nodes, PLAIN, exporter("aks"), exporter("gke"))
    assert both.state == "ok"


def pool(stack: str, labels: Mapping[str, str]) -> Workload:
    return exporter(stack, "nvidia" if stack == "gpu-operator" else "", selector=labels)


def test_each_node_is_compared_with_the_pool_that_selects_it() -> None:
    nodes = [
        stored_node(f"of-{name}", labels=GOLDENS[name]["labels"])
        for name in ("gpu-operator", "gpucluster")
    ]
    classic, new = (GOLDENS[name]["labels"] for name in ("gpu-operator", "gpucluster"))
    signs = cluster(GOLDENS["gpu-operator"])
    only_new = {"nvidia.com/gpu.deploy.dra-driver": new["nvidia.com/gpu.deploy.dra-driver"]}
    only_classic = {key: classic[key] for key in classic.keys() - new.keys()}

    right = reported(nodes, signs, pool("gpu-operator", only_classic), pool("gpucluster", only_new))
    swapped = reported(
        nodes, signs, pool("gpucluster", only_classic), pool("gpu-operator", only_new)
    )

    assert right.state == "ok"
    assert swapped.state == "warn"
    assert "of-gpu-operator has gpucluster" in swapped.says
    assert "of-gpucluster has gpu-operator" in swapped.says
    assert "the `stack` of each pool" in swapped.remedy


def test_a_node_that_no_pool_selects_is_named_as_such() -> None:
    nodes = [stored_node(f"of-{name}", labels=GOLDENS[name]["labels"]) for name in ("aks", "gke")]
    elsewhere = {"pool": "of-tomorrow"}

    found = reported(nodes, PLAIN, pool("aks", GOLDENS["aks"]["labels"]), pool("eks", elsewhere))

    assert found.state == "warn"
    assert found.says.endswith("; no DaemonSet of Draguard selects of-gke")
    assert "of-aks has" not in found.says


@pytest.fixture(scope="session")
def helm_built(pytestconfig: pytest.Config) -> Path:
    return built(pytestconfig, "helm_built")


@pytest.fixture
def on_aks(fleet: Fleet, helm_built: Path) -> Iterator[Fleet]:
    """The fleet's nodes with the label of AKS."""
    label = "kubernetes.azure.com/accelerator"
    for letter in "abcde":
        patch: Json = {"metadata": {"labels": {label: "nvidia"}}}
        fleet.cluster.client.merge_patch(f"{NODES}/node-{letter}", patch)
    yield fleet
    for letter in "abcde":
        patch = {"metadata": {"labels": {label: None}}}
        fleet.cluster.client.merge_patch(f"{NODES}/node-{letter}", patch)
    fleet.cluster.plane.kubectl("delete", "daemonset", "draguard-exporter", "-n", LEASES)


def test_on_a_real_cluster_the_chart_is_compared_with_the_nodes(
    on_aks: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (f"--namespace={LEASES}", "--show-only=templates/exporter.yaml")
    nowhere = "exporter.nodeSelector.pool=none"
    where = ("--kubeconfig", on_aks.kubeconfig, "-o", "json")

    for values, state, name in (
        ((nowhere,), "warn", "gpu-operator"),
        ((nowhere, "stack=aks"), "ok", "aks"),
    ):
        text = rendered.text(values, *flags)
        on_aks.cluster.plane.kubectl("apply", "-f", "-", stdin=text)
        lines = items(printed(capsys, "doctor", *where, ends=1), "DoctorReport")
        (found,) = [line for line in lines if line["about"] == "stack"]
        assert found["state"] == state
        assert found["says"] == (
            "looks like aks (kubernetes.azure.com/accelerator=nvidia; untried on real hardware) "
            f"on 5 nodes; installed is {name}"
        )


def test_a_real_server_shows_the_runtime_class_and_openshift(
    control_plane: ControlPlane, client: Client
) -> None:
    assert cluster_signs(client) == PLAIN
    group = "config.openshift.io"
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {
        "plural": "clusterversions",
        "singular": "clusterversion",
        "kind": "ClusterVersion",
        "listKind": "ClusterVersionList",
    }
    objects: list[Json] = [
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "nvidia",
        },
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"clusterversions.{group}"},
            "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [version]},
        },
    ]
    text = yaml.safe_dump_all(objects)
    control_plane.kubectl("apply", "-f", "-", stdin=text)
    try:
        await_true("both are seen", lambda: cluster_signs(client) == cluster(GOLDENS["openshift"]))
    finally:
        control_plane.kubectl("delete", "-f", "-", stdin=text)
        await_true("both are gone", lambda: cluster_signs(client) == PLAIN)
