"""NVIDIA's k8s-driver-manager, played: it empties a node before the driver's modules are unloaded.

Labels, order and waiting are those of NVIDIA/k8s-driver-manager, cmd/driver-manager/main.go and
internal/kubernetes/client.go at commit 0c04c81 (read 2026-11-26). Left out is what does not concern
an exporter: cordon and drain (DaemonSets are ignored there), mounts, MOFED, vfio. Deadlines are
shorter, and in place of the kernel's count of users of the module there is `in_use`.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from kubeapi.client import Client
from tests.lab.cluster import NODES, await_true

Json = dict[str, Any]
PREFIX = "nvidia.com/gpu.deploy."
CLIENT, DRA_DRIVER = f"{PREFIX}client", f"{PREFIX}dra-driver"
PAUSED = "paused-for-driver-upgrade"
OPERATOR = "gpu-operator"
_STOPPED_TOGETHER = (
    *("operator-validator", "container-toolkit", "device-plugin", "gpu-feature-discovery"),
    *("dcgm-exporter", "dcgm", "nvsm", "sandbox-validator", "sandbox-device-plugin"),
    *("vgpu-device-manager", "dra-validator", "dcgm-dra", "dcgm-exporter-dra"),
)
"""It sets them all; one that the node does not have becomes an empty value."""
_ONLY_WHERE_SET = ("mig-manager", "client")
STOPPED = (*_STOPPED_TOGETHER, *_ONLY_WHERE_SET)
"""Labels, without their prefix, that it pauses before it looks whether the driver is free."""
_AWAITED = (
    *("nvidia-operator-validator", "nvidia-container-toolkit-daemonset"),
    *("nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-dcgm-exporter"),
    *("nvidia-dcgm", "nvidia-dcgm-exporter-dra", "nvidia-dcgm-dra"),
)
"""Label `app` of the operator's pods, one after the other."""
_SECONDS = 60.0
"""Five minutes there."""


class DriverInUseError(Exception):
    """The kernel refuses to unload the modules (EBUSY)."""


class DriverManager:
    """One upgrade of one node's driver, step by step."""

    def __init__(self, client: Client, node: str, in_use: Callable[[], Collection[int]]) -> None:
        """`in_use` gives the processes that have the driver open."""
        self._client = client
        self._node = node
        self._in_use = in_use
        self._before = self._labels()

    def stop_clients(self) -> None:
        """Take the operator's pods and other GPU clients off the node, and wait for their end."""
        names = [f"{PREFIX}{name}" for name in _STOPPED_TOGETHER]
        names += [key for name in _ONLY_WHERE_SET if (key := f"{PREFIX}{name}") in self._before]
        self._label({name: paused(self._before.get(name, "")) for name in names})
        for app in _AWAITED:
            await_true(f"{app} has gone", lambda app=app: not self._operands(app), _SECONDS)
        if self._before.get(CLIENT):
            await_true("GPU clients have gone", lambda: not self.clients(), _SECONDS)
        if self._before.get(DRA_DRIVER):
            self._label({DRA_DRIVER: paused(self._before[DRA_DRIVER])})

    def unload(self) -> None:
        """Remove the kernel modules. Raises DriverInUseError while a process has them open."""
        if holders := self._in_use():
            raise DriverInUseError(f"driver is in use by {sorted(holders)}")

    def restart_clients(self) -> None:
        """Let them run again, also after a failure."""
        labels = self._labels()
        self._label({key: resumed(value) for key, value in labels.items() if PREFIX in key})

    def clients(self) -> list[str]:
        """Return the DaemonSets' pods on the node that select it by the label of GPU clients."""
        return [
            pod["metadata"]["name"]
            for pod in self._pods("/api/v1/pods")
            if CLIENT in pod["spec"].get("nodeSelector", {})
            and any(owner["kind"] == "DaemonSet" for owner in pod["metadata"]["ownerReferences"])
        ]

    def _operands(self, app: str) -> list[Json]:
        return self._pods(f"/api/v1/namespaces/{OPERATOR}/pods", labelSelector=f"app={app}")

    def _pods(self, path: str, **query: str) -> list[Json]:
        found = self._client.get(path, {"fieldSelector": f"spec.nodeName={self._node}", **query})
        return msgspec.json.decode(found, type=Json)["items"]

    def _labels(self) -> dict[str, str]:
        body = msgspec.json.decode(self._client.get(f"{NODES}/{self._node}"), type=Json)
        return body["metadata"]["labels"]

    def _label(self, labels: Mapping[str, str]) -> None:
        self._client.merge_patch(f"{NODES}/{self._node}", {"metadata": {"labels": labels}})


def paused(value: str) -> str:
    """Return what becomes of a label's value; what a user switched off stays so."""
    if value in ("", "false") or PAUSED in value:
        return value
    return PAUSED if value == "true" else f"{value}_{PAUSED}"


def resumed(value: str) -> str:
    return "true" if value == PAUSED else value.replace(PAUSED, "").strip("_")
