"""Process 1 of a node, in new namespaces.

`python -m tests.lab.node.inside FOLDER FD NAME COMMAND...`

It mounts what a kubelet and a container runtime need, sets up the network, starts what stands for
the kernel's threads, and then COMMAND. Until that ends it reaps; its end kills all that is left.
All mounts are of the private mount namespace: on the machine nothing changes.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.node import groups, network

OVERLAID = ("/etc", "/var/lib", "/var/log", "/opt")
"""Folders in which the node makes its own: they lie in layers of the lab's folder."""
KEPT = ("/var/lib/kubelet", "/var/lib/containerd")
"""Folders that need a file system which is no overlay."""
SYSCTLS: Mapping[str, str] = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What the kubelet would set for the whole machine: it reads that it is so already."""


def main(folder: Path, listening: int, name: str, command: Sequence[str]) -> int:
    """Set up the node and run the command; returns its exit status."""
    # The first: it must be process 2.
    _start_kernel_thread(folder)
    _call("hostname", name)
    _mount(folder / "mounts")
    network.set_up()
    port = str(network.SERVICE_PORT)
    forward = [sys.executable, "-m", "tests.lab.node.forward", str(listening), port]
    subprocess.Popen(forward, pass_fds=(listening,), stdin=subprocess.DEVNULL, stdout=sys.stderr)
    os.close(listening)
    main_process = os.posix_spawn(command[0], list(command), os.environ)
    while True:
        pid, status = os.wait()
        if pid == main_process:
            return os.waitstatus_to_exitcode(status) & 0xFF


def _mount(folder: Path) -> None:
    # Read while the machine's own are mounted; joined hierarchies keep their joined names.
    found = groups.hierarchies()
    _call("mount", "-t", "proc", "proc", "/proc")
    _call("mount", "-t", "sysfs", "sysfs", "/sys")
    _call("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/sys/fs/cgroup")
    for hierarchy in found:
        place = Path("/sys/fs/cgroup") / hierarchy.folder
        place.mkdir()
        _call("mount", "-t", "cgroup", "-o", hierarchy.options, "cgroup", str(place))
    _call("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    Path("/run/lock").mkdir()
    for path in OVERLAID:
        upper, work = (folder / f"{kind}{path.replace('/', '-')}" for kind in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir()
        layers = f"lowerdir={path},upperdir={upper},workdir={work}"
        _call("mount", "-t", "overlay", "-o", layers, "overlay", path)
    for path in KEPT:
        source = folder / Path(path).name
        source.mkdir()
        Path(path).mkdir(exist_ok=True)
        _call("mount", "--bind", str(source), path)
    for name, value in SYSCTLS.items():
        file = folder / name.replace("/", ".")
        file.write_text(f"{value}\n")
        _call("mount", "--bind", str(file), f"/proc/sys/{name}")
    # Only now: mounts below the kept folders would appear twice otherwise.
    _call("mount", "--make-rshared", "/")


def _start_kernel_thread(folder: Path) -> None:
    """Start a sleep named `kthreadd`: whoever sees one takes this for the machine's process ids."""
    link = folder / "kthreadd"
    link.symlink_to("/usr/bin/sleep")
    subprocess.Popen([link, "infinity"], stdin=subprocess.DEVNULL)


def _call(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr, timeout=60)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
