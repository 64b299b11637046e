"""Holds one node from outside of its namespaces.

`python -m tests.lab.node.holder FOLDER FD NAME COMMAND...`

It makes the node's cgroups, starts `inside` in new namespaces (mount, network, process ids, host
name, IPC, cgroup) and waits. When that ends, for whatever reason, it removes the groups and FOLDER.
A SIGKILL to `unshare` ends everything inside. So does one to the holder: then the next holder
removes the groups, and FOLDER stays. Nothing else of the machine is changed.

FD is a listening socket of the machine's network, which `inside` forwards to the API server.
Process id 1 of the namespace, as the machine numbers it, is in FOLDER/node.pid.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.lab.node import groups

UNSHARE = (
    *("unshare", "--cgroup", "--mount", "--net", "--uts", "--ipc", "--pid"),
    *("--fork", "--kill-child", "--propagation", "private"),
)
PID_FILE = "node.pid"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def command(folder: Path, listening: int, name: str) -> list[str]:
    """Return the command of a holder of the node `name`; the command to run inside follows."""
    return [sys.executable, "-m", "tests.lab.node.holder", str(folder), str(listening), name]


def hold(folder: Path, listening: int, name: str, inner: Sequence[str]) -> int:
    """Run `inner` in a node of its own until it ends; returns its exit status."""
    groups.remove_left_over()
    made = groups.make(f"{groups.PREFIX}{os.getpid()}")

    def enter() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        groups.join(made)

    inside = [sys.executable, "-m", "tests.lab.node.inside", str(folder), str(listening), name]
    process = subprocess.Popen(
        [*UNSHARE, *inside, *inner],
        pass_fds=(listening,),
        preexec_fn=enter,  # noqa: PLW1509 - this process has one thread
    )
    try:
        _note_first_process(process, folder / PID_FILE)
        return process.wait()
    finally:
        process.kill()
        process.wait()
        groups.remove(made)
        shutil.rmtree(folder, ignore_errors=True)


def _note_first_process(unshare: "subprocess.Popen[bytes]", file: Path) -> None:
    """Write the id of the child that is process 1 of the namespace."""
    children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children")
    while unshare.poll() is None:
        if found := children.read_text().split():
            partial = file.with_suffix(".new")
            partial.write_text(found[0])
            partial.rename(file)
            return
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(hold(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
