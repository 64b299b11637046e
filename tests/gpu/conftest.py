"""The exporter and the remediator on this machine's own GPU and a real control plane."""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from exporter.model.node_health import NodeDeviceHealth, XidRecord
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from tests.chain.conftest import install
from tests.chain.scene import REPORTS, Scene
from tests.exporter.running import Exporter
from tests.gpu.real_gpu import Crashes, RealGpu
from tests.lab.cluster import Cluster

NODE = "gpu-node"
POLICY = "defaults: {mode: enforce, settle: 1s, soak: 1h}"


class RealNode:
    """Implements `running.Node`: this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.release_file = root / "release"
        self.kernel_log: Path | None = None
        """Instead of the machine's own, for what no test can let a real GPU do."""

    def exporter_flags(self) -> list[str]:
        log = [] if self.kernel_log is None else [f"--kernel-log={self.kernel_log}"]
        return [
            f"--node-name={NODE}",
            f"--release-file={self.release_file}",
            f"--pod-resources-socket={self.root / 'kubelet.sock'}",
            *log,
        ]

    def environment(self) -> dict[str, str]:
        return {}


class Watched:
    """What the cluster knows of the GPU."""

    def __init__(self, scene: Scene, exporter: Exporter, gpu: RealGpu) -> None:
        self.scene = scene
        self.exporter = exporter
        self.gpu = gpu

    def xids(self) -> dict[int, XidRecord]:
        """Return the reported errors by code."""
        body = self.scene.cluster.client.get(f"{REPORTS}/{NODE}")
        report = msgspec.json.decode(body, type=NodeDeviceHealth).status
        (health,) = [health for health in report.gpus if health.uuid == self.gpu.uuid]
        return {record.code: record for record in health.xids}

    def counts(self) -> dict[int, int]:
        return {code: record.count for code, record in self.xids().items()}


@pytest.fixture(scope="session")
def gpu() -> RealGpu:
    return RealGpu.first()


@pytest.fixture(scope="session")
def crashes(gpu: RealGpu, tmp_path_factory: pytest.TempPathFactory) -> Crashes:
    return Crashes.built(tmp_path_factory.mktemp("crashes"), gpu)


@pytest.fixture
def node(tmp_path: Path) -> RealNode:
    return RealNode(tmp_path)


@pytest.fixture
def scene(
    control_plane: ControlPlane, client: Client, cluster: Cluster, tmp_path: Path
) -> Iterator[Scene]:
    install(control_plane, client)
    one = Scene(cluster, tmp_path)
    yield one
    one.close()


@pytest.fixture
def watched(scene: Scene, node: RealNode, gpu: RealGpu) -> Iterator[Watched]:
    """The GPU as the cluster sees it; earlier crashes of this boot are in its report, too."""
    scene.policy(POLICY)
    scene.cluster.player.add_node(NODE)
    scene.cluster.player.publish(NODE, [gpu.published(NODE)])
    endpoint = scene.cluster.plane.endpoint()
    token = node.root / "token"
    token.write_text(endpoint.token or "", encoding="ascii")
    to_server = [
        f"--kube-server={endpoint.server}",
        f"--kube-token-file={token}",
        f"--kube-ca-file={endpoint.ca_file}",
    ]
    with Exporter(node, "run", *to_server) as exporter:
        exporter.wait_shows('draguard_source_up{source="nvml"} 1', "draguard_report_up 1")
        scene.remediator().await_saying(f"{NODE}: 1 healthy")
        yield Watched(scene, exporter, gpu)
        sys.stdout.write(exporter.logged()[-4000:])  # shown when the test failed
