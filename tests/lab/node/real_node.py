"""A whole real node for tests: control plane, containerd, kubelet, DRA driver, images, GPUs.

`RealNode` is a context manager. Everything it starts is in the namespaces of `holder`, so that one
SIGKILL ends all of it.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from kubeapi.client import Client
from simulator.cluster.build import build, to_stderr
from simulator.cluster.controlplane import Component
from simulator.cluster.toolchain import Say
from simulator.compiler import BuildError
from simulator.slices import Publishing
from tests.lab.cluster import NODES, SLICES, await_true, install_classes
from tests.lab.node import images, nvidia, packages, partition
from tests.lab.node.containerd import CDI_FOLDER, Containerd
from tests.lab.node.gpus import Gpus
from tests.lab.node.kubelet import kubelet
from tests.lab.node.plane import DRIVER_USER, NodePlane
from tests.lab.node.programs import DEVICE_PLUGIN, DRA_DRIVER

NAME = "gpu-node-1"
GPU_RESOURCE = "nvidia.com/gpu"
READY_SECONDS = 120.0
Json = dict[str, Any]


class RealNode:
    """One real node with simulated GPUs; `gpus` and `mig` as for `simulator.board.gpus_of`.

    With `plugin` a device plugin hands them out, and nothing is published for DRA.
    """

    def __init__(
        self,
        gpus: str = "8xH100",
        *,
        mig: Mapping[int, Sequence[str]] | None = None,
        publishing: Publishing | None = None,
        plugin: bool = False,
        name: str = NAME,
        say: Say = to_stderr,
    ) -> None:
        self.name = name
        self.plane = NodePlane(name, say=say)
        self._board = (gpus, mig, publishing or Publishing())
        self._plugin = plugin
        self._say = say

    gpus: Gpus
    containerd: Containerd
    kubelet: Component
    driver: Component
    client: Client

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything; returns when the node is Ready and its devices are published.

        Raises BuildError (also for what is missing on the machine) and ControlPlaneError.
        """
        if lacking := packages.missing():
            raise BuildError(f"a real node cannot run here: {'; '.join(lacking)}")
        loaded = images.archives(self._say)
        began = time.monotonic()
        self.plane.start()
        self.client = Client(self.plane.endpoint(), timeout=60.0)
        install_classes(self.client)
        self.gpus = Gpus(
            self.plane.layout.folder / "driver",
            self.name,
            self._board[0],
            self._board[1],
            self._board[2],
        )
        self.containerd = Containerd(self.plane, self._say)
        self.containerd.start()
        nvidia.set_up(self.plane, self.client, self.gpus)
        for archive in loaded:
            self.containerd.load(archive)
        self.kubelet = kubelet(self.plane, self._say)
        self.kubelet.start()
        await_true("the kubelet's node is Ready", self.is_ready, READY_SECONDS)
        self.driver = self._device_plugin() if self._plugin else self._dra_driver()
        self.driver.start()
        offered = self._is_plugged if self._plugin else self.slices
        await_true("the devices are offered", offered, READY_SECONDS)
        self._say(f"the node {self.name} is ready after {time.monotonic() - began:.1f} s")

    def stop(self) -> None:
        """End everything; nothing of it is left on the machine."""
        if hasattr(self, "client"):
            self.client.close()
        self.plane.stop()

    def versions(self) -> str:
        """Say in one line which programs the node is made of."""
        (found,) = self.items(NODES)
        reported = found["status"]["nodeInfo"]
        runc = self.plane.inside("runc", "--version").splitlines()[0]
        return (
            f"kubelet {reported['kubeletVersion']}, {reported['containerRuntimeVersion']}, {runc}"
        )

    def items(self, path: str) -> list[Json]:
        return msgspec.json.decode(self.client.get(path), type=Json)["items"]

    def is_ready(self) -> bool:
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for node in self.items(NODES)
            for condition in node["status"].get("conditions", [])
        )

    def process(self, container: str) -> Path:
        """Return the folder in /proc of a container's first process, as the machine sees it."""
        for line in self.containerd.ctr("tasks", "ls").splitlines()[1:]:
            name, number, *_ = line.split()
            if name == container:
                return Path(f"/proc/{self.plane.first_process}/root/proc/{number}")
        raise AssertionError(f"no container {container} runs")

    def kill(self, process: Path) -> None:
        """Send SIGKILL to what `process` returned."""
        self.plane.inside("/bin/sh", "-c", f"kill -9 {process.name}")

    def slices(self) -> list[Json]:
        return self.items(SLICES)

    def _is_plugged(self) -> bool:
        (found,) = self.items(NODES)
        return int(found["status"].get("allocatable", {}).get(GPU_RESOURCE, "0")) > 0

    def _device_plugin(self) -> Component:
        program = build(self._say, DEVICE_PLUGIN) / "device-plugin"
        argv = [str(program), f"-devices={self.gpus.published}"]
        return self._component("device-plugin", argv)

    def _dra_driver(self) -> Component:
        argv = [
            str(build(self._say, DRA_DRIVER) / "dra-driver"),
            f"-kubeconfig={self.plane.kubeconfig_of(DRIVER_USER)}",
            f"-node-name={self.name}",
            f"-devices={self.gpus.published}",
            f"-cdi-dir={CDI_FOLDER}",
        ]
        if self.gpus.publishing.dynamic_mig:
            argv.append(f"-partition={partition.program(self.gpus.root)}")
        return self._component("dra-driver", argv)

    def _component(self, name: str, argv: list[str]) -> Component:
        return Component(name, argv, self.plane.logs / f"{name}.log", self.plane.supervisor)
