"""Who is named and who is moved when a device fails, by the real controllers of a cluster."""

from collections.abc import Mapping

from exporter.model.node_health import GpuHealth
from simulator.cluster import workloads
from tests.chain.proxy import Proxy
from tests.chain.scene import INCIDENT_ONLY, Scene
from tests.chain.test_taint_and_move import off_the_bus
from tests.lab.cluster import Json, await_true
from tests.remediator.builders import gpu, mig_gpu

SLICES = workloads.device_class("slices.example.com", "mig", extended_resource="nvidia.com/slice")
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SLOW_RECOVERY = "defaults: {mode: enforce, settle: 1s, soak: 60s}"


def add_pod(scene: Scene, name: str, spec: Json, labels: Mapping[str, str] = {}) -> str:
    """Start a pod and return its UID once it runs."""
    body = workloads.pod(name, spec)
    body["metadata"]["labels"] = dict(labels)
    uid: str = scene.cluster.add("v1", "pods", body)["metadata"]["uid"]
    await_true(f"{name} runs", lambda: name in names(scene))
    return uid


def names(scene: Scene) -> set[str]:
    """Return the running pods that nobody is deleting."""
    running = scene.cluster.running()
    return {
        pod["metadata"]["name"] for pod in running if "deletionTimestamp" not in pod["metadata"]
    }


def protect(scene: Scene, name: str, app: str = "") -> None:
    """Forbid to disrupt the pods of an app, by default the one of the same name.

    Returns when the disruption controller says so.
    """
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app or name}}},
    }
    scene.cluster.add("policy/v1", "poddisruptionbudgets", body)
    path = f"{BUDGETS}/{name}"
    await_true(
        "the budget counts the pod",
        lambda: scene.cluster.get(path).get("status", {}).get("expectedPods") == 1,
    )


def allow(scene: Scene, app: str) -> None:
    """Let the pods of an app be disrupted."""
    scene.cluster.client.merge_patch(f"{BUDGETS}/{app}", {"spec": {"minAvailable": 0}})


def evictions(proxy: Proxy) -> list[str]:
    """Return the evictions that the API server has answered."""
    return [path for _, path in proxy.writes if path.endswith("/eviction")]


def entries(scene: Scene, field: str) -> list[Json]:
    """Return the pods in a field of the only incident's status, `group.field`."""
    group, _, name = field.partition(".")
    found = scene.incidents()
    return found[0].get("status", {}).get(group, {}).get(name, []) if found else []


def reported_pods(scene: Scene, field: str) -> set[str]:
    return {entry["pod"] for entry in entries(scene, field)}


def await_hit(scene: Scene, count: int) -> list[Json]:
    await_true(f"{count} are affected", lambda: len(entries(scene, "scope.affectedPods")) == count)
    return entries(scene, "scope.affectedPods")


def sick(scene: Scene, health: GpuHealth) -> None:
    scene.report("node-a", off_the_bus(health))


