"""Where the pods run, what may end them, and how they are replaced."""

import pytest

from tests.deploy import rendered
from tests.deploy.rendered import Json, container, of_kind, only, pod
from tests.deploy.settings import SETTINGS

pytestmark = pytest.mark.usefixtures("helm_built")
GPU_NODES: list[tuple[dict[str, str], bool]] = [
    ({"nvidia.com/gpu.present": "true"}, True),
    ({"feature.node.kubernetes.io/pci-10de.present": "true"}, True),
    ({"feature.node.kubernetes.io/pci-0302_10de.present": "true"}, True),
    ({"feature.node.kubernetes.io/pci-0300_10de.present": "true"}, True),
    ({"kubernetes.azure.com/accelerator": "nvidia"}, True),
    ({"kubernetes.azure.com/accelerator": "amd"}, False),
    ({"eks.amazonaws.com/instance-gpu-manufacturer": "nvidia"}, True),
    ({"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia"}, True),
    ({"karpenter.k8s.aws/instance-gpu-manufacturer": "amd"}, False),
    ({"cloud.google.com/gke-accelerator": "nvidia-l4"}, True),
    ({"nvidia.com/gpu.present": "false"}, False),
    ({"feature.node.kubernetes.io/pci-8086.present": "true"}, False),
    ({}, False),
]
"""Labels of a node: the GPU Operator's, those that NVIDIA's DRA driver looks for, NFD's own."""


@pytest.mark.parametrize(("labels", "selected"), GPU_NODES)
def test_nodes_with_gpus_are_found_by_whatever_labels_them(
    labels: dict[str, str], *, selected: bool
) -> None:
    affinity = pod(rendered.objects(), "DaemonSet")["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    def fits(expression: Json) -> bool:
        value = labels.get(expression["key"])
        if expression["operator"] == "Exists":
            return value is not None
        assert expression["operator"] in ("In", "NotIn")
        return (value in expression["values"]) is (expression["operator"] == "In")

    assert any(all(map(fits, term["matchExpressions"])) for term in terms) is selected


def test_a_sick_node_keeps_its_exporter() -> None:
    of = pod(rendered.objects(), "DaemonSet")

    assert of["tolerations"] == [{"operator": "Exists"}]
    assert of["priorityClassName"] == "system-node-critical"


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_pod_of_ours_holds_a_device_that_a_taint_could_take(setting: str) -> None:
    for manifest in rendered.objects(SETTINGS[setting]):
        of = manifest.get("spec", {}).get("template", {}).get("spec", {})
        assert "resourceClaims" not in of
        for found in of.get("containers", ()):
            requested = found["resources"]["requests"].keys() | found["resources"]["limits"].keys()
            assert requested <= {"cpu", "memory"}
            assert "claims" not in found["resources"]


def test_a_roll_out_takes_a_few_nodes_at_once_and_ends_soon() -> None:
    objects = rendered.objects()
    strategy = only(objects, "DaemonSet")["spec"]["updateStrategy"]

    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
    for kind, name in (
        ("DaemonSet", ""),
        ("Deployment", "remediator"),
        ("Deployment", "explainer"),
    ):
        assert pod(objects, kind, name)["terminationGracePeriodSeconds"] == 10


@pytest.mark.parametrize("name", ["sensor", "agent", "remediator", "explainer", "cleanup"])
def test_a_container_that_ends_leaves_the_end_of_its_log_in_the_pods_status(name: str) -> None:
    """An image of another architecture says `exec format error` there and nowhere else."""
    one = container(rendered.objects(), name)

    assert one["terminationMessagePolicy"] == "FallbackToLogsOnError"


@pytest.mark.parametrize("name", ["agent", "remediator", "explainer"])
def test_what_serves_is_probed_where_it_serves_and_killed_late(name: str) -> None:
    one = container(rendered.objects(), name)
    ready, alive = one["readinessProbe"], one["livenessProbe"]

    assert [port["name"] for port in one["ports"]] == ["metrics"]
    assert [probe["httpGet"]["port"] for probe in (ready, alive)] == ["metrics", "metrics"]
    assert (ready["httpGet"]["path"], alive["httpGet"]["path"]) == ("/readyz", "/healthz")
    assert alive["failureThreshold"] * alive["periodSeconds"] >= 120


def test_the_hook_runs_where_the_remediator_may() -> None:
    """Its token, too, belongs on no node whose root is a stranger."""
    affinity = "remediator.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    objects = rendered.objects(
        (
            "remediator.nodeSelector.pool=trusted",
            "remediator.tolerations[0].key=pool",
            "remediator.tolerations[0].operator=Exists",
            f"{affinity}.nodeSelectorTerms[0].matchExpressions[0].key=trusted",
            f"{affinity}.nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
        )
    )
    remediator, hook = pod(objects, "Deployment", "remediator"), pod(objects, "Job")

    for field in ("nodeSelector", "tolerations", "priorityClassName"):
        assert hook[field] == remediator[field]
    assert hook["affinity"]["nodeAffinity"] == remediator["affinity"]["nodeAffinity"]


