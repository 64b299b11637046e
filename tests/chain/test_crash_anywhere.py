"""The remediator dies after every single write, and the incident comes out the same."""

import time

import pytest

from simulator.cluster.workloads import gpu_request
from tests.chain.proxy import Proxy, Write
from tests.chain.scene import Scene, fresh
from tests.chain.test_taint_and_move import now, off_the_bus, with_xids
from tests.lab.cluster import RULES, await_true
from tests.remediator.builders import gpu

pytestmark = pytest.mark.verify
MOST_WRITES = 20
"""Of one incident from its first rule to its end: it takes 10."""


def test_killed_after_each_write_it_reaches_the_same_end_and_evicts_once(scene: Scene) -> None:
    sick, spare = gpu(0, node="node-a"), gpu(0, node="node-b")
    scene.node("node-a", sick)
    scene.train("train", 1, gpu_request())
    scene.node("node-b", spare)
    (first,) = scene.holders()
    rule_uids: set[str] = set()
    pod_uids: set[str] = set()

    def look() -> None:
        rule_uids.update(rule["metadata"]["uid"] for rule in scene.cluster.items(RULES))
        pod_uids.update(scene.holders())

    with Proxy(scene.cluster.plane.endpoint()) as proxy:
        remediator = scene.remediator(server=proxy.url)
        deaths: list[Write] = []

        def die(write: Write) -> None:
            deaths.append(write)
            remediator.kill()

        def until(phase: str) -> None:
            before, at = -1, 0.0
            while scene.phase() != phase:
                if len(deaths) != before:  # a busy machine starts it slowly, but never in vain
                    before, at = len(deaths), time.monotonic()
                assert before < MOST_WRITES, (phase, scene.phase(), deaths)
                assert time.monotonic() < at + 120, (phase, scene.phase(), deaths)
                look()
                if not remediator.running:
                    remediator.start()
                time.sleep(0.05)

        look()
        proxy.after_write = die
        record = now(95)
        scene.report("node-a", with_xids(sick, record, recovery_action=fresh(1)))
        until("Drained")
        await_true(
            "the replacement runs", lambda: list(scene.holders().values()) == ["node-b/gpu-0"]
        )
        assert scene.rules() == {"node-a/gpu-0": "NoExecute"}
        scene.report("node-a", with_xids(sick, record, recovery_action=fresh(0)))
        until("Recovered")

    look()
    assert scene.rules() == {}
    assert len(rule_uids) == 1
    assert len(pod_uids) == 2
    assert first in pod_uids
    kinds = {(method, path.split("/")[4]) for method, path in deaths if "events" not in path}
    assert kinds >= {
        ("POST", "deviceincidents"),
        ("POST", "devicetaintrules"),
        ("PATCH", "devicetaintrules"),
        ("PATCH", "deviceincidents"),
        ("DELETE", "devicetaintrules"),
    }
    timeline = [entry["phase"] for entry in scene.incident()["status"]["timeline"]]
    assert timeline.count("Recovered") == timeline.count("Drained") == 1


def test_an_apiserver_that_refuses_for_a_while_only_delays_the_same_answer(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    with Proxy(scene.cluster.plane.endpoint()) as proxy:
        remediator = scene.remediator(server=proxy.url, until="now leader")
        proxy.refuse = 500
        scene.report("node-a", off_the_bus(one))
        remediator.await_saying("trying again")
        assert not scene.rules()

        proxy.refuse = 0

        scene.await_rules({"node-a/gpu-0": "NoExecute"})
