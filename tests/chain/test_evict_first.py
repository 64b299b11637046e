"""Eviction that asks, by the real eviction subresource and a real PodDisruptionBudget."""

from remediator.model.taint_rule import EVICT
from simulator.cluster import workloads
from tests.chain.scene import Scene
from tests.chain.test_who_is_hit import BUDGETS, add_pod, allow, names, protect, sick
from tests.lab.cluster import RULES, await_true
from tests.remediator.builders import gpu

ASKS = """
defaults: {{mode: enforce, settle: 1s, soak: 300s}}
classes: {{lost: {{evict: {{within: {within}, then: {then}}}}}}}
budget: {{correlation: {{after_change: 0s}}}}
"""


def held(scene: Scene, within: str, then: str) -> None:
    """A GPU falls off the bus under a pod that holds it by a claim, and that a budget protects."""
    one = gpu(0)
    scene.policy(ASKS.format(within=within, then=then))
    scene.node("node-a", one)
    own = workloads.claim("own", workloads.gpu_request())
    scene.cluster.add("resource.k8s.io/v1", "resourceclaims", own)
    add_pod(scene, "web", workloads.pod_spec(shared_claim="own"), {"app": "web"})
    protect(scene, "web")
    remediator = scene.remediator()
    sick(scene, one)
    remediator.await_saying("eviction refused, requested again with backoff: pod=default/web")


def condition(scene: Scene, kind: str) -> str:
    found = scene.incident().get("status", {}).get("conditions", [])
    return next((str(it.get("message", "")) for it in found if it["type"] == kind), "")


def test_evictions_are_requested_for_the_time_that_the_policy_gives_and_then_it_is_noexecute(
    scene: Scene,
) -> None:
    held(scene, "1h", "NoExecute")

    assert scene.rules() == {"node-a/gpu-0": "NoSchedule"}
    (rule,) = scene.cluster.items(RULES)
    assert rule["metadata"]["annotations"][EVICT] == "true"
    assert "web" in names(scene)
    await_true("the budget is named", lambda: "budget web " in condition(scene, "EvictionRefused"))
    (warned, *_) = await_true("the plan is an Event", lambda: scene.events("PodEvictionPlanned"))
    assert "by the Eviction API, not before" in warned["message"]

    scene.policy(ASKS.format(within="1s", then="NoExecute"))
    scene.await_rules({"node-a/gpu-0": "NoExecute"})
    await_true("the pod is being deleted", lambda: "web" not in names(scene))
    (rule,) = scene.cluster.items(RULES)
    assert EVICT not in rule["metadata"]["annotations"]
    scene.cluster.client.delete(f"{BUDGETS}/web")


def test_what_waits_names_the_budget_and_goes_when_it_allows(scene: Scene) -> None:
    held(scene, "1s", "wait")
    await_true("it is blocked", lambda: "default/web (" in condition(scene, "EvictionBlocked"))
    assert "budget web " in condition(scene, "EvictionBlocked")
    assert "web" in names(scene)
    assert scene.rules() == {"node-a/gpu-0": "NoSchedule"}

    allow(scene, "web")

    await_true("the pod is being deleted", lambda: "web" not in names(scene), 150)
    assert scene.rules() == {"node-a/gpu-0": "NoSchedule"}
    scene.cluster.client.delete(f"{BUDGETS}/web")
