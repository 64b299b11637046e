"""A driver upgrade under the installed chart: the driver is let go, and nothing else happens.

The chart's DaemonSet on a real control plane, its pods' containers as processes on a simulated
node, and NVIDIA's k8s-driver-manager played (`driver_manager`). No kubelet runs: a pod is gone as
soon as its controller deletes it, and its containers get their SIGTERM then.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from benchmarks.processes import descendants
from exporter.model.node_health import NodeDeviceHealth
from kubeapi.client import Conflict, NotFound
from simulator.build import LIBRARY
from simulator.cluster.controlplane import ControlPlane
from simulator.gpu import HEALTHY, Failure
from tests.chain.scene import REPORTS, Scene
from tests.deploy import rendered
from tests.deploy.containers import Container, Pod
from tests.deploy.driver_manager import (
    CLIENT,
    OPERATOR,
    PAUSED,
    PREFIX,
    DriverInUseError,
    DriverManager,
    paused,
    resumed,
)
from tests.deploy.installed import GPU_NODE, NAMESPACE, Installed, add_controllers
from tests.lab.cluster import NODES, await_true

pytestmark = [pytest.mark.timeout(600), pytest.mark.verify]
Json = dict[str, Any]
SICK = 7
DRIVER_NOT_LOADED = 9
VALUES = """
exporter:
  interval: 0.5
  extraArgs: [--lease-interval=0.5]
remediator:
  replicas: 1
  policy: {text: "defaults: {mode: enforce, settle: 1s, soak: 1h}\\n"}
  extraArgs: [--stale-after=3]
"""
CLASSIC = ("operator-validator", "device-plugin", "dcgm-exporter")
STACKS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "before 26.7": (CLASSIC, "nvidia-dcgm-exporter"),
    "from 26.7": ((*CLASSIC, "client"), "nvidia-dcgm-exporter"),
    "GPUCluster": (
        ("dra-driver", "dra-validator", "dcgm-dra", "dcgm-exporter-dra"),
        "nvidia-dcgm-exporter-dra",
    ),
}
"""By operator: the labels that it sets to true on its nodes, and its own exporter."""


class Upgraded:
    """The installed chart, and its containers that run."""

    def __init__(self, installed: Installed, folder: Path) -> None:
        self.at = installed
        self.scene = Scene(installed.cluster, folder)
        self._values = folder / "values.yaml"
        self._values.write_text(VALUES, encoding="utf-8")
        self._running: list[Container] = []
        self.remediator: Container | None = None

    def install(self) -> None:
        self.configure()
        self.lead()

    def lead(self) -> None:
        """Run the remediator's pod, which is another one once the exporter's nodes have changed."""
        self.at.stop_deleted()
        (pod,) = self.at.pods("remediator", 1)
        if self.remediator is None or not self.remediator.running:
            self.remediator = self.at.run(pod, "remediator")

    def configure(self, *values: str) -> None:
        """Install the chart, or change its values."""
        sets = [f"--set-json={value}" for value in values]
        chart = ("draguard", str(rendered.CHART), "--create-namespace", f"--values={self._values}")
        self.at.helm("upgrade", "--install", *chart, *sets)

    def start(self) -> Pod:
        """Run the exporter's pod on the node, and wait until it reports what it sees."""
        self._running.clear()
        self.at.stop_deleted()
        (pod,) = self.at.pods("exporter", 1)
        self._running += [self.at.run(pod, name) for name in ("sensor", "agent")]
        await_true("it has the driver open", self.holders)
        await_true("it reports", lambda: self.state() == ("Up", ""))
        return pod

    def holders(self) -> list[int]:
        """Return the processes of the exporter that have NVML loaded: what keeps a module busy."""
        pids = {
            pid
            for container in self._running
            if container.running
            for pid in (container.pid, *descendants(container.pid))
        }
        return [pid for pid in pids if _has_nvml(pid)]

    def state(self) -> tuple[str, str]:
        """Return state and reason of NVML in the node's report."""
        try:
            body = self.at.client.get(f"{REPORTS}/{GPU_NODE}")
        except NotFound:
            return "", ""
        status = msgspec.json.decode(body, type=NodeDeviceHealth).status
        found = [source for source in status.sources if source.name == "nvml"]
        return (found[0].state, found[0].reason) if found else ("", "")

    def label(self, names: Sequence[str]) -> None:
        """Give the node those labels of an operator and no others."""
        labels: Json = dict.fromkeys(self.operator_labels())
        labels |= {f"{PREFIX}{name}": "true" for name in names}
        self.at.client.merge_patch(f"{NODES}/{GPU_NODE}", {"metadata": {"labels": labels}})

    def operator_labels(self) -> dict[str, str]:
        found = self.at.cluster.get(f"{NODES}/{GPU_NODE}")["metadata"]["labels"]
        return {key: value for key, value in found.items() if key.startswith(PREFIX)}

    def manager(self) -> DriverManager:
        return DriverManager(self.at.client, GPU_NODE, self.holders)


