"""What the remediator makes of a world that is not as it should be."""

import urllib.request

from tests.chain.proxy import Proxy
from tests.chain.scene import ENFORCE, INCIDENT_ONLY, Scene
from tests.chain.test_taint_and_move import off_the_bus
from tests.exporter.running import free_port
from tests.lab.cluster import await_true
from tests.remediator.builders import gpu


def page(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return str(answer.read().decode())


def test_an_apiserver_that_hangs_only_delays_the_answer(scene: Scene) -> None:
    one = gpu(0)
    port = free_port()
    scene.node("node-a", one)
    with Proxy(scene.cluster.plane.endpoint()) as proxy:
        remediator = scene.remediator(f"--listen=127.0.0.1:{port}", server=proxy.url)
        proxy.open_gate.clear()
        scene.report("node-a", off_the_bus(one))
        await_true("a request hangs", lambda: proxy.waiting)
        assert "draguard_remediator_rules" in page(port)
        assert page(port, "/healthz").startswith("ok")
        assert not scene.rules()

        proxy.open_gate.set()

        scene.await_rules({"node-a/gpu-0": "NoExecute"})
    assert remediator.running


def test_without_the_crds_it_says_what_to_install_and_waits(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    scene.report("node-a", off_the_bus(one))
    with Proxy(scene.cluster.plane.endpoint()) as proxy:
        proxy.refuse, proxy.refused_path = 404, "/apis/draguard.dev/"
        remediator = scene.remediator(server=proxy.url, until="apply deploy/manifests/crds.yaml")

        proxy.refuse = 0

        remediator.await_saying("caches are complete")
        scene.await_rules({"node-a/gpu-0": "NoExecute"})


def test_a_bad_policy_file_changes_nothing_and_is_logged_and_measured(scene: Scene) -> None:
    one = gpu(0)
    port = free_port()
    scene.node("node-a", one)
    remediator = scene.remediator(f"--listen=127.0.0.1:{port}")

    scene.policy("")
    remediator.await_saying("the file says nothing")
    scene.policy("defaults: {mode: 'off', soak: 0s}")
    remediator.await_saying("line 1: defaults.soak")
    scene.report("node-a", off_the_bus(one))

    scene.await_rules({"node-a/gpu-0": "NoExecute"})
    assert "draguard_remediator_policy_file_bad 1.0" in page(port)
    scene.policy(ENFORCE)


def test_a_restart_without_a_readable_policy_takes_nothing_down(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    before = scene.remediator()
    scene.report("node-a", off_the_bus(one))
    scene.await_rules({"node-a/gpu-0": "NoExecute"})
    uids = scene.rule_uids()
    before.stop()
    scene.policy("defaults: {mode: everything}")

    again = scene.remediator(until="nothing is done until it can be read")

    scene.policy(ENFORCE)
    again.await_saying("now leader")
    assert scene.rule_uids() == uids
    scene.policy(INCIDENT_ONLY)
    scene.await_rules({})


def test_a_sick_gpu_that_nobody_publishes_has_an_incident_and_no_rule(scene: Scene) -> None:
    published, hidden = gpu(0), gpu(1)
    scene.node("node-a", published)
    scene.remediator()

    scene.report("node-a", published, off_the_bus(hidden))

    scene.await_phase("Suspected")
    assert scene.incident()["status"]["scope"]["summary"] == "not published"
    scene.report("node-a", off_the_bus(published), off_the_bus(hidden))
    scene.await_rules({"node-a/gpu-0": "NoExecute"})


def test_a_rule_of_somebody_else_is_left_alone(scene: Scene) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    foreign = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "an-admins-own"},
        "spec": {
            "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "node-a", "device": "gpu-7"},
            "taint": {"key": "example.com/maintenance", "effect": "NoSchedule"},
        },
    }
    scene.cluster.client.create("/apis/resource.k8s.io/v1/devicetaintrules", foreign)
    scene.remediator()

    scene.report("node-a", off_the_bus(one))

    scene.await_rules({"node-a/gpu-0": "NoExecute", "node-a/gpu-7": "NoSchedule"})
