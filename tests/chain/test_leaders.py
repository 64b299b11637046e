"""Two replicas: one writes, the other is ready, and nothing happens twice."""

import signal

from kubeapi.lease import read
from remediator.controller.agents import DRIVERS, LEASE_NAME
from simulator.cluster.workloads import gpu_request
from tests.chain.proxy import Proxy, Write
from tests.chain.scene import INCIDENT_ONLY, LEASES, Remediator, Scene, fresh, resource_slice
from tests.chain.test_taint_and_move import now, off_the_bus, with_xids
from tests.lab.cluster import RULES, await_true
from tests.remediator.builders import gpu, published

TRIES = 10
"""At most. A leader that a busy machine kept from renewing for six seconds leads no more, and has
nothing to give back."""


def holder(scene: Scene) -> str:
    lease = read(scene.cluster.client, LEASES, LEASE_NAME)
    return (lease.spec.holder_identity or "") if lease else ""


def two(scene: Scene, server: str = "") -> tuple[Remediator, Remediator]:
    """Start one that leads and then one that follows."""
    first = scene.remediator("--leader-identity", "first", server=server)
    await_true("the first leads", lambda: holder(scene) == "first")
    second = scene.remediator("--leader-identity", "second")
    return first, second


def handed_over(scene: Scene, leader: Remediator, successor: str) -> bool:
    """Stop the leader, wait until the other one leads; return whether the Lease was given back.

    Without that the other one would wait for the end of it.
    """
    leader.stop()
    given_back = holder(scene) in ("", successor)
    await_true(f"{successor} leads", lambda: holder(scene) == successor)
    return given_back


def start_again(replica: Remediator) -> None:
    ready = "caches are complete"
    before = replica.logged().count(ready)
    replica.start()
    await_true("it is ready again", lambda: replica.logged().count(ready) > before)


def test_the_other_replica_finishes_the_incident_of_one_that_was_killed(scene: Scene) -> None:
    scene.policy("defaults: {mode: enforce, settle: 1s, soak: 60s}")
    sick, spare = gpu(0, node="node-a"), gpu(0, node="node-b")
    scene.node("node-a", sick)
    scene.train("train", 1, gpu_request())
    scene.node("node-b", spare)
    (victim,) = scene.holders()
    with Proxy(scene.cluster.plane.endpoint()) as proxy:
        first, second = two(scene, server=proxy.url)
        pods = {victim}

        def die(write: Write) -> None:
            if "devicetaintrules" in write[1]:
                first.kill()

        proxy.after_write = die
        scene.report("node-a", with_xids(sick, now(95), recovery_action=fresh(1)))
        await_true("the first has tainted and is dead", lambda: not first.running)

        def moved() -> bool:
            pods.update(scene.holders())
            return scene.rules() == {"node-a/gpu-0": "NoExecute"} and victim not in scene.holders()

        await_true("the second moves the pod", moved)
        await_true("the replacement runs", lambda: len(scene.holders()) == 1)
    pods.update(scene.holders())
    assert len(pods) == 2
    assert second.running
    assert holder(scene) == "second"
    assert len(scene.incidents()) == 1


