"""API servers of older releases: rules in the version that is there, and what works without any."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kubeapi import clock
from kubeapi.client import Client
from simulator.cluster import workloads
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.nodes import NodePlayer
from tests.chain.conftest import install, served
from tests.chain.scene import INCIDENTS, REPORTS, Scene, fresh
from tests.chain.test_handover_running import await_condition, message
from tests.chain.test_taint_and_move import now, with_xids
from tests.lab.cluster import RULES, Cluster, await_true
from tests.remediator.builders import gpu

pytestmark = pytest.mark.verify

GATES = ("DRADeviceTaints=true", "DRADeviceTaintRules=true")
EMULATED = {
    "1.36": ("v1beta2", "--runtime-config=resource.k8s.io/v1beta2=true", GATES[1:]),
    "1.35": ("v1alpha3", "--runtime-config=resource.k8s.io/v1alpha3=true", GATES),
}
AT_ONCE = "budget: {correlation: {after_change: 0s}}"
"""Nobody waits for half an hour because the policy changed."""


@contextmanager
def serving(folder: Path, *flags: str) -> Generator[Scene]:
    with ControlPlane(apiserver_flags=flags) as plane:
        client = Client(plane.endpoint(), timeout=60.0)
        player = NodePlayer(client)
        player.start()
        try:
            install(plane, client)
            with closing(Scene(Cluster(plane, client, player), folder)) as scene:
                yield scene
        finally:
            player.stop()
            client.close()


@contextmanager
def emulating(release: str, folder: Path) -> Generator[Scene]:
    """The API of an older release; scheduler and controllers of 1.37 do not follow it."""
    _, runtime_config, gates = EMULATED[release]
    flags = [runtime_config, f"--feature-gates={','.join(gates)}"]
    with serving(folder, f"--emulated-version={release}", *flags) as scene:
        yield scene


def added(rule: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(rule["spec"]["taint"]["timeAdded"])


@pytest.mark.parametrize("release", EMULATED)
def test_rules_are_made_raised_with_a_new_time_and_taken_away(
    control_plane_built: None, release: str, tmp_path: Path
) -> None:
    with emulating(release, tmp_path) as scene:
        scene.policy(f"defaults: {{mode: enforce, settle: 1h, soak: 2h}}\n{AT_ONCE}")
        one = gpu(0)
        scene.node("node-a", one)
        remediator = scene.remediator()
        version = EMULATED[release][0]
        assert f"devicetaintrules: served as {version}" in remediator.logged()
        record = now(95)

        scene.report("node-a", with_xids(one, record, recovery_action=fresh(1)))
        scene.await_rules({"node-a/gpu-0": "NoSchedule"})
        (mild,) = scene.cluster.items(RULES)
        assert f"/{version}/" in scene.cluster.rules
        await_true("its time is over", lambda: clock.now() > added(mild) + timedelta(seconds=1))
        scene.policy(f"defaults: {{mode: enforce, settle: 1s, soak: 4s}}\n{AT_ONCE}")
        scene.await_rules({"node-a/gpu-0": "NoExecute"})
        (strong,) = scene.cluster.items(RULES)
        assert strong["metadata"]["uid"] == mild["metadata"]["uid"]
        assert added(strong) > added(mild)

        scene.report("node-a", with_xids(one, record, recovery_action=fresh(0)))
        scene.await_rules({})
        await_true("the incident is closed", lambda: scene.phase() == "Recovered")


def test_a_server_that_stops_serving_a_version_is_queried_again_at_once(
    control_plane_built: None, tmp_path: Path
) -> None:
    """An upgrade from 1.36 to 1.37 takes v1beta2 away and brings v1."""
    with emulating("1.36", tmp_path) as scene:
        one, other = gpu(0), gpu(1)
        scene.node("node-a", one, other)
        remediator = scene.remediator("--resync", "600")
        scene.report("node-a", with_xids(one, now(95), recovery_action=fresh(1)), other)
        scene.await_rules({"node-a/gpu-0": "NoExecute"})

        apiserver = scene.cluster.plane.apiserver
        apiserver.stop()
        apiserver.argv = tuple(
            flag
            for flag in apiserver.argv
            if not flag.startswith(("--emulated-version", "--runtime-config", "--feature-gates"))
        )
        apiserver.start()
        scene.cluster.plane.wait_ready()
        scene.cluster.rules = RULES
        await_true("reports are served", lambda: served(scene.cluster.client, REPORTS))
        scene.report(
            "node-a",
            with_xids(one, now(95), recovery_action=fresh(1)),
            with_xids(other, now(95), recovery_action=fresh(1)),
        )

        scene.await_rules({f"node-a/gpu-{n}": "NoExecute" for n in range(2)})
        assert "devicetaintrules: v1 instead of v1beta2" in remediator.logged()


@pytest.mark.parametrize("release", EMULATED)
def test_without_rules_a_node_is_repaired_once_its_pods_have_left(
    control_plane_built: None, release: str, tmp_path: Path
) -> None:
    """As they are by default. The pod has its GPU by a device plugin: no scheduler places it."""
    plugged, at_once = "/api/v1/namespaces/default/pods/plugged", {"gracePeriodSeconds": 0}
    one, other = gpu(0), gpu(1)
    with serving(tmp_path, f"--emulated-version={release}") as scene:
        scene.policy(f"defaults: {{mode: enforce, settle: 1s, soak: 4s}}\n{AT_ONCE}")
        scene.node("node-a", one, other)
        limits = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
        container = {"name": "c", "image": "none", "resources": limits}
        spec = {"nodeName": "node-a", "containers": [container]}
        scene.cluster.add("v1", "pods", workloads.pod("plugged", spec))
        scene.remediator("--node-condition")
        sick = with_xids(one, now(95), recovery_action=fresh(2))

        scene.report("node-a", sick, other)
        await_condition(scene, "False", "WaitingForNeighbours")
        assert "default/plugged" in message(scene)
        (incident,) = scene.cluster.items(INCIDENTS)
        status = incident["status"]
        assert status["policy"]["mode"] == "Enforce"
        assert "NoExecute deferred: DeviceTaintRules are not served" in status["message"]
        assert [planned["effect"] for planned in status["scope"]["plannedTaints"]] == ["NoExecute"]

        assert len(scene.cluster.pods()) == 1, "no pod is evicted"
        scene.cluster.client.delete(plugged, at_once)
        await_true("it is gone", lambda: not scene.cluster.pods())
        scene.report("node-a", sick, other)
        await_condition(scene, "True", "NodeRebootNeeded")

        repaired = with_xids(one, recovery_action=fresh(0), epoch=2)
        scene.report("node-a", repaired, other, boot_id="boot-2")
        await_condition(scene, "False", "NoRepairNeeded")
        assert scene.phase() == "Recovered"
