"""Starts and stops everything that the demo plays with.

The real control plane, simulated nodes, the real exporters and the real remediator. Each part is
taken down again in the opposite order.
"""

import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from kubeapi.client import ApiError, Client, Conflict
from simulator.board import BoardError
from simulator.cluster import objects, workloads
from simulator.cluster.build import build
from simulator.cluster.controlplane import ControlPlane, ControlPlaneError
from simulator.cluster.nodes import NodePlayer
from simulator.cluster.ports import free_port
from simulator.cluster.supervise import SupervisorError
from simulator.compiler import BuildError
from simulator.gpu import Instance
from simulator.kubelet import KubeletError
from simulator.node import SimulatedNode
from simulator.scenario import ScenarioError
from tools.demo.interrupt import Interrupts
from tools.demo.programs import Programs, StageError
from tools.demo.watching import Watching, page

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
MANIFESTS = Path(__file__).parents[2] / "deploy" / "manifests" / "draguard.yaml"
INSTALLED = (
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Deployment",
)
"""Kinds of the manifests that the demo creates: what the command line looks at. The programs run
beside the cluster, so the Deployment has no replicas. The admission policies are left out, as they
know the programs by tokens that only a kubelet can make."""
NODES = ("node-a", "node-b", "node-c")
SLICED = "node-c"
"""Its GPU 0 is cut into seven slices, so that 23 whole GPUs are left."""
GPUS = 23
TRAIN = GPUS - 1
"""One GPU stays free, for a pod that is evicted."""
INFER = 5
PROFILE = "1g.10gb"
LEASES = "draguard-system"
INTERVAL = 2
"""Seconds between samples; the product's default is 30."""
POLICY = """\
defaults: {mode: enforce, settle: 2s, soak: 8s}
budget: {evict: {node: 2}}
"""
PATIENCE = 60.0
Say = Callable[[str], None]
ERRORS = (
    ApiError,
    BoardError,
    BuildError,
    ControlPlaneError,
    KubeletError,
    OSError,
    ScenarioError,
    StageError,
    SupervisorError,
)
"""Expected errors; each has a message for users."""


class Place(msgspec.Struct, frozen=True):
    """Where a device is in the simulation."""

    node: SimulatedNode
    number: int
    instance: Instance | None = None


