"""This machine's GPU, and programs that work and crash on it."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
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
        return cls(_compiled("crash", folder, gpu))

    def run(self, how: str, blocks: int = 1) -> None:
        """Let a program crash; returns after its end."""
        with subprocess.Popen([self._program, how, str(blocks)]) as program:
            self.pid = program.pid
            ended = program.wait(60)
        assert ended not in (0, 2, 3), f"{how} did not crash: {ended}"


class Container(msgspec.Struct, frozen=True):
    """A control group as the kubelet makes it with systemd: what a process of a pod is known by."""

    folder: Path

    @classmethod
    def made(cls, pod_uid: str) -> "Container":
        """Make it; fails without cgroup v2 and root."""
        pod = f"kubepods-besteffort-pod{pod_uid.replace('-', '_')}.slice"
        folder = Path("/sys/fs/cgroup") / pod / f"cri-containerd-{'0' * 64}.scope"
        folder.mkdir(parents=True)
        return cls(folder)

    def within(self, command: list[str]) -> list[str]:
        """Return the command that becomes the given one here, as a runtime starts a container."""
        return [
            "sh",
            "-c",
            'echo $$ > "$0" && exec "$@"',
            str(self.folder / "cgroup.procs"),
            *command,
        ]

    def remove(self) -> None:
        self.folder.rmdir()
        self.folder.parent.rmdir()


class Running:
    """A program that works on the GPU."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def rate(self) -> float:
        """Return the bytes per second of the half seconds that are next in line, at their mean."""
        assert self._process.stdout is not None
        found = [float(self._process.stdout.readline()) for _ in range(5)]
        return sum(found) / len(found)


class Work:
    """Programs that copy, hold memory, or keep the GPU busy."""

    def __init__(self, program: Path) -> None:
        self._program = program

    @classmethod
    def built(cls, folder: Path, gpu: RealGpu) -> "Work":
        """Compile them; fails where nvcc is missing."""
        return cls(_compiled("work", folder, gpu))

    @contextmanager
    def running(
        self, how: str, megabytes: int = 1024, container: Container | None = None
    ) -> Generator[Running]:
        """Let a program work until the end of the block."""
        command = [str(self._program), how, str(megabytes)]
        command = container.within(command) if container else command
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n", f"{how} cannot work"
                yield Running(process)
            finally:
                process.kill()


def _compiled(name: str, folder: Path, gpu: RealGpu) -> Path:
    source = Path(__file__).with_name(f"{name}.cu")
    program = folder / name
    subprocess.run(["nvcc", f"-arch=sm_{gpu.compute}", "-o", program, source], check=True)
    return program


def used_memory() -> dict[int, float]:
    """Return what nvidia-smi says of the processes on the GPUs, in MiB by pid."""
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    printed = subprocess.run(query, check=True, capture_output=True, text=True, timeout=60)
    rows = (line.split(",") for line in printed.stdout.splitlines())
    return {int(pid): float(used) for pid, used in rows}


def queried(*what: str) -> list[str]:
    """Return what nvidia-smi says of the first GPU."""
    query = ["nvidia-smi", f"--query-gpu={','.join(what)}", "--format=csv,noheader,nounits"]
    printed = subprocess.run(query, check=True, capture_output=True, text=True, timeout=60)
    return [word.strip() for word in printed.stdout.splitlines()[0].split(",")]


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
