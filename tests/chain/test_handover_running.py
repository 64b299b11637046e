"""The whole hand-over by the running remediator: a Node's condition from need to repair."""

from simulator.cluster import workloads
from tests.chain.scene import ENFORCE, Scene, fresh
from tests.chain.test_taint_and_move import now, with_xids
from tests.lab.cluster import await_true
from tests.remediator.builders import DRIVER, gpu

OURS = "DraguardDeviceRepairNeeded"
EKS = "AcceleratedHardwareReady"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SLOW = "defaults: {mode: enforce, settle: 1s, soak: 1h}"
"""Nothing is verified before the test says so."""


def condition(scene: Scene, kind: str = OURS) -> tuple[str, str] | None:
    found = scene.cluster.get("/api/v1/nodes/node-a")["status"]["conditions"]
    return next(
        ((entry["status"], entry["reason"]) for entry in found if entry["type"] == kind), None
    )


def await_condition(scene: Scene, status: str, reason: str, kind: str = OURS) -> None:
    await_true(f"{kind} is {status}, {reason}", lambda: condition(scene, kind) == (status, reason))


def test_a_reboot_is_requested_when_the_pods_are_gone_and_no_longer_once_it_happened(
    scene: Scene,
) -> None:
    one, other = gpu(0), gpu(1)
    scene.policy(SLOW)
    scene.node("node-a", one, other)
    scene.train("train", 2, workloads.gpu_request())
    scene.remediator("--node-condition", "--accelerated-hardware-ready")
    sick = with_xids(one, now(95), recovery_action=fresh(2))

    scene.report("node-a", sick, other)
    await_condition(scene, "False", "WaitingForNeighbours")

    scene.cluster.client.delete("/apis/apps/v1/namespaces/default/deployments/train")
    await_true("the pods are gone", lambda: not scene.cluster.pods())
    scene.report("node-a", sick, other)
    await_condition(scene, "True", "NodeRebootNeeded")
    # Each condition is a write of its own, and this one follows.
    await_condition(scene, "False", "NvidiaDeviceRepairNeeded", EKS)

    repaired = with_xids(one, recovery_action=fresh(0), epoch=2)
    scene.report("node-a", repaired, other, boot_id="boot-2")
    await_condition(scene, "False", "RepairBeingVerified")
    scene.policy(ENFORCE)
    scene.await_phase("Recovered")
    await_condition(scene, "False", "NoRepairNeeded")


def message(scene: Scene) -> str:
    found = scene.cluster.get("/api/v1/nodes/node-a")["status"]["conditions"]
    return next((condition["message"] for condition in found if condition["type"] == OURS), "")


def test_while_slices_are_wiped_and_pods_of_a_device_plugin_run_nobody_is_called(
    scene: Scene,
) -> None:
    one, other = gpu(0), gpu(1)
    scene.policy(SLOW)
    scene.node("node-a", one, other)
    scene.train("train", 2, workloads.gpu_request())
    scene.remediator("--node-condition")
    sick = with_xids(one, now(95), recovery_action=fresh(2))
    scene.report("node-a", sick, other)
    await_condition(scene, "False", "WaitingForNeighbours")

    scene.cluster.client.delete(f"{SLICES}/00000-{DRIVER}-node-a-0")
    await_true("that is noticed", lambda: "publishes no GPU" in message(scene))
    assert "default/train" in message(scene)
    limits = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    container = {"name": "c", "image": "none", "resources": limits}
    spec = {"nodeName": "node-a", "containers": [container]}
    scene.cluster.add("v1", "pods", workloads.pod("plugged", spec))
    scene.cluster.client.delete("/apis/apps/v1/namespaces/default/deployments/train")
    await_true("train is gone", lambda: len(scene.cluster.pods()) == 1)

    def waits_for_the_other() -> bool:
        scene.report("node-a", sick, other)
        text = message(scene)
        return "default/plugged" in text and "default/train" not in text

    await_true("the other pod is named", waits_for_the_other)
    scene.cluster.client.delete(
        "/api/v1/namespaces/default/pods/plugged", {"gracePeriodSeconds": 0}
    )
    await_true("it is gone", lambda: not scene.cluster.pods())

    def waits_for_a_word_of_the_driver() -> bool:
        scene.report("node-a", sick, other)
        return "default/" not in message(scene)

    await_true("nobody is named", waits_for_a_word_of_the_driver)
    assert condition(scene) == ("False", "WaitingForNeighbours")
    assert "publishes no GPU" in message(scene)
    scene.publish("node-a", one, other)
    await_condition(scene, "True", "NodeRebootNeeded")
    await_true("an Event says so", lambda: scene.events("NodeRebootNeeded"))


def test_without_the_flag_nothing_is_written_on_the_node(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    scene.remediator()

    scene.report("node-a", with_xids(one, now(95), recovery_action=fresh(2)))
    scene.await_rules({"node-a/gpu-0": "NoExecute"})

    assert condition(scene) is None