def _has_nvml(pid: int) -> bool:
    with suppress(OSError):  # it ended meanwhile
        return LIBRARY in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    return False


@pytest.fixture(scope="module")
def upgraded(control_plane_built: None, helm_built: Path) -> Iterator[Upgraded]:
    # Unix sockets lie in it, whose paths must be short.
    with TemporaryDirectory(prefix="dg-") as name, ControlPlane() as plane:
        folder = Path(name)
        add_controllers(plane)
        plane.kubectl("create", "namespace", OPERATOR)
        installed = Installed(plane, helm_built, folder)
        try:
            found = Upgraded(installed, folder)
            found.install()
            yield found
        finally:
            installed.close()
            for log in sorted(folder.glob("*/*.log")):
                sys.stdout.write(f"{log.name}\n{log.read_text(encoding='utf-8')[-3000:]}")


def operand(app: str, label: str) -> Json:
    """A DaemonSet of the operator, which the manager waits for."""
    container = {"name": "main", "image": "none"}
    template = {
        "metadata": {"labels": {"app": app}},
        "spec": {"nodeSelector": {f"{PREFIX}{label}": "true"}, "containers": [container]},
    }
    spec = {"selector": {"matchLabels": {"app": app}}, "template": template}
    return {"metadata": {"name": app}, "spec": spec}


def create_operand(upgraded: Upgraded, app: str) -> None:
    path = f"/apis/apps/v1/namespaces/{OPERATOR}/daemonsets"
    with suppress(Conflict):
        upgraded.at.client.create(path, operand(app, app.removeprefix("nvidia-")))
    pods = f"/api/v1/namespaces/{OPERATOR}/pods"
    await_true(f"{app} runs", lambda: app in str(upgraded.at.cluster.items(pods)))


@pytest.mark.parametrize("stack", STACKS)
def test_the_exporter_leaves_the_node_lets_the_driver_go_in_time_and_comes_back(
    upgraded: Upgraded, stack: str
) -> None:
    labels, own_exporter = STACKS[stack]
    upgraded.label(labels)
    create_operand(upgraded, own_exporter)
    pod = upgraded.start()
    before, manager = upgraded.operator_labels(), upgraded.manager()
    with pytest.raises(DriverInUseError):
        manager.unload()

    manager.stop_clients()
    await_true("our pod has gone", lambda: not upgraded.at.pods_now("exporter"))
    began = time.monotonic()
    upgraded.at.stop_deleted()
    seconds = time.monotonic() - began
    manager.unload()
    assert seconds < pod.body["spec"]["terminationGracePeriodSeconds"]

    manager.restart_clients()
    assert upgraded.start().uid != pod.uid
    assert {key: value for key, value in upgraded.operator_labels().items() if value} == before


def test_from_26_7_on_the_manager_waits_for_an_exporter_that_selects_the_label_of_clients(
    upgraded: Upgraded,
) -> None:
    upgraded.label((*CLASSIC, "client"))
    manager = upgraded.manager()
    assert not manager.clients()

    upgraded.configure(f'exporter.nodeSelector={{"{CLIENT}":"true"}}')

    def waited_for() -> bool:
        pods = {pod.name for pod in upgraded.at.pods_now("exporter")}
        return bool(pods) and set(manager.clients()) == pods

    await_true("the manager counts it", waited_for)
    manager.stop_clients()
    assert not upgraded.at.pods_now("exporter")
    manager.restart_clients()
    upgraded.configure()


