"""What the kernel shows of a simulated node's GPUs and of the processes on them.

<root>/devices/<complex>/<dddd:bb:dd.0>/   like /sys/devices: vendor, class, device, driver, config
<root>/pci/<dddd:bb:dd.0>                  like /sys/bus/pci/devices: a link to that
<root>/proc/<pid>/                         like /proc: cgroup, stat

`sync` makes the folders say what the scenario says.
"""

import re
import shutil
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path

from simulator.gpu import Failure, Gpu, Process, Scenario

_PCI_NAME = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0")
_PROC_NAME = re.compile(r"\d+")
_LOST = Failure("lost")
"""A GPU that fell off the bus: it is listed on, and its config space reads ones."""
_3D_CONTROLLER = "0x030200"


def sync(root: Path, scenario: Scenario) -> None:
    """Write the folders anew where they differ; what is not there any more goes."""
    there = {gpu.pci.lower(): gpu for gpu in scenario.gpus if gpu.failure.kind != "removed"}
    for link in _others(root / "pci", _PCI_NAME, there):
        gone = link.resolve()
        link.unlink()
        shutil.rmtree(gone)
    for address, gpu in there.items():
        complex_ = root / "devices" / gpu.pcie_root
        complex_.mkdir(parents=True, exist_ok=True)
        _write(complex_ / address, _pci_files(gpu))
        _link(root / "pci" / address, f"../devices/{gpu.pcie_root}/{address}")
        driver = complex_ / address / "driver"
        if gpu.failure.kind == "unbound":
            driver.unlink(missing_ok=True)
        else:
            _link(driver, "../../../bus/pci/drivers/nvidia")
    processes = {str(process.pid): process for gpu in scenario.gpus for process in gpu.processes}
    for gone in _others(root / "proc", _PROC_NAME, processes):
        shutil.rmtree(gone)
    for number, process in processes.items():
        _write(root / "proc" / number, _process_files(process))


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


def _others(folder: Path, ours: re.Pattern[str], desired: Collection[str]) -> list[Path]:
    """Return what is there of ours beside the desired; the folder is made first."""
    folder.mkdir(exist_ok=True)
    return [
        found
        for found in folder.iterdir()
        if ours.fullmatch(found.name) and found.name not in desired
    ]


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(exist_ok=True)
    for file, content in files.items():
        place = folder / file
        if place.exists() and place.read_bytes() == content:
            continue
        fresh = place.with_name(f".{file}")
        fresh.write_bytes(content)
        fresh.replace(place)


def _link(place: Path, target: str) -> None:
    if not place.is_symlink():
        place.symlink_to(target)
