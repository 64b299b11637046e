"""This machine's GPU, and programs that crash on it."""

import subprocess
from pathlib import Path
from typing import Any

import msgspec

from exporter.model.device import normal_bus_id


class RealGpu(msgspec.Struct, frozen=True):
    """The first GPU of this machine, as nvidia-smi names it."""

    uuid: str
    bus_id: str
    name: str
    compute: str
    """Compute capability without the dot."""

    @classmethod
    def first(cls) -> "RealGpu":
        """Return it; fails where there is no GPU or no driver."""
        uuid, bus, name, compute = queried("uuid", "pci.bus_id", "name", "compute_cap")
        return cls(uuid, normal_bus_id(bus) or "", name, compute.replace(".", ""))

    def published(self, node: str) -> dict[str, Any]:
        """Return the ResourceSlice that NVIDIA's driver would publish."""
        attributes = {
            "type": {"string": "gpu"},
            "uuid": {"string": self.uuid},
            "productName": {"string": self.name},
            "resource.kubernetes.io/pciBusID": {"string": self.bus_id},
        }
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"00000-gpu.nvidia.com-{node}-0"},
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0", "attributes": attributes}],
            },
        }


class Crashes:
    """Programs that end by a fault of their own."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self.pid = 0
        """Of the last one."""

    @classmethod
    def built(cls, folder: Path, gpu: RealGpu) -> "Crashes":
        """Compile them; fails where nvcc is missing."""
        program = folder / "crash"
        source = Path(__file__).with_name("crash.cu")
        subprocess.run(["nvcc", f"-arch=sm_{gpu.compute}", "-o", program, source], check=True)
        return cls(program)

    def run(self, how: str, blocks: int = 1) -> None:
        """Let a program crash; returns after its end."""
        with subprocess.Popen([self._program, how, str(blocks)]) as program:
            self.pid = program.pid
            ended = program.wait(60)
        assert ended not in (0, 2, 3), f"{how} did not crash: {ended}"


def queried(*what: str) -> list[str]:
    """Return what nvidia-smi says of the first GPU."""
    query = ["nvidia-smi", f"--query-gpu={','.join(what)}", "--format=csv,noheader,nounits"]
    said = subprocess.run(query, check=True, capture_output=True, text=True, timeout=60)
    return [word.strip() for word in said.stdout.splitlines()[0].split(",")]


def holds_gpu(pid: int) -> list[str]:
    """Return the driver's files that a process has open."""
    folder = Path(f"/proc/{pid}/fd")
    found: list[str] = []
    for link in folder.iterdir() if folder.is_dir() else ():
        try:
            target = str(link.readlink())
        except FileNotFoundError:
            continue
        found += [target] if target.startswith("/dev/nvidia") else []
    return found
