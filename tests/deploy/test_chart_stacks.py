"""One word for what the nodes have: each preset starts there, finds the nodes and makes way."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.program import HelmError
from deploy.sources import CHART
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane, ControlPlaneError
from tests.deploy import rendered
from tests.deploy.driver_manager import PREFIX, STOPPED, paused
from tests.deploy.releasing import Helm
from tests.deploy.rendered import Json, container, of_kind, only, pod
from tests.deploy.settings import SETTINGS

pytestmark = pytest.mark.usefixtures("helm_built")
FOLDER = Path(__file__).parent / "stacks"
GOLDENS: Mapping[str, Json] = {
    file.stem: yaml.safe_load(file.read_text(encoding="utf-8"))
    for file in sorted(FOLDER.glob("*.yaml"))
}
PRESETS: Json = yaml.safe_load((CHART / "stacks.yaml").read_text(encoding="utf-8"))
DEFAULTS: Json = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
WITHOUT_CLASS = sorted(
    name for name, one in GOLDENS.items() if "nvidia" not in one["runtimeClasses"]
)


def of_stack(name: str, *values: str) -> list[Json]:
    return rendered.objects((f"stack={name}", *values))


def has(labels: Mapping[str, str], expression: Json) -> bool:
    """Whether a node with these labels meets an expression, as the scheduler reads it."""
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case other:
            raise AssertionError(other)


def selects(objects: list[Json], labels: Mapping[str, str]) -> bool:
    affinity = pod(objects, "DaemonSet")["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return any(all(has(labels, one) for one in term["matchExpressions"]) for term in terms)


def test_each_preset_has_a_golden_with_its_source_and_date() -> None:
    assert GOLDENS.keys() == PRESETS["stacks"].keys()
    for golden in GOLDENS.values():
        assert golden["source"]
        assert golden["known"]
        assert golden["date"].year >= 2026


def test_the_presets_compare_with_the_defaults_of_the_chart() -> None:
    for key, value in PRESETS["defaults"].items():
        assert DEFAULTS["exporter"][key] == value
    for preset in PRESETS["stacks"].values():
        assert preset.keys() <= PRESETS["defaults"].keys()


@pytest.mark.parametrize("name", GOLDENS)
def test_a_preset_makes_the_exporter_that_its_golden_names(name: str) -> None:
    objects = of_stack(name)
    of, sensor = pod(objects, "DaemonSet"), container(objects, "sensor")
    roots = [one["hostPath"]["path"] for one in of["volumes"] if one["name"] == "driver"]
    folders = [word for word in sensor["args"] if word.startswith("--nvml-library-dir=")]
    found = {
        "runtimeClassName": of.get("runtimeClassName"),
        "privileged": sensor["securityContext"].get("privileged", False),
        "driverRoot": roots[0] if roots else None,
        "seLinux": of["securityContext"].get("seLinuxOptions", {}).get("type"),
        # A privileged container has the node's devices.
        "kernelLog": "/dev/kmsg"
        if sensor["securityContext"].get("privileged")
        else "the journal or syslog(2)",
    }

    expected = dict(GOLDENS[name]["exporter"])
    library = expected.pop("libraryDir")
    assert found == expected
    if library is not None:
        assert folders == [f"--nvml-library-dir={library}"]


@pytest.mark.parametrize("name", GOLDENS)
def test_the_exporter_runs_on_the_nodes_of_its_stack_but_not_while_they_are_paused(
    name: str,
) -> None:
    objects, labels = of_stack(name), GOLDENS[name]["labels"]

    assert selects(objects, labels)
    for label in DEFAULTS["exporter"]["pauseLabels"]:
        for value in ("paused-for-driver-upgrade", "paused-for-mig-change"):
            assert not selects(objects, {**labels, label: value})
        assert selects(objects, {**labels, label: "true"})


@pytest.mark.parametrize(
    "name", [name for name, golden in GOLDENS.items() if f"{PREFIX}driver" in golden["labels"]]
)
@pytest.mark.parametrize("before", ["true", "paused-for-mig-change"])
def test_where_an_operator_upgrades_drivers_the_labels_that_it_pauses_empty_the_node(
    name: str, before: str
) -> None:
    """Of all labels that NVIDIA's driver manager changes, those that the stack's nodes have."""
    labels = GOLDENS[name]["labels"]
    changed = {key: paused(before) for key in labels if key.removeprefix(PREFIX) in STOPPED}

    assert changed
    assert not selects(of_stack(name), {**labels, **changed})


def test_no_label_pauses_where_none_is_named() -> None:
    objects = rendered.objects((), "--set-json=exporter.pauseLabels=[]")

    paused = {"nvidia.com/gpu.deploy.client": "paused-for-driver-upgrade"}
    assert selects(objects, {"nvidia.com/gpu.present": "true", **paused})


def test_a_value_of_the_user_comes_before_the_preset() -> None:
    objects = of_stack("gke", "exporter.gpu.driverRoot=/opt/driver")
    roots = [o["hostPath"]["path"] for o in pod(objects, "DaemonSet")["volumes"] if "hostPath" in o]

    assert "/opt/driver" in roots
    assert "--nvml-library-dir=/host/driver/lib64" in container(objects, "sensor")["args"]


def test_a_value_that_equals_the_default_gives_way_unless_it_is_a_pools() -> None:
    default = "nvidia"
    pool = ("exporter.pools[0].name=a", f"exporter.pools[0].gpu.runtimeClassName={default}")

    of_all = pod(of_stack("eks", f"exporter.gpu.runtimeClassName={default}"), "DaemonSet")
    of_pool = pod(of_stack("eks", *pool), "DaemonSet")

    assert "runtimeClassName" not in of_all
    assert of_pool["runtimeClassName"] == default


def test_a_pool_may_be_of_another_stack() -> None:
    pools = (
        "exporter.pools[0].name=a",
        "exporter.pools[0].nodeSelector.pool=a",
        "exporter.pools[1].name=b",
        "exporter.pools[1].nodeSelector.pool=b",
        "exporter.pools[1].stack=gpucluster",
    )
    a, b = of_kind(of_stack("gpu-operator", *pools), "DaemonSet")

    stacks = [one["metadata"]["labels"]["draguard.dev/stack"] for one in (a, b)]
    assert stacks == ["gpu-operator", "gpucluster"]
    assert a["spec"]["template"]["spec"]["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in b["spec"]["template"]["spec"]


def test_on_openshift_a_pool_of_another_stack_has_the_selinux_type_of_the_cluster() -> None:
    pools = ("exporter.pools[0].name=a", "exporter.pools[0].stack=gpucluster")
    of = pod(of_stack("openshift", *pools), "DaemonSet")

    assert of["securityContext"]["seLinuxOptions"] == {"type": "spc_t"}
    assert "runtimeClassName" not in of


def test_a_daemonset_names_its_preset_for_the_doctor_and_without_one_nothing() -> None:
    named = only(of_stack("gke"), "DaemonSet")
    unnamed = only(rendered.objects(()), "DaemonSet")

    assert named["metadata"]["labels"]["draguard.dev/stack"] == "gke"
    assert "draguard.dev/stack" not in unnamed["metadata"]["labels"]
    # In the template it would restart every pod when the preset is named.
    assert "draguard.dev/stack" not in named["spec"]["template"]["metadata"]["labels"]


@pytest.fixture(scope="module")
def namespace(plane: ControlPlane) -> str:
    plane.kubectl("create", "namespace", "stacks")
    plane.kubectl("create", "serviceaccount", "draguard-agent", "--namespace=stacks")
    return "stacks"


@pytest.fixture
def classes(admin: Client, request: pytest.FixtureRequest) -> Iterator[None]:
    """The RuntimeClasses of the stack that the test names."""
    names: list[str] = GOLDENS[request.node.callspec.params["name"]]["runtimeClasses"]
    for name in names:
        admin.create(CLASSES, {"metadata": {"name": name}, "handler": name})
    yield
    for name in names:
        admin.delete(f"{CLASSES}/{name}")


def created(plane: ControlPlane, namespace: str, objects: list[Json]) -> str:
    """Create a pod of the DaemonSet, as its controller would; raises ControlPlaneError."""
    template: Any = only(objects, "DaemonSet")["spec"]["template"]
    metadata = {**template["metadata"], "name": "one", "namespace": namespace}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    flags = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
    return plane.kubectl(*flags, stdin=yaml.safe_dump(body))


@pytest.mark.usefixtures("classes")
@pytest.mark.parametrize("name", GOLDENS)
def test_the_api_server_admits_the_pod_with_what_the_stack_has(
    plane: ControlPlane, namespace: str, name: str
) -> None:
    assert "pod/one created" in created(plane, namespace, of_stack(name))


@pytest.mark.usefixtures("classes")
@pytest.mark.parametrize("name", WITHOUT_CLASS)
def test_the_wrong_preset_is_refused_by_the_api_server_and_first_by_the_chart(
    plane: ControlPlane, namespace: str, helm: Helm, name: str
) -> None:
    with pytest.raises(ControlPlaneError, match='RuntimeClass "nvidia" not found'):
        created(plane, namespace, of_stack("gpu-operator"))

    words = r"the stack is gpu-operator.* set stack=gpucluster.* stack=gke, eks, eks-auto or aks"
    with pytest.raises(AssertionError, match=words):
        helm("install", "draguard", str(CHART), "--dry-run=server", "--set=stack=gpu-operator")


def test_openshift_is_refused_where_its_api_is_not_served(helm: Helm) -> None:
    with pytest.raises(AssertionError, match=r"does not serve security.openshift.io/v1"):
        helm(
            *("install", "draguard", str(CHART), "--dry-run=server", "--set=stack=openshift"),
            "--set=exporter.gpu.access=driver-root",
        )


@pytest.fixture
def openshift(plane: ControlPlane) -> Iterator[ControlPlane]:
    """An API server that knows OpenShift's kind, as OpenShift's own does."""
    file = FOLDER.parent / "securitycontextconstraints_schema.yaml"
    plane.kubectl("apply", "-f", str(file))
    plane.await_established()
    yield plane
    plane.kubectl("delete", "-f", str(file))


@pytest.mark.parametrize(
    "values", [(), ("exporter.gpu.access=driver-root", "exporter.podShares=true")]
)
def test_openshift_takes_the_constraints_and_nothing_is_filled_in(
    openshift: ControlPlane, values: tuple[str, ...]
) -> None:
    allowed = only(of_stack("openshift", *values), "SecurityContextConstraints")
    flags = ("create", "--dry-run=server", "--validate=strict", "-o", "yaml", "-f", "-")

    found = yaml.safe_load(openshift.kubectl(*flags, stdin=yaml.safe_dump(allowed)))

    assert {key: found[key] for key in allowed if key != "metadata"} == {
        key: value for key, value in allowed.items() if key != "metadata"
    }


def test_openshift_lets_each_account_use_what_it_needs_and_no_more() -> None:
    objects = of_stack("openshift")
    allowed = only(objects, "SecurityContextConstraints")

    assert allowed["allowedCapabilities"] == ["SYSLOG"]
    assert (allowed["allowPrivilegedContainer"], allowed["allowHostPID"]) == (False, False)
    bound = {
        one["subjects"][0]["name"]: one["roleRef"]["name"]
        for one in of_kind(objects, "RoleBinding", "-scc")
    }
    assert bound == {
        "draguard-agent": "draguard-exporter-scc",
        "draguard-remediator": "system:openshift:scc:nonroot-v2",
        "draguard-explainer": "system:openshift:scc:nonroot-v2",
        "draguard-cleanup": "system:openshift:scc:nonroot-v2",
    }
    hooks = {
        one["metadata"]["name"] for one in of_kind(objects, "RoleBinding") if rendered.is_hook(one)
    }
    assert hooks == {"draguard-cleanup", "draguard-cleanup-scc"}


@pytest.mark.parametrize(
    ("values", "more"),
    [
        ((), set[str]()),
        (("exporter.gpu.access=driver-root",), set[str]()),
        (SETTINGS["TLS"], set[str]()),
        (("exporter.extraVolumes[0].name=a", "exporter.extraVolumes[0].csi.driver=b"), {"csi"}),
    ],
)
def test_openshift_allows_the_volumes_and_the_seccomp_profile_that_the_exporter_has(
    values: tuple[str, ...], more: set[str]
) -> None:
    objects = of_stack("openshift", *values)
    allowed, of = only(objects, "SecurityContextConstraints"), pod(objects, "DaemonSet")

    used = {key for volume in of["volumes"] for key in volume if key != "name"}
    assert set(allowed["volumes"]) == used | {"configMap", "secret"} | more
    for spec in of["containers"]:
        assert spec["securityContext"].get("seccompProfile", {}).get("type") in (
            None,
            "RuntimeDefault",
        )
    assert allowed["seccompProfiles"] == ["runtime/default"]


def test_openshift_allows_a_seccomp_profile_of_the_users_own() -> None:
    objects = of_stack("openshift", "exporter.podSecurityContext.seccompProfile.type=Unconfined")

    assert only(objects, "SecurityContextConstraints")["seccompProfiles"] == ["*"]


def test_openshift_allows_a_privileged_sensor_where_one_is_needed() -> None:
    objects = of_stack("openshift", "exporter.gpu.access=driver-root", "exporter.podShares=true")
    allowed = only(objects, "SecurityContextConstraints")

    assert (allowed["allowPrivilegedContainer"], allowed["allowHostPID"]) == (True, True)


def test_gke_admits_critical_pods_by_a_quota() -> None:
    (scope,) = only(of_stack("gke"), "ResourceQuota")["spec"]["scopeSelector"]["matchExpressions"]

    used = {
        pod(of_stack("gke"), kind, name).get("priorityClassName")
        for kind, name in (
            ("DaemonSet", ""),
            ("Deployment", "remediator"),
            ("Deployment", "explainer"),
        )
    }
    assert used - {None} == set(scope["values"])


def test_on_gke_the_last_job_needs_no_quota_and_elsewhere_keeps_its_class() -> None:
    """Helm deletes the quota before it; `test_chart_uninstall_on_gke` has the whole end."""
    own = "remediator.priorityClassName=mine"
    jobs = [
        pod(objects, "Job").get("priorityClassName")
        for objects in (of_stack("gke"), of_stack("gke", own), of_stack("eks"))
    ]

    assert jobs == [None, "mine", "system-cluster-critical"]


def test_folders_of_the_other_architecture_are_refused() -> None:
    values = (
        "exporter.gpu.access=driver-root",
        "exporter.gpu.libraryDir=usr/lib/x86_64-linux-gnu",
        r"exporter.nodeSelector.kubernetes\.io/arch=arm64",
    )
    with pytest.raises(HelmError, match="only folders of the other architecture"):
        rendered.objects(values)
