"""What is measured: a real control plane that writes to disk, a node of 8 GPUs, the real programs.

Exporter and remediator run as in production, at their default settings, as processes of their own.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import TypeVar

from benchmarks import audit, processes
from benchmarks.kernel_log_device import KernelLogDevice
from benchmarks.programs import bytecode, compile_all, parts
from benchmarks.scraper import page
from benchmarks.servers import INCIDENTS, REPORTS, Servers
from benchmarks.tape import Tape
from benchmarks.waiting import TooLate, await_true
from exporter.model.node_health import NodeDeviceHealth
from remediator.model.incident import Incident
from remediator.model.taint_rule import RawRule
from simulator import driver_messages
from simulator.cluster import workloads
from simulator.cluster.nodes import NodePlayer
from simulator.cluster.pods import Pod
from simulator.cluster.ports import free_port
from simulator.node import SimulatedNode

T = TypeVar("T")
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
NODE = "node-a"
GPUS = 8
POLICY = """\
defaults: {mode: enforce, settle: 500ms, soak: 600ms, repeat: {count: 1000}}
budget:
  evict: {node: none, deviceClass: none, domain: none, cluster: none, rate: none}
  taint: {node: none, cluster: none}
  correlation: {nodes: 0, after_change: 0s}
"""


class Stage(Servers):
    """The node and the programs; everything that it started ends with the block."""

    node: SimulatedNode
    rules: Tape[RawRule]
    pods: Tape[Pod]
    reports: Tape[NodeDeviceHealth]
    incidents: Tape[Incident]
    remediator: int
    """Process id."""
    exporter: Mapping[str, int]
    """Process ids of agent, sensor and NVML child."""
    port: int
    """Of the agent's page."""

    @property
    def versions(self) -> str:
        return self.plane.versions()

    def audited(self) -> tuple[audit.Request, ...]:
        """Return the writes of rules, incidents and reports that the apiserver has logged."""
        return audit.requests(self.audit_log.read_bytes())

    def running(self) -> int:
        """Return how many pods hold a GPU and run."""
        alive = (pod for pod in self.pods.items().values() if not pod.metadata.deletion_timestamp)
        return sum(pod.status.phase == "Running" for pod in alive)

    def last_words(self, lines: int = 8) -> str:
        """Return the ends of the logs of what is measured."""
        logs = sorted(self.folder.glob("*.log"))
        ends = (
            [f"{log.name}:", *log.read_text(errors="replace").splitlines()[-lines:]]
            for log in logs
            if log.name != "audit.log"
        )
        return "\n".join(line for end in ends for line in end)

    def _open(self) -> None:
        self.say("starting etcd (with fsync), kube-apiserver, scheduler and controllers")
        batches = ("--audit-log-mode=batch", "--audit-log-batch-max-wait=1s")
        self.start_plane(*batches, audited=audit.POLICY, fsync=True)
        self.say(f"real components: {self.versions}")
        self.say(f"adding a node with {GPUS} H100, its exporter, the remediator and {GPUS} pods")
        self.install("draguard-system")
        self.rules = self._tape(RULES, RawRule)
        self.pods = self._tape("/api/v1/pods", Pod)
        self.reports = self._tape(REPORTS, NodeDeviceHealth)
        self.incidents = self._tape(INCIDENTS, Incident)
        self._start_node()
        self._start_programs()
        self._start_workload()
        await_true(f"{GPUS} pods run", lambda: self.running() == GPUS)
        await_true("the node reports", lambda: self.reports.items().get(NODE))
        await_true(
            "the page names the holder of each GPU",
            lambda: page(self.port).count(b"draguard_device_allocation_info{") == GPUS,
        )

    def _tape(self, path: str, kind: type[T]) -> Tape[T]:
        tape = Tape(self.client, path, kind)
        tape.start()
        self._closing.callback(tape.stop)
        if not tape.wait_synced(20.0):
            raise TooLate(f"{path} cannot be listed")
        return tape

    def _start_node(self) -> None:
        self.node = SimulatedNode(self.folder / NODE, NODE).create(f"{GPUS}xH100")
        self._closing.callback(self.node.close)
        device = KernelLogDevice()
        self._closing.callback(device.close)
        self.node.kernel_log = device
        for gpu in self.node.scenario.load().gpus:
            # As at the driver's start, long before anything fails.
            lines = driver_messages.identity(gpu.pci, gpu.uuid, gpu.serial)
            self.node.kernel_log.write_all(lines)
        player = NodePlayer(
            self.client, lambda name: self.node.kubelet.set_pods(player.pods_of(name))
        )
        player.start()
        self._closing.callback(player.stop)
        player.add_node(NODE)
        player.publish(NODE, self.node.slices())

    def _start_programs(self) -> None:
        compile_all(self.folder)
        policy = self.folder / "policy.yaml"
        policy.write_text(POLICY, encoding="utf-8")
        server = self.server_flags()
        self.remediator = self._run(
            "remediator", [f"--policy={policy}", "--listen=127.0.0.1:0", *server]
        )
        self.port = free_port()
        flags = [
            *self.node.exporter_flags(),
            f"--listen=127.0.0.1:{self.port}",
            f"--sensor-socket={self.folder / 'sensor.sock'}",
            "--lease-interval=1",  # an untaint needs three renewals
            *server,
        ]
        agent = self._run("exporter", ["run", *flags])

        def sensor_and_child() -> dict[str, int]:
            found = parts(processes.descendants(agent))
            return found if len(found) == 2 else {}

        self.exporter = {"agent": agent, **await_true("the exporter runs", sensor_and_child)}

    def _run(self, module: str, arguments: Sequence[str]) -> int:
        variables = [
            f"DRAGUARD_SIM_SCENARIO={self.node.scenario.path}",
            *(f"{key}={value}" for key, value in bytecode(self.folder).items()),
        ]
        command = ["env", *variables, sys.executable, "-m", module, *arguments]
        return self.supervisor.start(command, self.folder / f"{module}.log")

    def _start_workload(self) -> None:
        root = "namespaces/default"
        template = workloads.claim_template("train", workloads.gpu_request())
        self.client.create(f"/apis/resource.k8s.io/v1/{root}/resourceclaimtemplates", template)
        body = workloads.deployment("train", GPUS, workloads.pod_spec(template="train"))
        self.client.create(f"/apis/apps/v1/{root}/deployments", body)
