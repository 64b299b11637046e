"""Whether the processes that the driver tells us of are those of the node.

NVIDIA's driver returns each process by its pid in the caller's pid namespace, leaves out those
that have none there, and returns success (gpuGetProcWithObject in its open kernel module). From
a container's own namespace a GPU in full use has an empty list, which must not be taken for idle.
The /proc of another namespace does not help: the caller's namespace counts.
"""

import os
from pathlib import Path

_KTHREADD = "2"
"""The parent of the kernel's own threads, which are visible in the host's namespace alone."""


def lacking(proc: Path) -> str:
    """Say what keeps this process from seeing the node's processes, "" when nothing does."""
    name = proc / _KTHREADD / "comm"
    try:
        if name.read_text(encoding="utf-8", errors="replace") != "kthreadd\n":
            return f"{name} is not a kernel thread, so {proc} is not that of the host"
    except OSError:
        return f"{proc} does not show the host's processes"
    known_as = _known_as(proc)
    if known_as not in (None, str(os.getpid())):
        return f"{proc} is of another pid namespace than this process, and the driver looks at ours"
    return ""


def certainly_apart(proc: Path) -> str:
    """Return the same for a /proc of the kernel; "" also for a folder that simulates one."""
    return lacking(proc) if _known_as(proc) is not None else ""


def _known_as(proc: Path) -> str | None:
    """Return this process's number in the namespace that a procfs was mounted in."""
    try:
        return (proc / "self").readlink().name
    except OSError:
        return None
