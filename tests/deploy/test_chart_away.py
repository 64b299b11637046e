"""Where the remediator runs: away from the nodes with GPUs that the exporter knows."""

import itertools
import json
import os

import pytest
import yaml
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from deploy.program import HelmError
from deploy.program import rendered as bare
from tests.deploy import rendered
from tests.deploy.rendered import CHART, Json, pod

pytestmark = pytest.mark.usefixtures("helm_built")
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

    for of in (pod(objects, "Deployment", "remediator"), pod(objects, "Job")):
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
        all(fulfils(node, each) for each in term.get("matchExpressions", ()))
        and all(fulfils(node, each, "name") for each in term.get("matchFields", ()))
        for term in terms
    )


def away(kind: str, *pools: Json) -> Json:
    """Return the remediator's node affinity."""
    given = json.dumps([{"name": f"p{i}", **pool} for i, pool in enumerate(pools)])
    return affinity_of(
        f"--set-json=exporter.pools={given}", f"--set=remediator.awayFromGpus={kind}"
    )


def affinity_of(*flags: str) -> Json:
    text = bare(CHART, (rendered.LOCAL,), *flags)
    objects = [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]
    deployed, hook = (
        pod(objects, kind, name).get("affinity", {})
        for kind, name in (("Deployment", "remediator"), ("Job", "cleanup"))
    )
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
    if not affinity and kind == "preferred":
        reject()

    ((name, _),) = affinity.items()
    assert name.startswith(kind)
    free = terms_of(affinity)
    for node in NODES:
        selected = any(
            node["arch"] == arch and matches(node, terms)
            for terms, arch in zip(pools, arches, strict=False)
        )
        assert matches(node, free) is not selected, node


def terms_of(affinity: Json) -> list[Json]:
    ((name, listed),) = affinity.items()
    if name.startswith("required"):
        found: list[Json] = listed["nodeSelectorTerms"]
        return found
    return [each["preference"] for each in listed]


