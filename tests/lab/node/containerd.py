"""containerd in a node: its configuration, CNI's, and the process.

Files in, a `Component` out. `Containerd.load` imports an image archive.
"""

import json
import time
from pathlib import Path

from simulator.cluster.build import build
from simulator.cluster.controlplane import Component, ControlPlaneError
from simulator.cluster.toolchain import Say
from tests.lab.node import network
from tests.lab.node.plane import NodePlane
from tests.lab.node.programs import CONTAINERD, NVIDIA_RUNTIME

SOCKET = "/run/containerd/containerd.sock"
CDI_FOLDER = "/etc/cdi"
PAUSE = "docker.io/library/draguard-pause:1"
START_SECONDS = 60.0
_CNI_PROGRAMS = "/usr/lib/cni"
_RUNTIME = "plugins.'io.containerd.cri.v1.runtime'"
_IMAGES = "plugins.'io.containerd.cri.v1.images'"


def configuration(cni: Path, nvidia: Path) -> str:
    """Return containerd's configuration file.

    `cni` is the folder with CNI's, `nvidia` the program of the runtime class of that name.
    """
    return f"""\
version = 3
[{_IMAGES}]
snapshotter = "overlayfs"
[{_IMAGES}.pinned_images]
sandbox = "{PAUSE}"
[{_RUNTIME}]
# For machines on which root may not lower the score of a process.
restrict_oom_score_adj = true
disable_apparmor = true
enable_cdi = true
cdi_spec_dirs = ["{CDI_FOLDER}"]
[{_RUNTIME}.cni]
bin_dirs = ["{_CNI_PROGRAMS}"]
conf_dir = "{cni}"
[{_RUNTIME}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{_RUNTIME}.containerd.runtimes.runc.options]
SystemdCgroup = false
[{_RUNTIME}.containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
[{_RUNTIME}.containerd.runtimes.nvidia.options]
BinaryName = "{nvidia}"
SystemdCgroup = false
"""


def cni_configuration() -> str:
    """Return the list of CNI plugins: one bridge, and no translation of addresses."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": network.POD_RANGE}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return json.dumps({"cniVersion": "1.0.0", "name": "lab", "plugins": [bridge]})


class Containerd:
    """The container runtime of one node."""

    def __init__(self, plane: NodePlane, say: Say) -> None:
        self._plane = plane
        self._programs = build(say, CONTAINERD)
        folder = plane.layout.folder / "containerd"
        cni = folder / "cni"
        cni.mkdir(parents=True)
        (cni / "lab.conflist").write_text(cni_configuration())
        file = folder / "config.toml"
        file.write_text(configuration(cni, build(say, NVIDIA_RUNTIME) / "nvidia-container-runtime"))
        path = f"PATH={self._programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self.process = Component(
            "containerd",
            ["/usr/bin/env", path, str(self._programs / "containerd"), f"--config={file}"],
            plane.logs / "containerd.log",
            plane.supervisor,
        )

    def start(self) -> None:
        """Start it; returns when it answers. Raises ControlPlaneError."""
        self.process.start()
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.ctr("version")
            except ControlPlaneError as error:
                if time.monotonic() > deadline or not self.process.running:
                    words = self.process.last_words()
                    raise ControlPlaneError(
                        f"containerd does not answer: {error}\n{words}"
                    ) from None
                time.sleep(0.1)
            else:
                return

    def ctr(self, *arguments: str, timeout: float = 300.0) -> str:
        """Run containerd's own client in Kubernetes' namespace. Raises ControlPlaneError."""
        client = (self._programs / "ctr", "--namespace=k8s.io")
        return self._plane.inside(*client, *arguments, timeout=timeout)

    def load(self, archive: Path) -> None:
        """Import the images of an archive in Docker's format."""
        self.ctr("images", "import", "--local", str(archive))
