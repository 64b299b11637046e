"""The real kubelet in a node: its configuration, and the process."""

import json
from pathlib import Path
from typing import Any

from simulator.cluster.build import build
from simulator.cluster.controlplane import Component
from simulator.cluster.toolchain import Say
from tests.lab.node import containerd, network
from tests.lab.node.plane import NodePlane
from tests.lab.node.programs import KUBELET

ROOT = Path("/var/lib/kubelet")
LABELS = "nvidia.com/gpu.present=true"
"""As the GPU Operator labels a node; the chart's DaemonSet asks for it."""
CONFIGURATION: dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    # Nobody else is in its network.
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "cgroupfs",
    "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
    "failCgroupV1": False,
    "failSwapOn": False,
    "makeIPTablesUtilChains": False,
    "resolvConf": "",
    "oomScoreAdj": 0,
    "volumePluginDir": str(ROOT / "volume-plugins"),
    "nodeStatusUpdateFrequency": "2s",
    # The disk is the machine's: how full it is is not the node's affair.
    "imageGCHighThresholdPercent": 100,
    "imageGCLowThresholdPercent": 99,
    "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
}


def kubelet(plane: NodePlane, say: Say) -> Component:
    """Return the kubelet of a node, not started yet."""
    folder = plane.layout.folder / "kubelet-files"
    folder.mkdir()
    file = folder / "config.json"
    file.write_text(json.dumps(CONFIGURATION))
    argv = [
        str(build(say, KUBELET) / "kubelet"),
        f"--config={file}",
        f"--kubeconfig={plane.kubeconfig_of(f'system:node:{plane.name}')}",
        f"--hostname-override={plane.name}",
        f"--node-ip={network.NODE}",
        f"--node-labels={LABELS}",
        "--v=2",
    ]
    return Component("kubelet", argv, plane.logs / "kubelet.log", plane.supervisor)
