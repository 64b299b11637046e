"""Our taints blind nobody: a metrics exporter's claim under NoSchedule and NoExecute."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from exporter.model.device import Device
from simulator.cluster import workloads
from simulator.cluster.controlplane import ControlPlaneError
from tests.chain.scene import resource_slice
from tests.deploy import rendered
from tests.lab.cluster import RULES, Cluster, await_true
from tests.remediator import builders

Json = dict[str, Any]
LABEL = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
BOTH = [
    {"operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists", "effect": "NoExecute"},
]


def admin(name: str = "gpus", **fields: object) -> Json:
    """A request as that of GPUCluster's dcgm-exporter: all GPUs, and no tolerations."""
    exactly = {"deviceClassName": workloads.GPU_CLASS, "allocationMode": "All", "adminAccess": True}
    return {"name": name, "exactly": {**exactly, **fields}}


def tolerations(cluster: Cluster, name: str) -> list[Json]:
    """Return those of each request of a stored claim, in order."""
    requests = cluster.get(f"{CLAIMS}/{name}")["spec"]["devices"]["requests"]
    return [request["exactly"].get("tolerations", []) for request in requests]


@pytest.fixture
def watched(cluster: Cluster) -> Cluster:
    """A node with two GPUs, in a cluster where claims of the namespace may have admin access."""
    cluster.client.merge_patch("/api/v1/namespaces/default", LABEL)
    cluster.player.add_node("node-a")
    gpus = [builders.gpu(0), builders.gpu(1)]
    devices = [device for gpu in gpus for device in builders.published(gpu, "node-a")]
    cluster.player.publish("node-a", [resource_slice("node-a", devices)])
    return cluster


@pytest.fixture
def policy(helm_built: object, watched: Cluster) -> Iterator[None]:
    """The chart's policy for that namespace, in force."""
    text = rendered.text(
        ("admission.adminAccessNamespaces={default}",), "--show-only=templates/admin-access.yaml"
    )
    watched.plane.kubectl("apply", "-f", "-", stdin=text)
    numbers = count()

    def mutates() -> bool:
        name = f"probe-{next(numbers)}"
        watched.add("resource.k8s.io/v1", "resourceclaims", workloads.claim(name, admin()))
        found = tolerations(watched, name)
        watched.client.delete(f"{CLAIMS}/{name}")
        return found == [BOTH]

    await_true("the policy is in force", mutates)
    yield
    watched.plane.kubectl("delete", "-f", "-", stdin=text)
    await_true("the policy is out of force", lambda: not mutates())


def taint(cluster: Cluster, effect: str) -> None:
    device = Device("gpu.nvidia.com", "node-a", "gpu-0")
    selector = {"driver": device.driver, "pool": device.pool, "device": device.device}
    taint = {"key": "draguard.dev/gpu", "value": "xid-95", "effect": effect}
    body: Json = {
        "metadata": {"name": f"a-{effect.lower()}"},
        "spec": {"deviceSelector": selector, "taint": taint},
    }
    cluster.client.create(cluster.rules, body)


def metrics_exporter(cluster: Cluster) -> Callable[[], list[str]]:
    """Run it, as a Deployment of one; returns what gives the names of its running pods."""
    template = workloads.claim_template("dcgm", admin())
    cluster.add("resource.k8s.io/v1", "resourceclaimtemplates", template)
    spec = workloads.pod_spec(template="dcgm")
    cluster.add("apps/v1", "deployments", workloads.deployment("dcgm", 1, spec))

    def running() -> list[str]:
        pods = (pod["metadata"] for pod in cluster.running())
        staying = [pod["name"] for pod in pods if "deletionTimestamp" not in pod]
        return [name for name in staying if name.startswith("dcgm-")]

    await_true("the metrics exporter runs", running)
    return running


def names(cluster: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.running()]


def job_on_gpu_0(cluster: Cluster) -> str:
    """Run a job on each of the two GPUs; returns the name of the pod that holds `gpu-0`."""
    template = workloads.claim_template("job", workloads.gpu_request())
    cluster.add("resource.k8s.io/v1", "resourceclaimtemplates", template)
    jobs = ("job-a", "job-b")
    for name in jobs:
        cluster.add("v1", "pods", workloads.pod(name, workloads.pod_spec(template="job")))
    await_true("both jobs run", lambda: {*names(cluster)} >= {*jobs})
    return next(name for name in jobs if cluster.device_of(name) == "node-a/gpu-0")


def refused(pod: Json) -> bool:
    """Tell whether the scheduler looked at the pod and found no node for it."""
    conditions = pod["status"].get("conditions", [])
    return any(condition.get("reason") == "Unschedulable" for condition in conditions)


@pytest.mark.usefixtures("policy")
def test_each_request_with_admin_access_tolerates_both_effects_and_no_other_does(
    watched: Cluster,
) -> None:
    own = [{"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]
    full = [{"key": f"x{number}", "operator": "Exists"} for number in range(15)]
    without_schedule = [*full[:14], BOTH[1]]
    claim = workloads.claim(
        "several",
        workloads.gpu_request("held"),
        admin("first"),
        admin("has-some", tolerations=own),
        admin("has-one", tolerations=BOTH[1:]),
        admin("full", tolerations=full),
        admin("room-for-two", tolerations=full[:14]),
        admin("room-for-one", tolerations=without_schedule),
    )
    watched.add("resource.k8s.io/v1", "resourceclaims", claim)

    none, first, some, one, untouched, two, last = tolerations(watched, "several")
    assert none == []
    assert first == BOTH
    assert some == [*own, *BOTH]
    assert one == [BOTH[1], BOTH[0]]
    assert untouched == full, "sixteen are the most, and a claim that is refused helps nobody"
    assert two == [*full[:14], *BOTH]
    assert last == [*without_schedule, BOTH[0]]


@pytest.mark.usefixtures("policy")
def test_the_metrics_exporter_stays_under_both_effects_and_a_new_one_starts(
    watched: Cluster,
) -> None:
    job = job_on_gpu_0(watched)
    running = metrics_exporter(watched)
    (before,) = running()

    taint(watched, "NoSchedule")
    taint(watched, "NoExecute")
    await_true("the job on that GPU is evicted", lambda: job not in names(watched))
    assert running() == [before]
    watched.client.delete(f"/api/v1/namespaces/default/pods/{before}")

    await_true("a new one runs", lambda: running() and before not in running())


def test_without_the_policy_it_is_evicted_and_does_not_come_back(watched: Cluster) -> None:
    running = metrics_exporter(watched)

    taint(watched, "NoExecute")

    await_true("it is evicted", lambda: running() == [])
    await_true("no node takes the new one", lambda: any(map(refused, watched.pods())))
    assert running() == []
    assert len(watched.items(RULES)) == 1


def test_a_claim_that_exists_cannot_be_given_tolerations(watched: Cluster) -> None:
    """Why docs/install.md says to delete it."""
    watched.add("resource.k8s.io/v1", "resourceclaims", workloads.claim("old", admin()))

    changed = '{"spec":{"devices":{"requests":null}}}'
    with pytest.raises(ControlPlaneError, match="immutable"):
        watched.plane.kubectl("patch", "resourceclaim", "old", "--type=merge", "-p", changed)
