"""Pools of nodes that differ: a DaemonSet for each, and never two exporters on one node."""

import json
from typing import Any

import pytest
import yaml

from deploy.program import HelmError
from tests.deploy import rendered
from tests.deploy.rendered import Json, of_kind, only
from tests.deploy.settings import POOLS, SETTINGS

pytestmark = pytest.mark.usefixtures("helm_built")


def daemon_sets(*pools: Json, **exporter: Any) -> dict[str, Json]:
    """Return the DaemonSets of some pools by their names."""
    sets = [f"--set-json=exporter.{key}={json.dumps(value)}" for key, value in exporter.items()]
    text = rendered.text((), f"--set-json=exporter.pools={json.dumps(pools)}", *sets)
    found = of_kind([one for one in yaml.safe_load_all(text) if one], "DaemonSet")
    return {one["metadata"]["name"]: one for one in found}


def pods(*pools: Json, **exporter: Any) -> list[Json]:
    return [one["spec"]["template"]["spec"] for one in daemon_sets(*pools, **exporter).values()]


def of_arch(name: str, arch: str, **more: Any) -> Json:
    return {"name": name, "nodeSelector": {"kubernetes.io/arch": arch}, **more}


def test_each_pool_is_a_daemon_set_with_pods_of_its_own() -> None:
    found = daemon_sets(of_arch("h100", "amd64"), of_arch("gb200", "arm64"))

    assert list(found) == ["draguard-exporter-h100", "draguard-exporter-gb200"]
    selectors = [one["spec"]["selector"]["matchLabels"] for one in found.values()]
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in found.values()]
    for i, selector in enumerate(selectors):
        assert [selector.items() <= have.items() for have in labels] == [i == 0, i == 1]


def test_without_pools_there_is_one_under_the_name_and_the_selector_that_it_always_had() -> None:
    """A DaemonSet's selector cannot be changed: an upgrade would fail."""
    one = only(rendered.objects(), "DaemonSet")

    assert one["metadata"]["name"] == "draguard-exporter"
    assert one["spec"]["selector"]["matchLabels"] == {
        "app.kubernetes.io/name": "draguard",
        "app.kubernetes.io/component": "exporter",
    }