@pytest.mark.parametrize("name", ["agent", "remediator", "explainer"])
def test_probes_have_a_port_of_their_own_where_the_page_wants_certificates(name: str) -> None:
    """The kubelet has no client certificate, and no password."""
    one = container(rendered.objects(SETTINGS["TLS"]), name)
    ready, alive = one["readinessProbe"]["httpGet"], one["livenessProbe"]["httpGet"]
    ports = {port["name"]: port["containerPort"] for port in one["ports"]}

    assert ready == {"path": "/readyz", "port": "health", "scheme": "HTTP"}
    assert alive == {"path": "/healthz", "port": "health", "scheme": "HTTP"}
    assert f"--health-listen=:{ports['health']}" in one["args"]
    assert [mount["name"] for mount in one["volumeMounts"]].count("web") == 1


def test_a_sensor_in_a_deadlock_is_started_again_and_not_soon() -> None:
    one = container(rendered.objects(), "sensor")
    probe = one["livenessProbe"]
    (socket,) = [word for word in one["args"] if word.startswith("--sensor-socket=")]

    assert probe["exec"]["command"] == ["draguard", "exporter", "--alive", socket]
    assert probe["periodSeconds"] >= 60
    assert probe["failureThreshold"] * probe["periodSeconds"] >= 180


def test_replicas_prefer_zones_of_their_own() -> None:
    objects = rendered.objects()
    (spread,) = pod(objects, "Deployment", "remediator")["topologySpreadConstraints"]

    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == (
        "topology.kubernetes.io/zone",
        "ScheduleAnyway",
    )
    labels = only(objects, "Deployment", "remediator")["spec"]["template"]["metadata"]["labels"]
    assert spread["labelSelector"]["matchLabels"].items() <= labels.items()


def test_replicas_keep_apart_and_one_of_them_stays() -> None:
    objects = rendered.objects()
    (term,) = pod(objects, "Deployment", "remediator")["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]

    assert only(objects, "Deployment", "remediator")["spec"]["replicas"] == 2
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert only(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_one_explainer_is_enough_and_a_second_one_keeps_apart_and_gets_a_budget() -> None:
    alone, two = rendered.objects(), rendered.objects(("explainer.replicas=2",))

    assert only(alone, "Deployment", "explainer")["spec"]["replicas"] == 1
    assert of_kind(alone, "PodDisruptionBudget", "explainer") == []
    assert only(two, "PodDisruptionBudget", "explainer")["spec"]["maxUnavailable"] == 1
    affinity = pod(two, "Deployment", "explainer")["affinity"]
    assert affinity.keys() == {"podAntiAffinity"}


def test_an_explainer_competes_with_no_remediator() -> None:
    """By default it has no priority, neither for its pod nor for its requests."""
    objects = rendered.objects()

    assert "priorityClassName" not in pod(objects, "Deployment", "explainer")
    assert "draguard-explainer" not in str(of_kind(objects, "FlowSchema"))
