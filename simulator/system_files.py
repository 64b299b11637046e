"""What the kernel shows of a simulated node's GPUs and of the processes on them.

<root>/pci/<dddd:bb:dd.0>/   like /sys/bus/pci/devices: vendor, class, device, driver, config
<root>/proc/<pid>/           like /proc: cgroup, stat

`sync` makes both folders say what the scenario says.
"""

import re
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path

from simulator.gpu import Failure, Gpu, Process, Scenario

_PCI_NAME = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0")
_LOST = Failure("lost")
"""A GPU that fell off the bus: it is listed on, and its config space reads ones."""
_3D_CONTROLLER = "0x030200"


def sync(root: Path, scenario: Scenario) -> None:
    """Write both folders anew where they differ; what is not there any more goes."""
    pci = {
        gpu.pci.lower(): _pci_files(gpu) for gpu in scenario.gpus if gpu.failure.kind != "removed"
    }
    _sync(root / "pci", pci, _PCI_NAME)
    for gpu in scenario.gpus:
        link = root / "pci" / gpu.pci.lower() / "driver"
        if gpu.failure.kind == "unbound":
            link.unlink(missing_ok=True)
        elif gpu.failure.kind != "removed" and not link.is_symlink():
            link.symlink_to("../../drivers/nvidia")
    processes = [process for gpu in scenario.gpus for process in gpu.processes]
    proc = {str(process.pid): _process_files(process) for process in processes}
    _sync(root / "proc", proc, re.compile(r"\d+"))


def _pci_files(gpu: Gpu) -> dict[str, bytes]:
    # NVML gives vendor and device in one number, the vendor below.
    identity = gpu.product.pci_device_id
    ids = b"\xff" * 4 if gpu.failure == _LOST else identity.to_bytes(4, "little")
    return {
        "vendor": f"0x{identity & 0xFFFF:04x}\n".encode(),
        "device": f"0x{identity >> 16:04x}\n".encode(),
        "class": f"{_3D_CONTROLLER}\n".encode(),
        "config": ids,
    }


def _process_files(process: Process) -> dict[str, bytes]:
    # The start time follows from the pid and its pod: a pid used again is another process.
    started = 1000 + zlib.crc32(f"{process.pid}/{process.pod}/{process.container}".encode())
    before = "S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0"
    stat = f"{process.pid} (cuda) {before} {started} 0 0\n"
    return {"cgroup": f"0::{cgroup(process)}\n".encode(), "stat": stat.encode()}


def cgroup(process: Process) -> str:
    """Return the path of a process's control group (v2, systemd, containerd)."""
    if not process.pod:
        return "/system.slice/simulated.service"
    name = f"kubepods-burstable-pod{process.pod.replace('-', '_')}.slice"
    container = f"/cri-containerd-{process.container}.scope" if process.container else ""
    return f"/kubepods.slice/kubepods-burstable.slice/{name}{container}"


def _sync(folder: Path, desired: Mapping[str, Mapping[str, bytes]], ours: re.Pattern[str]) -> None:
    folder.mkdir(exist_ok=True)
    for there in folder.iterdir():
        if ours.fullmatch(there.name) and there.name not in desired:
            shutil.rmtree(there)
    for name, files in desired.items():
        (folder / name).mkdir(exist_ok=True)
        for file, content in files.items():
            place = folder / name / file
            if place.exists() and place.read_bytes() == content:
                continue
            fresh = place.with_name(f".{file}")
            fresh.write_bytes(content)
            fresh.replace(place)
