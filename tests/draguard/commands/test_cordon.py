"""`cordon` and `uncordon` on a real cluster: real scheduler, real eviction controller."""

import json
from collections.abc import Callable

import pytest

from draguard.__main__ import main
from draguard.cluster.cordon_rule import CORDONED_BY, KEY, REASON, SINCE, Cordon
from draguard.cluster.cordon_rule import manifest as manifest_of
from exporter.model.device import Device
from remediator.model.incident_status import Target
from remediator.model.taint_rule import manifest
from simulator.cluster.workloads import claim, gpu_request, pod, pod_spec
from tests.chain.scene import resource_slice
from tests.draguard.fleet import T0
from tests.draguard.printed import printed
from tests.draguard.test_cli_terminal import on_terminal
from tests.lab.cluster import RULES, Cluster, Json, await_true
from tests.remediator.builders import DRIVER, gpu, mig_gpu, published, rule, uuid

Tell = Callable[..., str]
NODE_B = mig_gpu(0, slices=3, uuid=uuid(0, "node-b"))


@pytest.fixture
def tell(crds: None, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Tell:
    """Two whole GPUs on node-a, one GPU in three slices on node-b; gives what a command printed."""
    for node, boards in (("node-a", (gpu(0), gpu(1))), ("node-b", (NODE_B,))):
        cluster.player.add_node(node)
        devices = [device for board in boards for device in published(board, node)]
        cluster.player.publish(node, [resource_slice(node, devices)])

    def run(*arguments: str, ends: int = 0) -> str:
        return printed(capsys, *arguments, "--kubeconfig", str(cluster.plane.kubeconfig), ends=ends)

    return run


def train(cluster: Cluster, name: str) -> str:
    """Run a pod with one whole GPU; gives the device's name once it holds it."""
    cluster.add("resource.k8s.io/v1", "resourceclaims", claim(name, gpu_request()))
    cluster.add("v1", "pods", pod(name, pod_spec(shared_claim=name)))
    return await_true(f"{name} holds a device", lambda: cluster.device_of(name))


def cordons(cluster: Cluster) -> dict[str, str]:
    """Return the effect of each cordon for maintenance, by `pool/device`."""
    found: dict[str, str] = {}
    for stored in cluster.items(RULES):
        selector, taint = stored["spec"]["deviceSelector"], stored["spec"]["taint"]
        if taint["key"] == KEY:
            found[f"{selector['pool']}/{selector['device']}"] = taint["effect"]
    return found


def test_a_cordoned_gpu_keeps_its_pod_and_gets_no_new_one(tell: Tell, cluster: Cluster) -> None:
    held = train(cluster, "first")
    index = held[-1]

    assert "stays" in tell("cordon", f"node-a/{index}", "--reason", "thermal paste")
    assert cordons(cluster) == {held: "NoSchedule"}
    (rule,) = cluster.items(RULES)
    assert rule["metadata"]["labels"][CORDONED_BY] == rule["spec"]["taint"]["value"] == "admin"
    assert rule["metadata"]["annotations"][REASON] == "thermal paste"
    assert rule["metadata"]["annotations"][SINCE]
    assert "app.kubernetes.io/managed-by" not in rule["metadata"]["labels"]
    assert train(cluster, "second") != held
    assert cluster.device_of("first") == held


def test_a_gpu_means_every_slice_of_it_and_uncordon_takes_exactly_those_away(
    tell: Tell, cluster: Cluster
) -> None:
    other = rule_of_the_remediator(cluster)
    tell("cordon", uuid(0, "node-b"), "--reason", "swap")
    tell("cordon", "node-a/gpu-0", "--reason", "swap")

    slices = {
        f"node-b/{device.device.device}": "NoSchedule" for device in published(NODE_B, "node-b")
    }
    assert cordons(cluster) == {**slices, "node-a/gpu-0": "NoSchedule"}

    tell("uncordon", uuid(0, "node-b"))

    assert cordons(cluster) == {"node-a/gpu-0": "NoSchedule"}
    assert other in {rule["metadata"]["name"] for rule in cluster.items(RULES)}


def test_a_slice_means_that_slice(tell: Tell, cluster: Cluster) -> None:
    part = published(NODE_B, "node-b")[1]

    tell("cordon", str(part.uuid), "--reason", "test")
    assert cordons(cluster) == {f"node-b/{part.device.device}": "NoSchedule"}

    tell("uncordon", str(part.device))
    assert cordons(cluster) == {}


def test_with_evict_the_pods_are_named_first_and_moved_by_kubernetes_itself(
    tell: Tell, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    held = train(cluster, "first")
    where = ("--kubeconfig", str(cluster.plane.kubeconfig))

    assert main(["cordon", f"node-a/{held[-1]}", "--reason", "swap", "--evict", *where]) == 1
    stated = capsys.readouterr().err
    assert "1 pod will be deleted:\n  default/first\n" in stated
    assert "add --yes" in stated
    assert cordons(cluster) == {}

    tell("cordon", f"node-a/{held[-1]}", "--reason", "swap", "--evict", "--yes")

    assert cordons(cluster) == {held: "NoExecute"}
    await_true("the pod is gone", lambda: not cluster.pods())


def test_with_evict_a_pod_of_a_slinky_nodeset_is_warned_of(tell: Tell, cluster: Cluster) -> None:
    """A user who may not read pods sees that it is unknown."""
    owner = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "name": "worker"}
    body = pod("slurmd", pod_spec(shared_claim="slurmd"))
    body["metadata"]["ownerReferences"] = [{**owner, "uid": "1", "controller": True}]
    cluster.add("resource.k8s.io/v1", "resourceclaims", claim("slurmd", gpu_request()))
    cluster.add("v1", "pods", body)
    index = await_true("slurmd holds a device", lambda: cluster.device_of("slurmd"))[-1]
    words = ("cordon", f"node-a/{index}", "--reason", "x", "--dry-run")

    stated = tell(*words, "--evict")
    assert "is deleted (pod of a NodeSet)" in stated
    assert "warning: default/slurmd: pod of a Slinky NodeSet, and an eviction would kill" in stated
    assert "NodeSet" not in tell(*words)
    found = json.loads(tell(*words, "--evict", "-o", "json"))["items"][0]["holders"]
    assert [each["drained_by"] for each in found] == ["NodeSet"]

    plane = cluster.plane
    reads = ("--verb=list", "--resource=resourceslices,resourceclaims,devicetaintrules")
    plane.kubectl("create", "clusterrole", "blind", *reads)
    reports = ("--verb=list", "--resource=nodedevicehealths")
    plane.kubectl("create", "clusterrole", "blind-reports", *reports)
    for role in ("blind", "blind-reports"):
        plane.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", "--user=eve")
    try:
        eve = ("--as", "eve", "--evict")
        where = ("--kubeconfig", str(plane.kubeconfig))
        await_true("it counts", lambda: main([*words, *eve, *where]) == 0)
        stated = tell(*words, *eve)
    finally:
        for role in ("blind", "blind-reports"):
            plane.kubectl("delete", f"clusterrolebinding/{role}", f"clusterrole/{role}")
    assert "is unknown for default/slurmd: eve may not get pods in namespace default" in stated


def test_who_types_yes_is_obeyed_and_who_does_not_is_not(tell: Tell, cluster: Cluster) -> None:
    held = train(cluster, "first")
    command = ("cordon", f"node-a/{held[-1]}", "--reason", "swap", "--evict")
    where = ("--kubeconfig", str(cluster.plane.kubeconfig))

    stated = on_terminal(*command, *where, types="no\n", ends=(1,))
    assert "default/first" in stated
    assert "nothing was done" in stated
    assert cordons(cluster) == {}

    on_terminal(*command, *where, types="yes\n")
    assert cordons(cluster) == {held: "NoExecute"}


def test_a_cordon_that_does_not_stand_is_reported_beside_those_that_do(
    tell: Tell, cluster: Cluster
) -> None:
    """Somebody's object has the name that the cordon of the second slice would get."""
    second = published(NODE_B, "node-b")[1].device
    target = Target(second.driver, second.pool, second.device, "MIG-x")
    cordon = Cordon(target=target, gpu="GPU-x", effect="NoSchedule", by="ana", reason="x")
    body: Json = manifest_of(cordon, "v1", T0)
    body["spec"]["taint"]["key"] = "example.com/other"
    cluster.client.create(RULES, body)

    stated = tell("cordon", "node-b/0", "--reason", "x", ends=1)

    assert stated.count("NOT cordoned: ") == 1
    assert len(cordons(cluster)) == 2


def test_a_cordon_that_a_finalizer_keeps_is_not_called_gone(tell: Tell, cluster: Cluster) -> None:
    tell("cordon", "node-a/0", "--reason", "x")
    (rule,) = cluster.items(RULES)
    path = f"{cluster.rules}/{rule['metadata']['name']}"
    cluster.client.merge_patch(path, {"metadata": {"finalizers": ["example.com/keep"]}})
    try:
        assert "NOT uncordoned: it still exists" in tell("uncordon", "node-a/0", ends=1)
    finally:
        cluster.client.merge_patch(path, {"metadata": {"finalizers": None}})


def test_a_cordon_is_raised_and_never_doubled_or_lowered(tell: Tell, cluster: Cluster) -> None:
    assert "cordoned" in tell("cordon", "node-a/0", "--reason", "x")
    assert "already cordoned by admin: x" in tell("cordon", "node-a/0", "--reason", "y")

    tell("cordon", "node-a/0", "--reason", "x", "--evict")
    assert cordons(cluster) == {"node-a/gpu-0": "NoExecute"}

    assert "already cordoned" in tell("cordon", "node-a/0", "--reason", "x")
    assert cordons(cluster) == {"node-a/gpu-0": "NoExecute"}


def test_release_leaves_it_and_says_so(tell: Tell, cluster: Cluster) -> None:
    rule_of_the_remediator(cluster)
    tell("cordon", "node-a/1", "--reason", "x")

    stated = tell("cleanup", "--all", "--yes")

    assert cordons(cluster) == {"node-a/gpu-1": "NoSchedule"}
    assert len(cluster.items(RULES)) == 1
    assert "1 cordon for maintenance stays (draguard-maintenance-" in stated
    tell("uncordon", "--all")
    assert cordons(cluster) == {}


def test_release_leaves_it_even_when_somebody_labels_it_as_ours(
    tell: Tell, cluster: Cluster
) -> None:
    tell("cordon", "node-a/1", "--reason", "x")
    (rule,) = cluster.items(RULES)
    labels = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "draguard"}}}
    cluster.client.merge_patch(f"{cluster.rules}/{rule['metadata']['name']}", labels)

    tell("cleanup", "--all", "--yes")

    assert cordons(cluster) == {"node-a/gpu-1": "NoSchedule"}


def test_a_device_that_is_published_no_more_is_uncordoned_by_its_uuid(
    tell: Tell, cluster: Cluster
) -> None:
    tell("cordon", uuid(1), "--reason", "x")
    cluster.player.publish("node-a", [resource_slice("node-a", [])], new_generation=True)

    tell("uncordon", uuid(1))

    assert cordons(cluster) == {}


@pytest.mark.parametrize("word", ["GPU-none", "node-a/7", "node-a/gpu-x", "a/b/c", "\x1b[31m"])
def test_a_device_that_nobody_publishes_is_not_cordoned(
    word: str, tell: Tell, cluster: Cluster
) -> None:
    assert tell("cordon", word, "--reason", "x", ends=1) == ""
    assert tell("uncordon", word, ends=1) == ""
    assert cordons(cluster) == {}


def rule_of_the_remediator(cluster: Cluster) -> str:
    one = rule(node="node-b", device=Device(DRIVER, "node-b", "gpu-0-mig-1g10gb-19-0"))
    body: Json = manifest(one, "v1")
    cluster.client.create(RULES, body)
    return one.name