class Stage:
    """Everything that runs; `open` it, and `close` it whatever happened."""

    def __init__(self, policy: str, interrupts: Interrupts, say: Say) -> None:
        self._policy = policy
        self._interrupts = interrupts
        self._say = say
        self._began = time.monotonic()
        self._closing = contextlib.ExitStack()
        self._nodes: dict[str, SimulatedNode] = {}
        self.ports: dict[str, int] = {}
        """Of the metrics pages, by process."""

    programs: Programs
    plane: ControlPlane
    client: Client
    player: NodePlayer
    watching: Watching

    def now(self) -> float:
        """Return seconds since the demo began."""
        return time.monotonic() - self._began

    def open(self) -> None:
        """Set everything up; returns when all pods run. Raises one of ERRORS."""
        if not CRDS.is_dir():
            raise StageError(f"there are no CRDs at {CRDS}; run the demo from a checkout")
        build()
        self._step("starting etcd, kube-apiserver, scheduler and controllers", self._start_plane)
        self._say(f"real components: {self.plane.versions()}")
        self._step(f"installing the CRDs and {len(NODES)} nodes with 8 H100 each", self._furnish)
        self._step("starting 3 exporters and the remediator", self._start_programs)
        self._await("the exporters report all GPUs", self._all_reported)
        self._step(f"starting {TRAIN} training and {INFER} inference pods", self._start_workloads)
        pods = TRAIN + INFER
        self._await(
            "all pods hold a device and run",
            lambda: len(self.watching.picture().held()) == pods,
        )

    def close(self) -> None:
        self._closing.close()

    def place(self, uuid: str) -> Place:
        """Return where the GPU or slice of this UUID is."""
        for node in self._nodes.values():
            for number, gpu in enumerate(node.scenario.load().gpus):
                if gpu.uuid == uuid:
                    return Place(node, number)
                for instance in gpu.instances:
                    if instance.uuid == uuid:
                        return Place(node, number, instance)
        raise StageError(f"no simulated node has a device {uuid}")

    def scale(self, name: str, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/default/deployments/{name}"
        self.client.merge_patch(path, {"spec": {"replicas": replicas}})

    def _step(self, what: str, do: Callable[[], None]) -> None:
        self._say(what)
        with self._interrupts.held():
            do()

    def _await(self, what: str, true: Callable[[], bool]) -> None:
        self._say(f"waiting until {what}")
        deadline = time.monotonic() + PATIENCE
        while not true():
            self.programs.check()
            if time.monotonic() > deadline:
                raise StageError(
                    f"not within {PATIENCE:.0f} s: {what}. The machine may be too busy; if it is "
                    f"idle, this is a bug. The remediator's last words:\n"
                    f"{self.programs.last_words('remediator')}"
                )
            time.sleep(0.1)

    def _start_plane(self) -> None:
        self.programs = Programs()
        self._closing.callback(self.programs.close)
        self.plane = ControlPlane()
        self._closing.callback(self.plane.stop)
        self.plane.start()
        self.client = Client(self.plane.endpoint(), timeout=PATIENCE)
        self._closing.callback(self.client.close)
        self.player = NodePlayer(self.client, self._pods_changed)
        self.player.start()
        self._closing.callback(self.player.stop)

    def _furnish(self) -> None:
        for file in sorted(CRDS.glob("*.yaml")):
            objects.create(self.client, file.read_text(encoding="utf-8"))
        self.plane.await_established()
        with contextlib.suppress(Conflict):
            self.client.create("/api/v1/namespaces", {"metadata": {"name": LEASES}})
        self._install()
        for device_class in workloads.device_classes():
            self.client.create("/apis/resource.k8s.io/v1/deviceclasses", device_class)
        for name in NODES:
            node = SimulatedNode(self.programs.folder / name, name)
            self._closing.callback(node.close)
            node.create("8xH100", mig={0: [PROFILE] * 7} if name == SLICED else None)
            self._nodes[name] = node
            self.player.add_node(name)
            self.player.publish(name, node.slices())
        self.watching = Watching(self.client, self.now)
        self.watching.start()
        self._closing.callback(self.watching.stop)

    def _install(self) -> None:
        """Apply the manifests of an installation, with the policy of this demo."""
        documents = MANIFESTS.read_text(encoding="utf-8").split("\n---\n")
        kind = re.compile(rf"^kind: ({'|'.join(INSTALLED)})$", re.MULTILINE)
        chosen = [text for text in documents if kind.search(text)]
        text = "\n---\n".join(chosen)
        stopped = re.sub(r"^  replicas: \d+$", "  replicas: 0", text, flags=re.MULTILINE)
        objects.create(self.client, stopped)
        self.client.create(
            f"/api/v1/namespaces/{LEASES}/configmaps",
            {"metadata": {"name": "draguard-policy"}, "data": {"policy.yaml": self._policy}},
        )

    def _pods_changed(self, name: str) -> None:
        if name in self._nodes:
            self._nodes[name].kubelet.set_pods(self.player.pods_of(name))

    def _start_programs(self) -> None:
        endpoint = self.plane.endpoint()
        token = self.programs.folder / "token"
        token.touch(mode=0o600)
        token.write_text(endpoint.token or "", encoding="ascii")
        policy = self.programs.folder / "policy.yaml"
        policy.write_text(self._policy, encoding="utf-8")
        to_server = [
            f"--kube-server={endpoint.server}",
            f"--kube-token-file={token}",
            f"--kube-ca-file={endpoint.ca_file}",
        ]
        remediator = ["remediator", f"--policy={policy}", self._listen("remediator"), *to_server]
        self.programs.start("remediator", remediator)
        for name, node in self._nodes.items():
            self._start_exporter(name, node, to_server)

    def _start_exporter(self, name: str, node: SimulatedNode, to_server: list[str]) -> None:
        flags = [
            *node.exporter_flags(),
            self._listen(f"exporter {name}"),
            f"--sensor-socket={node.root / 'sensor.sock'}",
            f"--interval={INTERVAL}",
            f"--lease-interval={INTERVAL}",  # a GPU is verified after three renewals
            *to_server,
        ]
        variables = {"DRAGUARD_SIM_SCENARIO": str(node.scenario.path)}
        self.programs.start(f"exporter {name}", ["exporter", "run", *flags], variables)

    def _listen(self, name: str) -> str:
        self.ports[name] = free_port()
        return f"--listen=127.0.0.1:{self.ports[name]}"

    def _all_reported(self) -> bool:
        reports = self.watching.reports()
        return (
            self.watching.synced
            and all(name in reports for name in NODES)
            and all(report.status.summary.present == 8 for report in reports.values())
            and not any(report.status.summary.sources_down for report in reports.values())
            and page(self.ports["remediator"], "/readyz") != ""
        )

    def _start_workloads(self) -> None:
        for name, replicas, request in (
            ("train", TRAIN, workloads.gpu_request()),
            ("infer", INFER, workloads.mig_request(PROFILE)),
        ):
            template = workloads.claim_template(name, request)
            root = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
            self.client.create(root, template)
            spec = workloads.pod_spec(template=name)
            body = workloads.deployment(name, replicas, spec)
            self.client.create("/apis/apps/v1/namespaces/default/deployments", body)
