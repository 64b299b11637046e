"""NVIDIA's container runtime in a node: its configuration, its CDI file, the RuntimeClass.

As the GPU Operator leaves a node, with the runtime in mode `cdi`.
"""

import json
from contextlib import suppress

from kubeapi.client import Client, Conflict
from tests.lab.node.containerd import CDI_FOLDER
from tests.lab.node.gpus import Gpus
from tests.lab.node.plane import NodePlane

_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
_CONFIGURATION = f"""\
[nvidia-container-runtime]
mode = "cdi"
runtimes = ["runc"]
[nvidia-container-runtime.modes.cdi]
default-kind = "nvidia.com/gpu"
annotation-prefixes = ["cdi.k8s.io/"]
spec-dirs = ["{CDI_FOLDER}"]
"""


def set_up(plane: NodePlane, client: Client, gpus: Gpus) -> None:
    """Write the files and create the RuntimeClass `nvidia`."""
    files = {
        "/etc/nvidia-container-runtime/config.toml": _CONFIGURATION,
        f"{CDI_FOLDER}/nvidia.json": json.dumps(gpus.specification()),
    }
    for file, text in files.items():
        write = f'mkdir -p "$(dirname {file})" && cat > {file}'
        plane.inside("/bin/sh", "-c", write, stdin=text)
    with suppress(Conflict):
        client.create(
            _CLASSES,
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": "nvidia"},
                "handler": "nvidia",
            },
        )