GPU, CLIENT = "nvidia.com/gpu.present", "nvidia.com/gpu.deploy.client"
ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
UPGRADE = "paused-for-driver-upgrade"
ON_CLIENT: Json = {"key": CLIENT, "operator": "In", "values": ["true"]}
ON_GPU: Json = {"key": GPU, "operator": "Exists"}
NOT_CONTROL: Json = {"key": "control-plane", "operator": "DoesNotExist"}
INTO_GPUS: list[tuple[Json, list[dict[str, str]], list[dict[str, str]]]] = [
    (
        {"nodeSelector": {CLIENT: "true"}},
        [{GPU: "true", CLIENT: "true"}, {GPU: "true", CLIENT: UPGRADE}, {GPU: "true"}],
        [{}, {"control-plane": ""}],
    ),
    (
        {"nodeSelectorTerms": [{"matchExpressions": [ON_CLIENT, ON_GPU]}]},
        [{GPU: "true", CLIENT: "true"}, {GPU: "true", CLIENT: UPGRADE}, {GPU: "true"}],
        [{}, {"control-plane": ""}],
    ),
    (
        {"nodeSelectorTerms": [{"matchExpressions": [ON_CLIENT]}]},
        [{CLIENT: "true"}, {CLIENT: UPGRADE}, {CLIENT: "paused-for-mig-change"}],
        [{}, {CLIENT: "false"}],
    ),
    (
        {"nodeSelectorTerms": [{"matchExpressions": [ON_CLIENT, NOT_CONTROL]}]},
        [{CLIENT: "true"}, {CLIENT: UPGRADE}],
        [{}, {"control-plane": "", CLIENT: "true"}],
    ),
    (
        {"nodeSelector": {ARCH: "amd64", OS: "linux"}},
        [{GPU: "true", ARCH: arch, OS: "linux"} for arch in ("amd64", "arm64")],
        [
            {ARCH: arch, OS: system}
            for arch in ("amd64", "arm64")
            for system in ("linux", "windows")
        ],
    ),
    (
        {
            "nodeSelector": {ARCH: "arm64"},
            "nodeSelectorTerms": [{"matchExpressions": [NOT_CONTROL]}],
        },
        [{ARCH: "arm64"}],
        [{ARCH: "amd64"}, {ARCH: "arm64", "control-plane": ""}],
    ),
    (
        {"nodeSelector": {"pool": "a"}},
        [{GPU: "true", "pool": "a"}],
        [{}, {"pool": "a"}, {"pool": "b"}, {GPU: "true", "pool": "b"}],
    ),
]
"""Values of the exporter, nodes that are avoided, and nodes that are not."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("exporter", "avoided", "free"), INTO_GPUS)
def test_a_node_keeps_its_gpus_while_the_exporter_is_not_there(
    exporter: Json, avoided: list[dict[str, str]], free: list[dict[str, str]], kind: str
) -> None:
    flags = [f"--set-json=exporter.{key}={json.dumps(value)}" for key, value in exporter.items()]
    terms = terms_of(affinity_of(*flags, f"--set=remediator.awayFromGpus={kind}"))

    assert [node for node in avoided if matches(node, terms)] == []
    assert [node for node in free if not matches(node, terms)] == []
    if kind == "preferred":
        for node in free:
            assert sum(matches(node, [term]) for term in terms) == 1, "weights add up"


def test_pools_of_two_architectures_need_one_term() -> None:
    pools = [{"nodeSelector": {ARCH: arch}} for arch in ("amd64", "arm64")]

    assert away("required", *pools) == away("required", {})


def test_pools_of_a_cloud_that_differ_in_two_labels_are_turned_round() -> None:
    pools: list[Json] = [
        {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "gpu", "operator": "In", "values": [f"g{number}"]},
                        {"key": "pool", "operator": "In", "values": [f"p{number}"]},
                    ]
                }
            ]
        }
        for number in range(6)
    ]
    for kind in KINDS:
        terms = terms_of(away(kind, *pools))
        assert len(terms) <= 32
        for gpu, pool in itertools.product(range(7), repeat=2):
            node = {"gpu": f"g{gpu}", "pool": f"p{pool}"}
            assert matches(node, terms) is not (gpu == pool < 6), node


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

    assert away("preferred", {"nodeSelectorTerms": terms}) == {}


def test_a_preference_leaves_out_what_has_no_opposite() -> None:
    many: Json = {"key": "a", "operator": "Gt", "values": ["many"]}
    terms = [{"matchExpressions": [many, ON_GPU]}]

    assert terms_of(away("preferred", {"nodeSelectorTerms": terms})) == [
        {"matchExpressions": [many, {"key": GPU, "operator": "DoesNotExist"}]}
    ]


def test_a_long_term_is_given_up_soon() -> None:
    """All its combinations with 32 others would be compared with each other: half a minute."""
    long = {"matchExpressions": [{"key": f"k{n}", "operator": "Exists"} for n in range(60)]}
    began = cpu_seconds()

    assert away("preferred", {"nodeSelectorTerms": [*map(pair, range(5)), long]}) == {}
    assert cpu_seconds() - began < 10


def cpu_seconds() -> float:
    """Return the CPU time of this process and of each helm that it has waited for."""
    return sum(os.times()[:4])


def test_terms_that_share_an_expression_are_short_in_one_form() -> None:
    """Written apart from each other they would take 64 terms."""
    terms = [
        {"matchExpressions": [{"key": f"a{n}", "operator": "Exists"}, ON_GPU]} for n in range(6)
    ]

    assert len(terms_of(away("required", {"nodeSelectorTerms": terms}))) == 2
    assert len(terms_of(away("preferred", {"nodeSelectorTerms": terms}))) == 2


def test_thirty_two_terms_are_rendered() -> None:
    affinity = away("required", {"nodeSelectorTerms": [pair(number) for number in range(5)]})

    (required,) = affinity.values()
    assert len(required["nodeSelectorTerms"]) == 32


def test_the_remediator_runs_anywhere_where_that_is_requested() -> None:
    objects = rendered.objects((), "--set-string=remediator.awayFromGpus=no")

    assert "nodeAffinity" not in pod(objects, "Deployment", "remediator")["affinity"]
    assert "affinity" not in pod(objects, "Job")
