"""What a real node runs, as recipes: kubelet, containerd, drivers of its GPUs, NVIDIA's runtime.

`PROGRAMS` are built from Go modules, once per machine, and kept by content
(`simulator.cluster.build`). What comes as a Debian package is in `packages`.
"""

from pathlib import Path

from simulator.cluster.build import KUBERNETES, STRIPPED, Recipe, kubernetes_flags

CONTAINERD_VERSION = "v2.4.2"
TOOLKIT_VERSION = "v1.20.1"
_GO = Path(__file__).parents[1] / "go"

KUBELET = Recipe(
    name="kubelet",
    title="the kubelet",
    what=f"the kubelet {KUBERNETES} from its Go module",
    sources=_GO / "kubelet",
    packages=("k8s.io/kubernetes/cmd/kubelet",),
    programs=("kubelet",),
    flags=kubernetes_flags(KUBERNETES),
)
CONTAINERD = Recipe(
    name="containerd",
    title="containerd",
    what=f"containerd {CONTAINERD_VERSION}, its shim and ctr from their Go module",
    sources=_GO / "containerd",
    packages=tuple(
        f"github.com/containerd/containerd/v2/cmd/{program}"
        for program in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    programs=("containerd", "containerd-shim-runc-v2", "ctr"),
    flags=(
        "-trimpath",
        "-ldflags",
        f"-s -w -X github.com/containerd/containerd/v2/version.Version={CONTAINERD_VERSION}",
    ),
    # The snapshotter for btrfs would need its header files.
    cgo=False,
)
DRA_DRIVER = Recipe(
    name="dra-driver",
    title="the DRA driver",
    what="a DRA driver on Kubernetes' kubeletplugin helper",
    sources=_GO / "dra-driver",
    programs=("dra-driver",),
    flags=(*STRIPPED, "-ldflags", "-s -w"),
)
DEVICE_PLUGIN = Recipe(
    name="device-plugin",
    title="the device plugin",
    what="a device plugin of the kubelet's v1beta1 API",
    sources=_GO / "device-plugin",
    programs=("device-plugin",),
    flags=(*STRIPPED, "-ldflags", "-s -w"),
)
NVIDIA_RUNTIME = Recipe(
    name="nvidia-runtime",
    title="NVIDIA's container runtime",
    what=f"nvidia-container-runtime {TOOLKIT_VERSION} from its Go module",
    sources=_GO / "nvidia-runtime",
    packages=("github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-container-runtime",),
    programs=("nvidia-container-runtime",),
    flags=("-trimpath", "-ldflags", "-s -w"),
)
PROGRAMS = (KUBELET, CONTAINERD, DRA_DRIVER, DEVICE_PLUGIN, NVIDIA_RUNTIME)
