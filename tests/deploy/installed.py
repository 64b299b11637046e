"""The chart applied to a real API server, with a simulated GPU node under it.

The real controllers make its pods, the real scheduler binds them; their containers are processes
with the pods' own tokens (`containers`). What others install is here too: NVIDIA's device classes
and its RuntimeClass.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.nodes import NodePlayer
from simulator.node import SimulatedNode
from tests.deploy.containers import SERVICE_ACCOUNT, Container, Pod, Surroundings
from tests.deploy.rendered import LOCAL
from tests.lab.cluster import Cluster, await_true, install_classes

Json = dict[str, Any]
NAMESPACE = "draguard-system"
GPU_NODE, OTHER_NODE = "node-a", "node-b"
_GPU_LABEL = {"nvidia.com/gpu.present": "true"}
_HELM_SECONDS = 240.0
_CONTROLLERS = (
    "daemonset-controller",
    "root-ca-certificate-publisher-controller",
    "validatingadmissionpolicy-status-controller",
)


class Installed:
    """One cluster. `plane` is running; `close` ends what was started here."""

    def __init__(self, plane: ControlPlane, helm_built: Path, folder: Path) -> None:
        self.plane = plane
        self._helm = helm_built
        self._folder = folder
        self.client = Client(plane.endpoint(), timeout=60.0)
        self.node = SimulatedNode(folder / "node", GPU_NODE).create("8xH100")
        self._player = NodePlayer(self.client, self._pods_changed)
        self._running: dict[str, list[Container]] = {}
        self._known: dict[str, Pod] = {}
        """By the pod's UID, as are the containers that run."""
        self._furnish()
        self.cluster = Cluster(plane, self.client, self._player)

    def close(self) -> None:
        self._stop(set(self._running))
        self._player.stop()
        self.node.close()
        self.client.close()

    def helm(self, *arguments: str) -> str:
        """Run the real helm on this cluster; fails with what it said."""
        config = f"--kubeconfig={self.plane.kubeconfig}"
        where = f"--namespace={NAMESPACE}"
        local = ["--set", LOCAL] if arguments[0] in ("install", "upgrade") else []
        command = [self._helm / "helm", *arguments, *local, where, config]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=_HELM_SECONDS
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pods(self, component: str, count: int) -> list[Pod]:
        """Return the pods of a component when there are so many and each has a node."""

        def bound() -> list[Json]:
            found = self._pods(component)
            ready = [pod for pod in found if pod["spec"].get("nodeName")]
            return ready if len(ready) == len(found) == count else []

        found = await_true(f"{count} pods of {component} have nodes", bound)
        return [self._pod(pod) for pod in found]

    def run(self, pod: Pod, container: str) -> Container:
        """Start a container; it is stopped at the end."""
        one = pod.container(container).start()
        self._running.setdefault(pod.uid, []).append(one)
        return one

    def stop_deleted(self) -> None:
        """Stop the containers of pods that are gone, as their kubelet does."""
        there = {pod["metadata"]["uid"] for pod in self.cluster.pods()}
        self._stop(self._running.keys() - there)

    def _stop(self, pods: Iterable[str]) -> None:
        for uid in list(pods):
            for container in self._running.pop(uid):
                container.stop()

    def pods_now(self, component: str) -> list[Pod]:
        """Return the pods of a component that have a node by now."""
        found = self._pods(component)
        return [self._pod(pod) for pod in found if pod["spec"].get("nodeName")]

    def finish(self, pod: Pod, code: int) -> None:
        """Say how a pod's container ended, as its kubelet would."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod.name}/status"
        phase = "Failed" if code else "Succeeded"
        self.client.merge_patch(path, {"status": {"phase": phase}})

    def _pods(self, component: str) -> list[Json]:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        desired = {"labelSelector": f"app.kubernetes.io/component={component}"}
        return msgspec.json.decode(self.client.get(path, desired))["items"]

    def _pod(self, body: Json) -> Pod:
        uid = body["metadata"]["uid"]
        if uid not in self._known:
            folder = self._folder / uid[:8]
            self._known[uid] = Pod(self.client, body, self._surroundings(), folder)
        return self._known[uid]

    def _surroundings(self) -> Surroundings:
        """Return the whole difference between a container on a GPU node and a process here."""
        node, account = self.node, SERVICE_ACCOUNT
        server = [
            f"--kube-server={self.client.endpoint.server}",
            f"--kube-token-file={{{account}/token}}",
            f"--kube-ca-file={{{account}/ca.crt}}",
        ]
        release = node.root / "release"
        release.mkdir(exist_ok=True)
        return Surroundings(
            host_paths={
                "/run/draguard": release,
                "/var/lib/kubelet/pod-resources": node.root,
                "/var/log": release,
                "/run/log": release,
            },
            flags={
                "sensor": [
                    f"--nvml-library-dir={node.library_dir}",
                    f"--kernel-log={node.kernel_log.path}",
                    f"--boot-id-file={node.boot_id_file}",
                    f"--pci-devices-dir={node.pci_devices_dir}",
                    f"--proc-dir={node.proc_dir}",
                    "--pod-resources-socket={/var/lib/kubelet/pod-resources/kubelet.sock}",
                ],
                "agent": server,
                "remediator": server,
                "explainer": server,
                "cleanup": [f"--kubeconfig={{{account}/kubeconfig}}"],
            },
            variables={"DRAGUARD_SIM_SCENARIO": str(node.scenario.path)},
        )

    def _furnish(self) -> None:
        install_classes(self.client)
        runtime = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
        self.client.create("/apis/node.k8s.io/v1/runtimeclasses", runtime)
        self._player.start()
        self._player.add_node(GPU_NODE, _GPU_LABEL)
        self._player.add_node(OTHER_NODE)
        self._player.publish(GPU_NODE, self.node.slices())

    def _pods_changed(self, node: str) -> None:
        if node == GPU_NODE:
            self.node.kubelet.set_pods(self._player.pods_of(node))


def add_controllers(plane: ControlPlane, *others: str) -> None:
    """Let the controller manager run what the chart relies on, and other controllers by name.

    Its pods, the ConfigMap with their CA, the type check of the admission policies' expressions.
    """
    manager = plane.controller_manager
    manager.stop()
    more = f",{','.join((*_CONTROLLERS, *others))}"
    argv = [
        argument + more if argument.startswith("--controllers=") else argument
        for argument in manager.argv
    ]
    manager.argv = (*argv, f"--root-ca-file={plane.layout.ca_file}")
    manager.start()