def test_an_exporter_that_stays_holds_the_driver_until_the_release_file_is_there(
    upgraded: Upgraded,
) -> None:
    upgraded.label((*CLASSIC, "client"))
    create_operand(upgraded, "nvidia-dcgm-exporter")
    upgraded.configure("exporter.pauseLabels=[]")
    await_true("it is rolled out", lambda: rolled_out(upgraded))
    pod = upgraded.start()
    manager, release = upgraded.manager(), upgraded.at.node.root / "release" / "release"

    manager.stop_clients()
    # The operand is gone, so the controller knows the paused labels. It looks at our DaemonSet
    # again because that has changed.
    upgraded.configure("exporter.pauseLabels=[]", "exporter.revisionHistoryLimit=3")
    await_true("the controller has looked again", lambda: observed(upgraded))
    assert [found.uid for found in upgraded.at.pods_now("exporter")] == [pod.uid]
    with pytest.raises(DriverInUseError):
        manager.unload()

    release.touch()
    await_true("the driver is let go", lambda: not upgraded.holders(), timeout=10)
    manager.unload()
    await_true("the report says so", lambda: upgraded.state() == ("Down", "Released"))
    release.unlink()
    await_true("NVML is back", lambda: upgraded.state() == ("Up", ""))
    assert upgraded.holders()
    manager.restart_clients()
    upgraded.configure()


def daemonset(upgraded: Upgraded) -> Json:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/draguard-exporter"
    return upgraded.at.cluster.get(path)


def observed(upgraded: Upgraded) -> bool:
    """Say whether the controller has created and deleted pods for the present DaemonSet."""
    found = daemonset(upgraded)
    return found["status"]["observedGeneration"] == found["metadata"]["generation"]


def rolled_out(upgraded: Upgraded) -> bool:
    return (
        observed(upgraded)
        and daemonset(upgraded)["status"].get("updatedNumberScheduled", 0) == 1
        and len(upgraded.at.pods_now("exporter")) == 1
    )


def test_meanwhile_the_remediator_knows_nothing_and_does_nothing(upgraded: Upgraded) -> None:
    """One GPU is tainted before; the driver goes away with all its slices, and comes back."""
    scene, node = upgraded.scene, upgraded.at.node
    upgraded.label((*CLASSIC, "client"))
    await_true("it is rolled out", lambda: rolled_out(upgraded))
    upgraded.start()
    upgraded.lead()
    node.set_recovery_action(SICK, 1)
    node.inject_xid(SICK, 95, reset=True)
    scene.await_rules({f"{GPU_NODE}/gpu-{SICK}": "NoExecute"})
    scene.await_phase("Drained")
    manager, rules, incident = upgraded.manager(), scene.rules(), scene.incident()

    def nothing_was_done() -> bool:
        return scene.rules() == rules and scene.incident()["spec"] == incident["spec"]

    manager.stop_clients()
    await_true("our pod has gone", lambda: not upgraded.at.pods_now("exporter"))
    upgraded.at.stop_deleted()
    manager.unload()
    upgraded.at.cluster.player.publish(GPU_NODE, [])
    assert upgraded.remediator is not None
    stated = f"the agent of {GPU_NODE} has not reported for more than 3 s"
    await_true("the node is unknown", lambda: unknown(scene, stated), timeout=90)
    scene.holds_for(3, "nothing is tainted or untainted", nothing_was_done)
    assert scene.phase() == "Drained"

    node.set_node_failure(Failure("error", DRIVER_NOT_LOADED))
    manager.restart_clients()
    await_true("it is rolled out", lambda: rolled_out(upgraded))
    upgraded.at.stop_deleted()
    (pod,) = upgraded.at.pods("exporter", 1)
    for name in ("sensor", "agent"):
        upgraded.at.run(pod, name)
    await_true("no driver yet", lambda: upgraded.state() == ("Down", "DriverNotLoaded"))
    scene.holds_for(3, "nothing is tainted or untainted", nothing_was_done)
    node.set_node_failure(HEALTHY)
    upgraded.at.cluster.player.publish(GPU_NODE, node.slices(), new_generation=True)
    await_true("the driver is back", lambda: upgraded.state() == ("Up", ""))
    scene.holds_for(3, "the sick GPU is still tainted", nothing_was_done)


def unknown(scene: Scene, stated: str) -> bool:
    return stated in str(scene.incident().get("status", {}))


@pytest.mark.parametrize(
    ("before", "during"),
    [
        ("true", PAUSED),
        ("false", "false"),
        ("", ""),
        ("paused-for-mig-change", f"paused-for-mig-change_{PAUSED}"),
    ],
)
def test_a_label_is_paused_and_becomes_what_it_was(before: str, during: str) -> None:
    assert paused(before) == during
    assert resumed(during) == before
