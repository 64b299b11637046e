"""Where the pods run, what may end them, and how they are replaced."""

import itertools
import json

import pytest
import yaml
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from deploy.program import HelmError
from deploy.program import rendered as bare
from tests.deploy import rendered
from tests.deploy.rendered import CHART, Json, container, only, pod
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


@pytest.mark.parametrize(("labels", "wanted"), GPU_NODES)
def test_nodes_with_gpus_are_found_by_whatever_labels_them(
    labels: dict[str, str], *, wanted: bool
) -> None:
    affinity = pod(rendered.objects(), "DaemonSet")["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    def fits(expression: Json) -> bool:
        value = labels.get(expression["key"])
        if expression["operator"] == "Exists":
            return value is not None
        assert expression["operator"] in ("In", "NotIn")
        return (value in expression["values"]) is (expression["operator"] == "In")

    assert any(all(map(fits, term["matchExpressions"])) for term in terms) is wanted


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
    for kind in ("DaemonSet", "Deployment"):
        assert pod(objects, kind)["terminationGracePeriodSeconds"] == 10


@pytest.mark.parametrize("name", ["sensor", "agent", "remediator", "cleanup"])
def test_a_container_that_ends_leaves_the_end_of_its_log_in_the_pods_status(name: str) -> None:
    """An image of another architecture says `exec format error` there and nowhere else."""
    one = container(rendered.objects(), name)

    assert one["terminationMessagePolicy"] == "FallbackToLogsOnError"


@pytest.mark.parametrize("name", ["agent", "remediator"])
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
    remediator, hook = pod(objects, "Deployment"), pod(objects, "Job")

    for field in ("nodeSelector", "tolerations", "priorityClassName"):
        assert hook[field] == remediator[field]
    assert hook["affinity"]["nodeAffinity"] == remediator["affinity"]["nodeAffinity"]


@pytest.mark.parametrize("name", ["agent", "remediator"])
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


PLACES: list[tuple[tuple[str, ...], str, list[str]]] = [
    ((), "preferredDuringSchedulingIgnoredDuringExecution", [*["NotIn"] * 7, "DoesNotExist"]),
    (
        ("remediator.awayFromGpus=required",),
        "requiredDuringSchedulingIgnoredDuringExecution",
        [*["NotIn"] * 7, "DoesNotExist"],
    ),
    (
        (
            "remediator.awayFromGpus=required",
            "exporter.nodeSelectorTerms[0].matchExpressions[0].key=gpu",
            "exporter.nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
        ),
        "requiredDuringSchedulingIgnoredDuringExecution",
        ["DoesNotExist"],
    ),
]


@pytest.mark.parametrize(("values", "kind", "operators"), PLACES)
def test_the_remediator_keeps_off_the_nodes_that_the_exporter_selects(
    values: tuple[str, ...], kind: str, operators: list[str]
) -> None:
    """Its token may evict every pod; root on a GPU node could take it there."""
    objects = rendered.objects(values)

    for of in (pod(objects, "Deployment"), pod(objects, "Job")):
        affinity: Json = of["affinity"]["nodeAffinity"]
        assert affinity.keys() == {kind}
        terms: list[Json] = (
            affinity[kind]["nodeSelectorTerms"] if kind.startswith("req") else affinity[kind]
        )
        found: list[Json] = terms[0].get("preference", terms[0])["matchExpressions"]
        assert len(terms) == 1
        assert [expression["operator"] for expression in found] == operators


KINDS = ("required", "preferred")


def expression(key: str, operators: list[str], values: list[str]) -> st.SearchStrategy[Json]:
    listed = st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)
    if operators == ["Gt", "Lt"] or key == "metadata.name":
        listed = st.lists(st.sampled_from(values), min_size=1, max_size=1)
    return st.fixed_dictionaries(
        {"key": st.just(key), "operator": st.sampled_from(operators), "values": listed}
    )


def without_values(key: str) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {"key": st.just(key), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
    )


LABELS = st.one_of(
    expression("gpu", ["In", "NotIn"], ["1", "2", "true"]),
    expression("zone", ["In", "NotIn"], ["1", "2"]),
    expression("memory", ["Gt", "Lt"], ["-1", "0", "1", "2"]),
    without_values("gpu"),
    without_values("zone"),
)
FIELDS = expression("metadata.name", ["In", "NotIn"], ["node-a", "node-b"])
TERMS: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"matchExpressions": st.lists(LABELS, min_size=1, max_size=2)},
    optional={"matchFields": st.lists(FIELDS, min_size=1, max_size=1)},
)
NODES = [
    {key: value for key, value in labels.items() if value is not None}
    for name in ("node-a", "node-c")
    for gpu, zone, memory, arch in itertools.product(
        [None, "1", "true"], [None, "2"], [None, "-2", "0", "1", "2"], ["amd64", "arm64", "s390x"]
    )
    for labels in [{"name": name, "gpu": gpu, "zone": zone, "memory": memory, "arch": arch}]
]


