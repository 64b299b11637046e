"""The exporter alone: a node whose devices all have holders, an API server, no remediator.

Sensor and agent run apart, as in a pod. Every GPU or slice is held by a pod with a claim of its
own and has one process of that pod.
"""

import contextlib
import sys
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from benchmarks import audit, processes
from benchmarks.kernel_log_device import KernelLogDevice
from benchmarks.programs import bytecode, children, compile_all
from benchmarks.scraper import page
from benchmarks.servers import REPORTS, Opening, Servers
from benchmarks.waiting import TooLate, await_true
from exporter.model.device import GPU_DRIVER
from kubeapi.client import ApiError
from simulator import driver_messages, holdings
from simulator.cluster import publisher, workloads
from simulator.cluster.ports import free_port
from simulator.dcgm_engine import SimulatedDcgm
from simulator.gpu import Process
from simulator.node import SimulatedNode

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims"
_FIRST_PID = 100_000
Json = dict[str, Any]


class Layout(msgspec.Struct, frozen=True):
    """The GPUs of a node: words and slices for `SimulatedNode.create`."""

    name: str
    gpus: str
    mig: Mapping[int, tuple[str, ...]] = {}
    devices: int = 8
    """What can be held: slices, and GPUs without slices."""


GPUS = Layout("8 GPUs", "8xH100")
SLICES = Layout("56 slices", "8xH100", dict.fromkeys(range(8), ("1g.10gb",) * 7), 56)


class Ground(Servers):
    """The API server for all that run on it, one after the other."""

    def _open(self) -> None:
        self.say("starting etcd and kube-apiserver")
        self.start_plane(audited=audit.POLICY_OF_ALL)
        # They would deallocate claims of pods that were never created, and use CPU time meanwhile.
        self.plane.controller_manager.stop()
        self.plane.scheduler.stop()
        self.install("draguard-system", "ml")
        compile_all(self.folder)


class Lone(Opening):
    """One exporter on one node of its own; `flags` are added to those it needs."""

    def __init__(
        self, ground: Ground, layout: Layout, *flags: str, dcgm: bool = False, dead: float = 60.0
    ) -> None:
        super().__init__()
        self.ground = ground
        self.layout = layout
        self._flags = [*flags, *(["--dcgm=embedded"] if dcgm else [])]
        self._dcgm = dcgm
        self._patience = dead
        self.name = f"node-{uuid.uuid4().hex[:6]}"
        self.folder = ground.folder / self.name

    node: SimulatedNode
    exporter: Mapping[str, int]
    """Process ids of agent, sensor and vendor children."""
    port: int
    held: list[Json]
    """The pods as the kubelet reports them, one for each device."""

    def last_words(self, lines: int = 8) -> str:
        """Return the ends of the logs of what is measured."""
        return "\n".join(
            line
            for log in sorted(self.folder.glob("*.log"))
            for line in [f"{log.name}:", *log.read_text(errors="replace").splitlines()[-lines:]]
        )

    def _open(self) -> None:
        self.folder.mkdir()
        self.node = SimulatedNode(self.folder / "n", self.name)
        self.node.create(self.layout.gpus, mig=self.layout.mig)
        self._closing.callback(self.node.close)
        device = KernelLogDevice()
        self._closing.callback(device.close)
        self.node.kernel_log = device
        for gpu in self.node.scenario.load().gpus:
            device.write_all(driver_messages.identity(gpu.pci, gpu.uuid, gpu.serial))
        self._hold()
        try:
            self._start()
        except TooLate:
            print(self.last_words(), file=sys.stderr)
            raise

    def _hold(self) -> None:
        """Publish all devices and give each to a pod by a claim, with a process on it."""
        client = self.ground.client
        owner = {"metadata": {"name": self.name}, "kind": "Node", "apiVersion": "v1"}
        client.create("/api/v1/nodes", owner)
        slices = publisher.publish(client, self.name, self.node.slices())
        devices = [published for found in slices for published in found["spec"]["devices"]]
        numbers = {gpu.uuid: number for number, gpu in enumerate(self.node.scenario.load().gpus)}
        self.held = []
        for number, device in enumerate(devices):
            pod_uid = str(uuid.uuid4())
            self.held.append(self._give(number, device, pod_uid))
            self._run_on(number, device, pod_uid, numbers)
        self.node.kubelet.set_pods(self.held)

    def _give(self, number: int, device: Json, pod_uid: str) -> Json:
        """Allocate a device to a new claim, and return the pod that holds it."""
        claim, pod = f"{self.name}-{number}", f"train-{number}"
        mig = device["attributes"]["type"]["string"] == "mig"
        request = workloads.mig_request("1g.10gb") if mig else workloads.gpu_request("mig")
        client = self.ground.client
        made = msgspec.json.decode(client.create(CLAIMS, workloads.claim(claim, request)))
        result = {
            "request": "mig",
            "driver": GPU_DRIVER,
            "pool": self.name,
            "device": device["name"],
        }
        status = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": pod_uid}],
        }
        client.merge_patch(f"{CLAIMS}/{claim}/status", {"status": status})
        uid = made["metadata"]["uid"]
        resource = holdings.resource(device["name"], self.name, claim_uid=uid)
        return holdings.pod(pod, holdings.container(claims=[holdings.claim(claim, resource)]))

    def _run_on(self, number: int, device: Json, pod: str, numbers: Mapping[str, int]) -> None:
        attributes = device["attributes"]
        parent = attributes.get("parentUUID", attributes["uuid"])["string"]
        gpu = numbers[parent]
        uuid_of_device = attributes["uuid"]["string"]
        cut = (part for part in self.node.gpu(gpu).instances if part.uuid == uuid_of_device)
        # A whole GPU is no instance.
        gi, ci = next(((part.gi, part.ci) for part in cut), (None, None))
        process = Process(pid=_FIRST_PID + number, memory_mib=4096, gi=gi, ci=ci)
        self.node.start_process(gpu, process)
        self.node.put_in_pod(process.pid, pod)

    def _start(self) -> None:
        self.port = free_port()
        socket = self.folder / "sensor.sock"
        shared = [*self.node.exporter_flags(), f"--sensor-socket={socket}", *self._flags]
        sensor = self._run("sensor", shared)
        served = [*shared, f"--listen=127.0.0.1:{self.port}", *self.ground.server_flags()]
        agent = self._run("agent", served)
        expected = 1 + self._dcgm

        def all_children() -> dict[str, int]:
            found = children(processes.descendants(sensor))
            return found if len(found) == expected else {}

        found = await_true("the vendor children run", all_children)
        self.exporter = {"agent": agent, "sensor": sensor, **found}
        holders = self.layout.devices
        await_true(
            "the page names the holder of each device",
            lambda: page(self.port).count(b"draguard_device_allocation_info{") == holders,
            self._patience,
        )

        def has_reported() -> bool:
            with contextlib.suppress(ApiError):
                return b'"gpus"' in self.ground.client.get(f"{REPORTS}/{self.name}")
            return False

        await_true("the node reports", has_reported, self._patience)

    def _run(self, role: str, flags: list[str]) -> int:
        simulated = SimulatedDcgm(self.node) if self._dcgm else self.node
        variables = {**simulated.environment(), **bytecode(self.ground.folder)}
        words = ["env", *(f"{key}={value}" for key, value in variables.items())]
        command = [*words, sys.executable, "-m", "exporter", role, *flags]
        pid = self.ground.supervisor.start(command, self.folder / f"{role}.log")
        self._closing.callback(self.ground.supervisor.kill, pid)
        return pid
