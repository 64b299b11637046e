"""`draguard cleanup` on a real API server: what is ours goes, what is not ours stays."""

from pathlib import Path

import pytest

from draguard.__main__ import main
from kubeapi.client import Client
from kubeapi.lease import leases
from remediator.model.node import MARK, REPAIR_NEEDED
from remediator.model.taint_rule import Rule, manifest
from tests.draguard.printed import items
from tests.lab.cluster import NODES, RULES, Cluster, Json
from tests.remediator.builders import rule

NAMESPACE = "default"
LEASES = leases(NAMESPACE)


def tainted(cluster: Cluster, *rules: Rule) -> None:
    for taint_rule in rules:
        cluster.client.create(RULES, manifest(taint_rule, "v1"))


def foreign(cluster: Cluster) -> None:
    """Three rules that carry one of our signs, or none."""
    for name, labels, key in (
        ("borrowed-label", {"app.kubernetes.io/managed-by": "draguard"}, "example.com/broken"),
        ("borrowed-key", {}, "draguard.dev/gpu"),
        ("somebody", {}, "example.com/broken"),
    ):
        body: Json = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceTaintRule",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "p", "device": "d"},
                "taint": {"key": key, "value": "x", "effect": "NoSchedule"},
            },
        }
        cluster.client.create(RULES, body)


def node(cluster: Cluster, name: str, types: dict[str, str]) -> None:
    """A Node with conditions of ours, marked as such, and one of the kubelet's."""
    meta: Json = {"name": name, "annotations": {MARK: ",".join(types)}}
    cluster.client.create(NODES, {"metadata": meta})
    conditions: list[Json] = [{"type": kind, "status": state} for kind, state in types.items()]
    conditions.append({"type": "Ready", "status": "True"})
    cluster.client.merge_patch(f"{NODES}/{name}/status", {"status": {"conditions": conditions}})


def names(cluster: Cluster) -> set[str]:
    return {item["metadata"]["name"] for item in cluster.items(RULES)}


def release(cluster: Cluster, *arguments: str) -> int:
    return main(["cleanup", "--kubeconfig", str(cluster.plane.kubeconfig), *arguments])


def test_without_a_terminal_it_removes_nothing_that_no_flag_agrees_to(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    tainted(cluster, rule())

    assert release(cluster, "--all") == 1

    stated = capsys.readouterr().err
    assert names(cluster) == {rule().name}
    assert "to remove: 1 object of 1 GPU\n" in stated
    assert "no terminal for confirmation; add --yes" in stated


def test_all_leaves_nothing_of_ours_and_everything_of_others(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = rule(), rule(1)
    tainted(cluster, one, other)
    foreign(cluster)
    node(cluster, "node-a", {REPAIR_NEEDED: "True"})

    assert release(cluster, "--all", "--yes") == 0

    stated = capsys.readouterr().out
    assert one.name in stated
    assert other.name in stated
    assert "condition DraguardDeviceRepairNeeded" in stated
    assert names(cluster) == {"borrowed-label", "borrowed-key", "somebody"}
    left = cluster.get(f"{NODES}/node-a")
    assert "Ready" in {condition["type"] for condition in left["status"]["conditions"]}
    assert REPAIR_NEEDED not in {condition["type"] for condition in left["status"]["conditions"]}
    assert MARK not in left["metadata"].get("annotations", {})
    assert release(cluster, "--all", "--yes") == 0
    assert "no taint rules or Node conditions of Draguard" in capsys.readouterr().out


def test_a_dry_run_removes_nothing(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    tainted(cluster, rule())

    assert release(cluster, "--all", "--dry-run") == 0

    assert names(cluster) == {rule().name}
    assert "would be removed" in capsys.readouterr().out


def test_leases_of_agents_and_leaders_go_where_the_flag_says_so(
    cluster: Cluster, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """They stay by default: a running remediator would take a node without one for silent."""
    ours = {"draguard-agent-node-a", "draguard-remediator", "draguard-explainer"}
    for name in (*ours, "others"):
        cluster.client.create(LEASES, {"metadata": {"name": name}, "spec": {}})

    def clean_up(*flags: str) -> int:
        return release(cluster, "--all", f"--namespace={NAMESPACE}", *flags)

    def left() -> set[str]:
        return {item["metadata"]["name"] for item in cluster.items(LEASES)}

    assert clean_up("--yes") == 0
    assert left() == {*ours, "others"}
    assert clean_up("--leases", "--dry-run") == 0
    assert left() == {*ours, "others"}

    assert clean_up("--leases", "--yes") == 0

    assert left() == {"others"}
    assert "Lease draguard-agent-node-a: without a holder: removed" in capsys.readouterr().out
    client.delete(f"{LEASES}/others")


def test_json_names_what_went(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    tainted(cluster, rule())

    assert release(cluster, "--all", "--yes", "-o", "json") == 0

    (reported,) = items(capsys.readouterr().out, "RemovalList")
    assert reported["found"]["name"] == rule().name
    assert reported["error"] == ""


def test_what_cannot_be_removed_is_reported_once_and_ends_with_one(
    cluster: Cluster, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finalizer of somebody's keeps the object: gone is what is gone, not what was requested."""
    stuck = rule()
    tainted(cluster, stuck, rule(1))
    path = f"{RULES}/{stuck.name}"
    client.merge_patch(path, {"metadata": {"finalizers": ["example.com/keep"]}})
    try:
        assert release(cluster, "--all", "--yes") == 1
    finally:
        client.merge_patch(path, {"metadata": {"finalizers": None}})

    stated = capsys.readouterr().out
    assert stated.count(f"DeviceTaintRule {stuck.name}") == 1
    assert "NOT removed: it still exists" in stated


def test_more_rules_than_fit_on_a_page_all_go(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("draguard.cluster.listing.PAGE", 2)
    tainted(cluster, *(rule(index) for index in range(5)))

    assert release(cluster, "--all", "--yes") == 0
    assert names(cluster) == set()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "--all is required"),
        (["--all", "gpu-0-1"], "use `draguard untaint gpu-0-1`"),
        (["gpu-0-1"], "use `draguard untaint gpu-0-1`"),
    ],
)
def test_it_means_all_and_names_the_command_for_one(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cleanup", *arguments])

    assert ended.value.code == 2
    assert why in capsys.readouterr().err


def test_a_cluster_that_cannot_be_reached_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "config"

    assert main(["cleanup", "--all", "--kubeconfig", str(missing)]) == 2
    assert "draguard cleanup:" in capsys.readouterr().err
