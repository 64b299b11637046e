"""A cluster worth looking at: three nodes, 24 GPUs, one of them in slices, jobs on most.

The control plane, the exporters and the remediator are real; the GPUs and what runs on them are
simulated.
"""

import re
import time
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kubeapi.client import Conflict
from simulator.cluster import workloads
from simulator.node import SimulatedNode
from tests.chain.scene import Scene
from tests.exporter.live.stage import connection
from tests.exporter.running import Exporter, free_port
from tests.lab.cluster import Cluster, await_true
from tests.lab.pictures_load import IDLE, SERVING, TRAINING, TUNING, Holder, load

Json = dict[str, Any]
NODES: Mapping[str, Mapping[int, tuple[str, ...]]] = {
    "node-a": {},
    "node-b": {},
    "node-c": {0: ("1g.10gb",) * 7},
}
"""Each with eight H100; which of them are cut, and how."""
REMEDIATOR, EXPLAINER = "remediator", "explainer"
POLICY = "defaults: {mode: enforce, settle: 1s, soak: 600s}"
STALE_AFTER = 20
"""Seconds of silence after which an agent is not believed; its Lease is renewed each second, and a
busy machine may stop it for some."""
JOBS = (
    ("research", TRAINING, 12, workloads.gpu_request()),
    ("research", TUNING, 5, workloads.gpu_request()),
    ("research", IDLE, 2, workloads.gpu_request()),
    ("serving", SERVING, 5, workloads.mig_request("1g.10gb")),
)
"""Namespace, Deployment, replicas, what each replica asks for."""
_CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
_FLAGS = ("--lease-interval=1", "--sample-deadline=20")
_SNAPSHOT = re.compile(r"^draguard_snapshot_timestamp_seconds(?:{.*})? (\S+)$", re.MULTILINE)


class PlayedCluster:
    """What is started, and how its GPUs are controlled."""

    def __init__(self, scene: Scene, nodes: Mapping[str, SimulatedNode], root: Path) -> None:
        self.scene = scene
        self.nodes = nodes
        flags = [*connection(scene.cluster.plane.endpoint(), root), *_FLAGS]
        self.exporters = {
            name: Exporter(node, "run", *flags).start() for name, node in nodes.items()
        }
        self._remediator_port, self._explainer_port = free_port(), free_port()

    def start(self) -> None:
        """Return when all jobs run and every page names them."""
        for exporter in self.exporters.values():
            exporter.wait_shows('draguard_source_up{source="nvml"} 1', "draguard_report_up 1")
        listen = f"127.0.0.1:{self._remediator_port}"
        remediator = self.scene.remediator("--listen", listen, "--stale-after", str(STALE_AFTER))
        for name in self.nodes:
            remediator.await_saying(f"{name}: 8 healthy")
        self.scene.explainer("--listen", f"127.0.0.1:{self._explainer_port}")
        for namespace, name, replicas, request in JOBS:
            self._run(namespace, name, replicas, request)
        desired = sum(replicas for _, _, replicas, _ in JOBS)
        await_true("all jobs run", lambda: len(self.scene.cluster.running()) == desired)
        self._tell_kubelets()
        for exporter in self.exporters.values():
            exporter.wait_shows("draguard_device_allocation_info{")

    def _run(self, namespace: str, name: str, replicas: int, request: Json) -> None:
        client = self.scene.cluster.client
        with suppress(Conflict):
            client.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        template = workloads.claim_template(name, request)
        resources = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates"
        client.create(resources, template)
        body = workloads.deployment(name, replicas, workloads.pod_spec(template=name))
        client.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", body)

    def _tell_kubelets(self) -> None:
        for name, node in self.nodes.items():
            node.kubelet.set_pods(self.scene.cluster.player.pods_of(name))

    def holders(self) -> Mapping[str, Holder]:
        """Return who was given each device, by `pool/device`."""
        found: dict[str, Holder] = {}
        for claim in self.scene.cluster.items(_CLAIMS):
            status = claim.get("status", {})
            for consumer in status.get("reservedFor", []):
                for result in status["allocation"]["devices"]["results"]:
                    place = f"{result['pool']}/{result['device']}"
                    found[place] = Holder(consumer["name"], consumer["uid"])
        return found

    def load(self, at: float, seconds: float) -> None:
        """Let every GPU do what it does `at` seconds into the story, after a step of `seconds`."""
        self._tell_kubelets()
        holders = self.holders()
        for name, node in self.nodes.items():
            with node.scenario.edit() as scenario:
                for gpu in scenario.gpus:
                    load(f"{name}/gpu-{gpu.minor}", gpu, holders, at, seconds)

    def pages(self) -> dict[str, str]:
        """Return what every program that still runs says after now, by its name."""
        now = time.time()
        found = {
            name: await_true(f"{name} has looked", partial(_page_after, exporter, now))
            for name, exporter in self.exporters.items()
        }
        ports = {REMEDIATOR: self._remediator_port, EXPLAINER: self._explainer_port}
        for name, port in ports.items():
            url = f"http://127.0.0.1:{port}/metrics"
            found[name] = await_true(f"the {name} answers", partial(_get, url))
        return found

    def lose(self, node: str, gpu: int) -> None:
        """Let a GPU fall off the bus: NVML has lost it, and the kernel says XID 79."""
        self.nodes[node].lose(gpu)
        self.nodes[node].inject_xid(gpu, 79, nvml=False)

    def silence(self, node: str) -> None:
        """End the exporter of a node without any chance to say goodbye."""
        self.exporters.pop(node).kill()

    def await_page(self, what: str, pattern: str) -> None:
        """Wait until the remediator's page has a line that matches."""
        url = f"http://127.0.0.1:{self._remediator_port}/metrics"
        await_true(what, lambda: re.search(pattern, _get(url), re.MULTILINE))

    def stop(self) -> None:
        for exporter in self.exporters.values():
            exporter.kill()


def _page_after(exporter: Exporter, moment: float) -> str:
    page = exporter.get()[1]
    reported = _SNAPSHOT.search(page)
    return page if reported and float(reported[1]) > moment else ""


def _get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback
            return answer.read().decode()
    except OSError:
        return ""


@contextmanager
def played(cluster: Cluster) -> Generator[PlayedCluster]:
    """Start everything on a clean cluster that knows the CRDs; ends with the block."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(TemporaryDirectory(prefix="dg-")))
        scene = Scene(cluster, root)
        scene.policy(POLICY)
        nodes: dict[str, SimulatedNode] = {}
        for name, slices in NODES.items():
            node = SimulatedNode(root / name, name)
            stack.callback(node.close)
            node.create("8xH100", mig=slices)
            cluster.player.add_node(name)
            cluster.player.publish(name, node.slices())
            nodes[name] = node
        one = PlayedCluster(scene, nodes, root)
        stack.callback(one.stop)
        stack.callback(scene.close)
        one.start()
        yield one