def fulfils(node: dict[str, str], expression: Json, key: str = "") -> bool:
    """Tell whether a node has what one expression requires, as Kubernetes reads it."""
    value, values = node.get(key or expression["key"]), expression.get("values", [])
    operator = expression["operator"]
    if operator in ("Gt", "Lt"):
        more = 1 if operator == "Gt" else -1
        return value is not None and more * int(value) > more * int(values[0])
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) is (operator == "Exists")
    return (value in values) is (operator == "In")


def matches(node: dict[str, str], terms: list[Json]) -> bool:
    return any(
        all(fulfils(node, one) for one in term.get("matchExpressions", ()))
        and all(fulfils(node, one, "name") for one in term.get("matchFields", ()))
        for term in terms
    )


def away(kind: str, *pools: Json) -> Json:
    """Return the remediator's node affinity."""
    given = json.dumps([{"name": f"p{i}", **pool} for i, pool in enumerate(pools)])
    flags = (f"--set-json=exporter.pools={given}", f"--set=remediator.awayFromGpus={kind}")
    text = bare(CHART, (rendered.LOCAL,), *flags)
    objects = [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]
    deployed, hook = (pod(objects, kind).get("affinity", {}) for kind in ("Deployment", "Job"))
    assert deployed.get("nodeAffinity") == hook.get("nodeAffinity")
    found: Json = deployed.get("nodeAffinity", {})
    return found


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.lists(TERMS, min_size=1, max_size=2), min_size=1, max_size=2),
    st.sampled_from(KINDS),
)
def test_it_may_run_on_a_node_exactly_where_no_pool_selects_it(
    pools: list[list[Json]], kind: str
) -> None:
    """Each pool has nodes of its own architecture: a node that two could match is refused."""
    arches = ["amd64", "arm64"]
    given_pools = (
        {"nodeSelectorTerms": terms, "nodeSelector": {"arch": arch}}
        for terms, arch in zip(pools, arches, strict=False)
    )
    try:
        affinity = away(kind, *given_pools)
    except HelmError as error:
        if "more than 32 terms" not in str(error):
            raise
        reject()

    ((name, listed),) = affinity.items()
    assert name.startswith(kind)
    free = (
        listed["nodeSelectorTerms"] if kind == "required" else [one["preference"] for one in listed]
    )
    for node in NODES:
        selected = any(
            node["arch"] == arch and matches(node, terms)
            for terms, arch in zip(pools, arches, strict=False)
        )
        assert matches(node, free) is not selected, node


def pair(number: int) -> Json:
    keys = (f"a{number}", f"b{number}")
    return {"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}


NO_OPPOSITE: list[tuple[list[Json], str]] = [
    (
        [pair(number) for number in range(6)],
        "more than 32 terms: write the nodes .* remediator.nodeAffinity",
    ),
    (
        [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["many"]}]}],
        '"key":"a","operator":"Gt".* has no opposite: write the nodes .* remediator.nodeAffinity',
    ),
]


@pytest.mark.parametrize(("terms", "sentence"), NO_OPPOSITE)
def test_a_selector_that_cannot_be_turned_round_is_refused(
    terms: list[Json], sentence: str
) -> None:
    with pytest.raises(HelmError, match=sentence):
        away("required", {"nodeSelectorTerms": terms})


def test_thirty_two_terms_are_rendered() -> None:
    affinity = away("required", {"nodeSelectorTerms": [pair(number) for number in range(5)]})

    (required,) = affinity.values()
    assert len(required["nodeSelectorTerms"]) == 32


def test_the_remediator_runs_anywhere_where_that_is_requested() -> None:
    objects = rendered.objects((), "--set-string=remediator.awayFromGpus=no")

    assert "nodeAffinity" not in pod(objects, "Deployment")["affinity"]
    assert "affinity" not in pod(objects, "Job")


def test_replicas_prefer_zones_of_their_own() -> None:
    objects = rendered.objects()
    (spread,) = pod(objects, "Deployment")["topologySpreadConstraints"]

    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == (
        "topology.kubernetes.io/zone",
        "ScheduleAnyway",
    )
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert spread["labelSelector"]["matchLabels"].items() <= labels.items()


def test_replicas_keep_apart_and_one_of_them_stays() -> None:
    objects = rendered.objects()
    (term,) = pod(objects, "Deployment")["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]

    assert only(objects, "Deployment")["spec"]["replicas"] == 2
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert only(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
