"""Budgets, correlation and the emergency stop as they are seen on the real API server."""

from collections.abc import Iterator

import msgspec
import pytest

from exporter.model.node_health import GpuHealth
from kubeapi import clock
from remediator.controller.emergency import ANNOTATION, NAMESPACES
from tests.chain.scene import ENFORCE, LEASES, Scene, fresh
from tests.lab.cluster import Json, await_true
from tests.remediator.builders import gpu, uuid, xid


def sick(health: GpuHealth) -> GpuHealth:
    stamp = clock.now()
    record = msgspec.structs.replace(xid(95), first_seen=stamp, last_seen=stamp)
    return msgspec.structs.replace(health, xids=(record,), recovery_action=fresh(1))


def well(health: GpuHealth) -> GpuHealth:
    return msgspec.structs.replace(health, recovery_action=fresh(0))


def held(scene: Scene) -> dict[str, Json]:
    """Return the condition Held of every incident of which something is held, by GPU."""
    found: dict[str, Json] = {}
    for incident in scene.incidents():
        for condition in incident.get("status", {}).get("conditions", []):
            if condition["type"] == "Deferred" and condition["status"] == "True":
                found[incident["spec"]["uuid"]] = condition
    return found


def test_a_third_gpu_of_a_node_waits_visibly_and_goes_on_by_itself(scene: Scene) -> None:
    scene.policy(f"{ENFORCE}\nbudget: {{evict: {{node: 2, rate: {{count: 8, within: 30s}}}}}}")
    gpus = [gpu(index) for index in range(8)]
    scene.node("node-a", *gpus)
    scene.remediator()

    gpus[:3] = [sick(health) for health in gpus[:3]]
    scene.report("node-a", *gpus)

    reported = "NoExecute deferred: budget evict.node=2 is used up (2/2 GPUs of node node-a"
    effects = ["NoExecute", "NoExecute", "NoSchedule"]
    await_true(
        "two are emptied, the third is tainted", lambda: sorted(scene.rules().values()) == effects
    )
    await_true(
        "it is said that one waits",
        lambda: [entry["message"].startswith(reported) for entry in held(scene).values()] == [True],
    )
    ((waiting, condition),) = held(scene).items()
    index = next(index for index in range(3) if uuid(index) == waiting)
    assert scene.rules()[f"node-a/gpu-{index}"] == "NoSchedule"
    assert condition["reason"] == "Budget"
    (status,) = (
        incident["status"] for incident in scene.incidents() if incident["spec"]["uuid"] == waiting
    )
    assert status["message"].startswith(reported)

    # The two are empty within seconds and nobody has repaired them; the time of the rate passes.
    scene.await_rules({f"node-a/gpu-{n}": "NoExecute" for n in range(3)})
    await_true("nothing waits any more", lambda: not held(scene))


def test_one_cause_on_many_nodes_moves_nobody_and_taints_all(scene: Scene) -> None:
    scene.policy(correlated(settle="1h", within="1h"))
    nodes = ["node-a", "node-b", "node-c"]
    for name in nodes:
        scene.node(name, gpu(0, node=name))
    scene.remediator("--resync", "1")

    for name in nodes:
        scene.report(name, sick(gpu(0, node=name)))

    scene.await_rules({f"{name}/gpu-0": "NoSchedule" for name in nodes})
    # In a hurry a rule comes before its incident, and only a stored incident counts.
    await_true("all three are stored and settle", lambda: settling(scene) == len(nodes))
    scene.policy(correlated(settle="1s", within="1h"))
    await_true("all three wait", lambda: len(held(scene)) == len(nodes))
    assert set(scene.rules().values()) == {"NoSchedule"}
    assert {entry["message"] for entry in held(scene).values()} == {
        "NoExecute deferred: xid-95 is new on 3 nodes or more within 1h, "
        "as if it were no fault of the GPUs"
    }

    scene.policy(correlated(settle="1s", within="20s"))  # then time alone ends the wait
    scene.await_rules({f"{name}/gpu-0": "NoExecute" for name in nodes})
    await_true("nothing waits any more", lambda: not held(scene))


def settling(scene: Scene) -> int:
    messages = [incident.get("status", {}).get("message", "") for incident in scene.incidents()]
    return sum(message.startswith("settling") for message in messages)


def correlated(*, settle: str, within: str) -> str:
    correlation = f"{{nodes: 3, within: {within}, after_change: 0s}}"
    return (
        f"defaults: {{mode: enforce, settle: {settle}, soak: 2h}}\n"
        f"budget: {{correlation: {correlation}}}"
    )


@pytest.fixture
def stop(scene: Scene) -> Iterator[None]:
    """Pull the emergency stop; it is let go after the test in any case."""
    annotate(scene, "ann: roll-out went wrong")
    yield
    annotate(scene, None)


def annotate(scene: Scene, value: str | None) -> None:
    body = {"metadata": {"annotations": {ANNOTATION: value}}}
    scene.cluster.client.merge_patch(f"{NAMESPACES}/{LEASES}", body)


@pytest.mark.usefixtures("stop")
def test_an_annotation_on_the_namespace_freezes_all_new_harm_until_it_is_taken_away(
    scene: Scene,
) -> None:
    scene.node("node-a", gpu(0))
    scene.remediator()

    scene.report("node-a", sick(gpu(0)))
    await_true("it is said that it waits", lambda: held(scene))
    (condition,) = held(scene).values()
    assert condition["message"] == "new actions deferred: emergency stop: ann: roll-out went wrong"
    assert not scene.rules()

    annotate(scene, None)
    scene.await_rules({"node-a/gpu-0": "NoExecute"})


def test_healing_goes_on_under_the_emergency_stop(scene: Scene) -> None:
    scene.node("node-a", gpu(0))
    scene.remediator()
    broken = sick(gpu(0))
    scene.report("node-a", broken)
    scene.await_rules({"node-a/gpu-0": "NoExecute"})

    annotate(scene, "ann: why")
    try:
        scene.report("node-a", well(broken))
        scene.await_rules({})
    finally:
        annotate(scene, None)