def test_services_monitors_and_network_policies_are_for_the_pods_of_all_pools() -> None:
    objects = rendered.objects((*POOLS, *SETTINGS["closed"], *SETTINGS["ServiceMonitors"]))
    labels = [
        one["spec"]["template"]["metadata"]["labels"] for one in of_kind(objects, "DaemonSet")
    ]
    service = only(objects, "Service", "exporter")
    selectors = (
        service["spec"]["selector"],
        only(objects, "NetworkPolicy", "exporter")["spec"]["podSelector"]["matchLabels"],
    )

    assert len(labels) == 2
    for selector in selectors:
        assert all(selector.items() <= have.items() for have in labels)
    monitored = only(objects, "ServiceMonitor", "exporter")["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= service["metadata"]["labels"].items()


def test_a_pool_has_its_own_keys_and_otherwise_those_of_the_exporter() -> None:
    h100, gb200 = pods(
        of_arch("h100", "amd64"),
        of_arch(
            "gb200",
            "arm64",
            gpu={"access": "driver-root"},
            tolerations=[],
            kernelLog="journal",
            resources={"agent": {"limits": {"memory": "1Gi"}}},
        ),
        nodeSelector={"pool": "gpu"},
    )

    assert h100["runtimeClassName"] == "nvidia"
    assert h100["nodeSelector"] == {"pool": "gpu", "kubernetes.io/arch": "amd64"}
    assert "runtimeClassName" not in gb200
    assert "tolerations" not in gb200
    hosts = {one["name"]: one["hostPath"]["path"] for one in gb200["volumes"] if "hostPath" in one}
    assert (hosts["driver"], hosts["journal"]) == ("/", "/var/log/journal")
    assert [one["resources"]["limits"] for one in gb200["containers"]] == [
        {"memory": "1Gi"},
        {"memory": "1Gi"},
    ]
    assert gb200["containers"][1]["resources"].keys() == {"limits"}


def test_an_empty_value_of_a_pool_counts_too() -> None:
    default, named = pods(
        of_arch("a", "amd64", gpu={"runtimeClassName": ""}), of_arch("b", "arm64")
    )

    assert "runtimeClassName" not in default
    assert named["runtimeClassName"] == "nvidia"


def expression(operator: str, *values: str, key: str = "pool") -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def selected(*terms: list[Json]) -> list[Json]:
    return [{"matchExpressions": term} for term in terms]


def by_field(name: str) -> list[Json]:
    return [{"matchFields": [expression("In", name, key="metadata.name")]}]


A, B, AB = expression("In", "a"), expression("In", "b"), expression("In", "a", "b")
OTHER_KEY = expression("In", "c", key="zone")
APART: list[tuple[list[Json], list[Json]]] = [
    (selected([A]), selected([B])),
    (selected([A, OTHER_KEY]), selected([OTHER_KEY, B])),
    (selected([AB]), selected([expression("NotIn", "a", "b", "c")])),
    (selected([expression("DoesNotExist")]), selected([A], [expression("Exists")])),
    (selected([expression("Gt", "5")]), selected([expression("DoesNotExist")])),
    (by_field("node-a"), by_field("node-b")),
]
TOGETHER: list[tuple[list[Json], list[Json]]] = [
    (selected([A]), selected([AB])),
    (selected([A]), selected([OTHER_KEY])),
    (selected([A]), selected([B], [A])),
    (selected([AB]), selected([expression("NotIn", "a")])),
    (selected([expression("NotIn", "a")]), selected([expression("DoesNotExist")])),
    (selected([expression("Exists")]), selected([A])),
    (by_field("node-a"), selected([expression("In", "node-b", key="metadata.name")])),
]


@pytest.mark.parametrize(("one", "other"), APART)
def test_pools_that_no_node_can_share_are_taken(one: list[Json], other: list[Json]) -> None:
    pair = [{"name": "a", "nodeSelectorTerms": one}, {"name": "b", "nodeSelectorTerms": other}]

    assert len(daemon_sets(*pair)) == len(daemon_sets(*reversed(pair))) == 2


@pytest.mark.parametrize(("one", "other"), TOGETHER)
def test_pools_that_one_node_could_be_in_are_refused_with_what_to_do(
    one: list[Json], other: list[Json]
) -> None:
    pair = [{"name": "a", "nodeSelectorTerms": one}, {"name": "b", "nodeSelectorTerms": other}]

    for pools in (pair, pair[::-1]):
        with pytest.raises(HelmError, match=r"match both . .* and . .* Give both pools a"):
            daemon_sets(*pools)


REFUSED: list[tuple[Json, str]] = [
    ({}, "missing property 'name'"),
    ({"name": "H100"}, "/exporter/pools/0/name"),
    ({"name": "a" * 33}, "/exporter/pools/0/name"),
    ({"name": "a", "gpu": {"acces": "runtime"}}, "/exporter/pools/0/gpu"),
    ({"name": "a", "interval": 5}, "/exporter/pools/0"),
    ({"name": "a", "kernelLog": "dmesg"}, "/exporter/pools/0/kernelLog"),
    ({"name": "a", "dcgm": {"mode": "hostEngine"}}, "exporter.pools a.dcgm.address is empty"),
    (
        {"name": "a", "kernelLog": "kmsg", "extraCapabilities": ["SYS_ADMIN"]},
        "exporter.pools a.extraCapabilities",
    ),
    (
        {"name": "a", "gpu": {"access": "driver-root"}, "extraCapabilities": ["SYS_ADMIN"]},
        "exporter.pools a.extraCapabilities: with gpu.access driver-root",
    ),
    ({"name": "a", "journalPath": "/a"}, "exporter.pools a.journalPath needs kernelLog journal"),
    ({"name": "a", "gpu": {"driverRoot": "/a"}}, "a.gpu.driverRoot needs gpu.access driver-root"),
    (
        {"name": "a", "stack": "gpucluster", "gpu": {"runtimeClassName": "mine"}},
        "exporter.pools a.gpu.runtimeClassName needs gpu.access runtime",
    ),
    ({"name": "a", "stack": "gke"}, "exporter.pools a has the stack gke, which also needs obj"),
    ({"name": "a", "stack": "openshift"}, "set stack=openshift"),
]


@pytest.mark.parametrize(("pool", "named"), REFUSED)
def test_a_wrong_pool_is_refused_by_name(pool: Json, named: str) -> None:
    with pytest.raises(HelmError) as refusal:
        daemon_sets(pool)

    assert named in str(refusal.value)


def test_a_name_is_of_one_pool() -> None:
    with pytest.raises(HelmError, match="has the name a twice"):
        daemon_sets(of_arch("a", "amd64"), of_arch("a", "arm64"))


def test_a_value_that_one_pool_uses_may_be_set_for_all() -> None:
    journal, default = pods(
        of_arch("a", "amd64", kernelLog="journal"), of_arch("b", "arm64"), journalPath="/logs"
    )

    assert "/logs" in [volume.get("hostPath", {}).get("path") for volume in journal["volumes"]]
    assert "/logs" not in [volume.get("hostPath", {}).get("path") for volume in default["volumes"]]
