"""Two replicas: one writes, the other is ready, and nothing happens twice."""

import signal
import time
from collections.abc import Callable

from kubeapi.lease import read
from remediator.hands.leader import LEASE_NAME
from simulator.cluster.workloads import gpu_request
from tests.chain.proxy import Proxy, Write
from tests.chain.scene import LEASES, Remediator, Scene, fresh
from tests.chain.test_fence_and_move import now, off_the_bus, with_xids
from tests.lab.cluster import RULES, await_true
from tests.remediator.builders import gpu

FAIL_OVER = 15.0


def holder(scene: Scene) -> str:
    lease = read(scene.cluster.client, LEASES, LEASE_NAME)
    return (lease.spec.holder_identity or "") if lease else ""


def two(scene: Scene, server: str = "") -> tuple[Remediator, Remediator]:
    """Start one that leads and then one that follows."""
    first = scene.remediator("--leader-identity", "first", server=server)
    await_true("the first leads", lambda: holder(scene) == "first")
    second = scene.remediator("--leader-identity", "second")
    return first, second


def seconds_until(condition: Callable[[], object], timeout: float = 30.0) -> float:
    began = time.monotonic()
    await_true("it came about", condition, timeout)
    return time.monotonic() - began


def test_the_other_replica_finishes_the_story_of_one_that_was_killed(scene: Scene) -> None:
    scene.policy("defaults: {mode: enforce, settle: 2s, soak: 60s}")
    sick, spare = gpu(0, node="node-a"), gpu(0, node="node-b")
    scene.node("node-a", sick)
    scene.train("train", 1, gpu_request())
    scene.node("node-b", spare)
    (victim,) = scene.holders()
    first, second = two(scene)
    pods: set[str] = set()

    scene.report("node-a", with_xids(sick, now(95), recovery_action=fresh(1)))
    scene.await_rules({"node-a/gpu-0": "NoSchedule"})
    first.kill()

    def moved() -> bool:
        pods.update(scene.holders())
        return scene.rules() == {"node-a/gpu-0": "NoExecute"} and victim not in scene.holders()

    assert seconds_until(moved) < FAIL_OVER
    await_true("the replacement runs", lambda: len(scene.holders()) == 1)
    pods.update(scene.holders())
    assert len(pods) == 2
    assert second.running
    assert holder(scene) == "second"
    assert len(scene.incidents()) == 1


def test_a_leader_that_is_told_to_stop_hands_over_within_two_seconds(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    first, _ = two(scene)

    began = time.monotonic()
    first.stop()
    await_true("the second leads", lambda: holder(scene) == "second")
    assert time.monotonic() - began < 2.5  # the process's own end included

    scene.report("node-a", off_the_bus(one))
    scene.await_rules({"node-a/gpu-0": "NoExecute"})


def test_a_follower_is_ready_and_writes_nothing(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    with Proxy(scene.cluster.plane.endpoint()) as proxy:
        scene.remediator("--leader-identity", "first")
        await_true("the first leads", lambda: holder(scene) == "first")
        second = scene.remediator("--leader-identity", "second", server=proxy.url)

        scene.report("node-a", off_the_bus(one))
        scene.await_rules({"node-a/gpu-0": "NoExecute"})
        scene.holds_for(2, "no write", lambda: not proxy.writes)

    assert "now leader" not in second.said()


def test_a_leader_that_was_frozen_beyond_its_lease_repeats_at_most_one_write(
    scene: Scene,
) -> None:
    """It wakes up in the middle of a burst, with writes waiting, and another one leads."""
    scene.policy("defaults: {mode: enforce, settle: 60s, soak: 120s}")
    nodes = [f"node-{letter}" for letter in "abcdef"]
    for name in nodes:
        scene.node(name, gpu(0, node=name))
    with Proxy(scene.cluster.plane.endpoint()) as proxy:
        first, _ = two(scene, server=proxy.url)
        frozen: list[Write] = []

        def freeze(write: Write) -> None:
            if "devicetaintrules" in write[1] and not frozen:
                frozen.append(write)
                first.send(signal.SIGSTOP)

        proxy.after_write = freeze
        for name in nodes:
            scene.report(name, off_the_bus(gpu(0, node=name)))
        await_true("the first was frozen", lambda: frozen)
        everything = {f"{name}/gpu-0": "NoSchedule" for name in nodes}
        scene.await_rules(everything, timeout=FAIL_OVER + 10)
        assert holder(scene) == "second"
        before = len(proxy.writes)
        uids = {rule["metadata"]["uid"] for rule in scene.cluster.items(RULES)}

        first.send(signal.SIGCONT)

        await_true("it knows", lambda: "now follower of second" in first.said())
        scene.holds_for(2, "nothing changes", lambda: scene.rules() == everything)
        assert len(proxy.writes) - before <= 1
        assert {rule["metadata"]["uid"] for rule in scene.cluster.items(RULES)} == uids
        assert len(scene.incidents()) == len(nodes)