def test_a_leader_that_gets_sigterm_gives_its_lease_back(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    replicas = dict(zip(("first", "second"), two(scene), strict=True))
    leader, successor = replicas
    tries = 1
    while not handed_over(scene, replicas[leader], successor):
        assert tries < TRIES, "it never gives its Lease back"
        tries += 1
        start_again(replicas[leader])
        leader, successor = successor, leader

    scene.report("node-a", off_the_bus(one))
    scene.await_rules({"node-a/gpu-0": "NoExecute"})


def test_a_successor_with_an_older_milder_policy_takes_nothing_down(scene: Scene) -> None:
    scene.policy("defaults: {mode: enforce, settle: 1s, soak: 60s}")
    older = scene.folder / "older.yaml"
    older.write_text(INCIDENT_ONLY, encoding="utf-8")
    one, other = gpu(0), gpu(1)
    scene.node("node-a", one, other)
    first = scene.remediator("--leader-identity", "first")
    await_true("the first leads", lambda: holder(scene) == "first")
    second = scene.remediator("--leader-identity", "second", "--policy", str(older))
    scene.report("node-a", off_the_bus(one), other)
    scene.await_rules({"node-a/gpu-0": "NoExecute"})
    uids = scene.rule_uids()

    first.kill()
    second.await_saying("now leader")
    scene.report("node-a", off_the_bus(one), off_the_bus(other), agent_version="2")
    await_true("it decides", lambda: len(scene.incidents()) == 2)
    assert scene.rules() == {"node-a/gpu-0": "NoExecute"}

    older.write_text(scene.policy_file.read_text(encoding="utf-8"), encoding="utf-8")
    second.await_saying("policy in force is the one of the leader before")
    assert uids <= scene.rule_uids()
    older.write_text(INCIDENT_ONLY, encoding="utf-8")
    scene.await_rules({})


def test_a_follower_is_ready_and_writes_nothing(scene: Scene) -> None:
    one, other = gpu(0), gpu(1)
    scene.node("node-a", one, other)
    with Proxy(scene.cluster.plane.endpoint()) as proxy:
        scene.remediator("--leader-identity", "first")
        await_true("the first leads", lambda: holder(scene) == "first")
        second = scene.remediator("--leader-identity", "second", server=proxy.url)

        scene.report("node-a", off_the_bus(one), other)
        scene.await_rules({"node-a/gpu-0": "NoExecute"})
        scene.report("node-a", off_the_bus(one), off_the_bus(other))
        scene.await_rules({"node-a/gpu-0": "NoExecute", "node-a/gpu-1": "NoExecute"})
        assert not proxy.writes

    assert "now leader" not in second.logged()


def test_a_leader_that_was_frozen_beyond_its_lease_repeats_at_most_one_write(
    scene: Scene,
) -> None:
    """It wakes up in the middle of a burst, with writes waiting, and another one leads."""
    scene.policy("defaults: {mode: enforce, settle: 5m, soak: 10m}")
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
        scene.await_rules(everything)
        assert holder(scene) == "second"
        before = len(proxy.writes)
        uids = {rule["metadata"]["uid"] for rule in scene.cluster.items(RULES)}

        first.send(signal.SIGCONT)

        await_true("it knows", lambda: "now follower of second" in first.logged())
        scene.holds_for(2, "nothing changes", lambda: scene.rules() == everything)
        assert len(proxy.writes) - before <= 1
        assert {rule["metadata"]["uid"] for rule in scene.cluster.items(RULES)} == uids
        assert len(scene.incidents()) == len(nodes)


def test_one_that_leads_again_evicts_nobody_before_its_watches_report_what_was_done_meanwhile(
    scene: Scene,
) -> None:
    scene.policy(
        "{defaults: {mode: enforce, settle: 0s, soak: 10m}, budget: {correlation: {nodes: 9}}}"
    )
    for name in ("node-a", "node-b", "node-c"):
        scene.node(name, gpu(0, node=name))
    with Proxy(scene.cluster.plane.endpoint()) as proxy:
        first, second = two(scene, server=proxy.url)
        tainted = {"node-a/gpu-0": "NoExecute"}
        scene.report("node-a", off_the_bus(gpu(0, node="node-a")))
        scene.await_rules(tainted)
        first.send(signal.SIGSTOP)
        await_true("the second leads", lambda: holder(scene) == "second")
        scene.report("node-b", off_the_bus(gpu(0, node="node-b")))
        tainted["node-b/gpu-0"] = "NoExecute"
        proxy.late = ("devicetaintrules", "deviceincidents")
        scene.await_rules(tainted)
        first.send(signal.SIGCONT)
        await_true("it knows", lambda: "now follower of second" in first.logged())

        second.stop()
        await_true("the first leads again", lambda: holder(scene) == "first")
        scene.report("node-c", off_the_bus(gpu(0, node="node-c")))

        def waits() -> bool:
            return "of the leader before is not reported by the watch" in str(scene.incidents())

        await_true("its incident says what it waits for", waits)
        assert scene.rules() == {**tainted, "node-c/gpu-0": "NoSchedule"}
        proxy.late = ()
        scene.await_rules({**tainted, "node-c/gpu-0": "NoExecute"})


def test_the_leaders_drivers_of_gpus_count_and_its_successors_untaint_nothing(
    scene: Scene,
) -> None:
    scene.policy("defaults: {mode: enforce, settle: 1s, soak: 60s}")
    one = gpu(0)
    scene.cluster.player.add_node("node-a")
    body = resource_slice("node-a", list(published(one)))
    body["spec"] |= {"driver": "gpu.example.com"}
    scene.cluster.player.publish("node-a", [body])
    scene.report("node-a", one)

    def recorded() -> str:
        lease = read(scene.cluster.client, LEASES, LEASE_NAME)
        return lease.metadata.annotations.get(DRIVERS, "") if lease else ""

    theirs = ("--gpu-drivers", "gpu.nvidia.com,gpu.example.com")
    first = scene.remediator("--leader-identity", "first", *theirs)
    await_true("the first leads", lambda: holder(scene) == "first")
    scene.remediator("--leader-identity", "second")
    assert recorded() == "gpu.example.com,gpu.nvidia.com"
    scene.report("node-a", off_the_bus(one))
    scene.await_rules({"node-a/gpu-0": "NoExecute"})

    handed_over(scene, first, "second")
    await_true("its own list is recorded", lambda: recorded() == "gpu.nvidia.com")
    rules = scene.rules()
    scene.holds_for(5.0, "the rule stays", lambda: scene.rules() == rules)
    assert rules == {"node-a/gpu-0": "NoExecute"}