def test_a_pod_with_a_request_by_resource_name_is_moved_by_us_and_only_once(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    uid = add_pod(scene, "notebook", workloads.pod_spec(extended_gpus=1))
    with Proxy(scene.cluster.plane.endpoint()) as proxy:
        scene.remediator(server=proxy.url)

        sick(scene, one)

        await_true("the pod is being deleted", lambda: "notebook" not in names(scene))
        await_true("it is reported as evicted", lambda: entries(scene, "eviction.evictedPods"))
        assert evictions(proxy) == ["/api/v1/namespaces/default/pods/notebook/eviction"]
    (gone,) = entries(scene, "eviction.evictedPods")
    assert (gone["pod"], gone["uid"], gone["via"]) == ("notebook", uid, "ExtendedResource")


def test_a_disruption_budget_is_respected_until_it_allows(scene: Scene) -> None:
    one = gpu(0)
    scene.policy(SLOW_RECOVERY)
    scene.node("node-a", one)
    add_pod(scene, "notebook", workloads.pod_spec(extended_gpus=1), {"app": "notebook"})
    protect(scene, "notebook")
    remediator = scene.remediator()
    sick(scene, one)
    scene.await_rules({"node-a/gpu-0": "NoExecute"})
    remediator.await_saying("eviction refused, requested again with backoff: pod=default/notebook")

    assert "notebook" in names(scene)
    assert scene.rules() == {"node-a/gpu-0": "NoExecute"}
    allow(scene, "notebook")

    await_true("the pod is being deleted", lambda: "notebook" not in names(scene), 90)
    scene.cluster.client.delete(f"{BUDGETS}/notebook")


def test_a_pod_of_two_disruption_budgets_keeps_no_other_pod_of_its_gpu(scene: Scene) -> None:
    one = mig_gpu(0, slices=3)
    scene.policy(SLOW_RECOVERY)
    scene.cluster.client.create(CLASSES, SLICES)
    scene.node("node-a", one)
    for name in ("a", "b", "c"):
        spec = workloads.pod_spec()
        spec["containers"][0]["resources"] = {"limits": {"nvidia.com/slice": "1"}}
        add_pod(scene, name, spec, {"app": name})
    protect(scene, "a")
    protect(scene, "second-of-a", app="a")
    remediator = scene.remediator()

    sick(scene, one)

    await_true("the others are being deleted", lambda: names(scene) == {"a"})
    remediator.await_saying("more than one PodDisruptionBudget")

    def refused() -> list[str]:
        found = scene.incident().get("status", {}).get("conditions", [])
        return [it.get("message", "") for it in found if it["type"] == "EvictionRefused"]

    await_true("the incident names it", lambda: refused() and "default/a: 500" in refused()[0])
    await_true(
        "the others are reported",
        lambda: reported_pods(scene, "eviction.evictedPods") == {"b", "c"},
    )
    await_true("the evictions are Events", lambda: scene.events("PodEvicted"))
    for budget in ("a", "second-of-a"):
        scene.cluster.client.delete(f"{BUDGETS}/{budget}")
    scene.cluster.client.delete(f"{CLASSES}/{SLICES['metadata']['name']}")


def test_nobody_is_moved_while_rules_only_say_what_would_be(scene: Scene) -> None:
    one = gpu(0)
    scene.policy(INCIDENT_ONLY)
    scene.node("node-a", one)
    add_pod(scene, "notebook", workloads.pod_spec(extended_gpus=1))
    scene.remediator()

    sick(scene, one)

    (pod,) = await_hit(scene, 1)
    assert (pod["pod"], pod["via"]) == ("notebook", "ExtendedResource")
    scene.holds_for(4, "the pod stays", lambda: "notebook" in names(scene))


def test_both_pods_of_a_shared_claim_are_reported_as_hit(scene: Scene) -> None:
    one = gpu(0)
    scene.policy(INCIDENT_ONLY)
    scene.node("node-a", one)
    shared = workloads.claim("shared", workloads.gpu_request())
    scene.cluster.add("resource.k8s.io/v1", "resourceclaims", shared)
    for name in ("left", "right"):
        add_pod(scene, name, workloads.pod_spec(shared_claim="shared"))
    scene.remediator()

    sick(scene, one)

    seen = await_hit(scene, 2)
    assert [(pod["pod"], pod["claim"]) for pod in seen] == [
        ("left", "shared"),
        ("right", "shared"),
    ]


def test_a_pod_with_admin_access_is_reported_as_such_and_what_it_tolerates(scene: Scene) -> None:
    one = gpu(0)
    scene.policy(INCIDENT_ONLY)
    scene.node("node-a", one)
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    scene.cluster.client.merge_patch("/api/v1/namespaces/default", label)
    request = workloads.gpu_request()
    request["exactly"] |= {
        "adminAccess": True,
        "tolerations": [
            {
                "key": "draguard.dev/gpu",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
        ],
    }
    watcher = workloads.claim("watcher", request)
    scene.cluster.add("resource.k8s.io/v1", "resourceclaims", watcher)
    add_pod(scene, "watcher", workloads.pod_spec(shared_claim="watcher"))
    scene.train("train", 1, workloads.gpu_request())
    scene.remediator()

    sick(scene, one)

    seen = {pod["claim"]: pod for pod in await_hit(scene, 2)}
    assert seen["watcher"]["via"] == "AdminAccess"
    assert seen["watcher"]["tolerates"] == "NoExecute for 300s of draguard.dev/gpu"
    (other,) = [pod for claim, pod in seen.items() if claim != "watcher"]
    assert "via" not in other


def test_a_pod_of_a_slinky_nodeset_is_left_to_slurm_until_it_is_gone(scene: Scene) -> None:
    one = gpu(0)
    scene.policy(SLOW_RECOVERY)
    scene.node("node-a", one)
    own = workloads.claim("own", workloads.gpu_request())
    scene.cluster.add("resource.k8s.io/v1", "resourceclaims", own)
    body = workloads.pod("worker-0", workloads.pod_spec(shared_claim="own"))
    owner = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "name": "worker"}
    body["metadata"]["ownerReferences"] = [owner | {"uid": "u-worker", "controller": True}]
    scene.cluster.add("v1", "pods", body)
    await_true("it runs", lambda: "worker-0" in names(scene))
    scene.remediator()

    sick(scene, one)

    await_true("it is reported", lambda: "pod of a Slinky NodeSet" in deferral(scene)["message"])
    assert deferral(scene)["reason"] == "PodOwner"
    assert "worker-0" in names(scene)
    assert scene.rules() == {"node-a/gpu-0": "NoSchedule"}
    assert scene.events("ActionDeferred")

    scene.cluster.client.delete("/api/v1/namespaces/default/pods/worker-0")

    scene.await_rules({"node-a/gpu-0": "NoExecute"}, 90)


def deferral(scene: Scene) -> Json:
    """Return what the only incident says of what is deferred."""
    found: Json = {"message": "", "reason": ""}
    for incident in scene.incidents():
        stated: list[Json] = incident.get("status", {}).get("conditions", [])
        for condition in stated:
            found |= condition if condition["type"] == "Deferred" else {}
    return found
