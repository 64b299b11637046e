"""The node's own group in each cgroup hierarchy of version 1, below the caller's.

`hierarchies` reads what the machine has, `make` makes the groups, `join` moves this process into
them, `remove` removes them once nothing runs in them. Groups of a holder that was killed are found
by its process id (`remove_left_over`).
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PREFIX = "draguard-node-"
REMOVE_SECONDS = 20.0


class Hierarchy(NamedTuple):
    """One hierarchy: its mount options (`memory`, `cpu,cpuacct`, `none,name=systemd`)."""

    options: str
    mount: Path
    own: Path
    """The group of this process."""

    @property
    def folder(self) -> str:
        """Name of its folder below /sys/fs/cgroup."""
        return self.options.removeprefix("none,name=")


def hierarchies() -> list[Hierarchy]:
    """Return the hierarchies of version 1 that are mounted, from /proc."""
    found: list[Hierarchy] = []
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    places = {
        option: Path(mount)
        for _, mount, kind, options, *_ in mounts
        if kind == "cgroup"
        for option in options.split(",")
    }
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        mount = places.get(controllers.split(",")[0])
        if number != "0" and mount is not None:
            options = f"none,{controllers}" if controllers.startswith("name=") else controllers
            found.append(Hierarchy(options, mount, mount / path.lstrip("/")))
    return found


def make(name: str) -> list[Path]:
    """Make a group of that name in each hierarchy; returns their folders."""
    made: list[Path] = []
    for hierarchy in hierarchies():
        group = hierarchy.own / name
        group.mkdir()
        made.append(group)
        # A new group of this controller has no processor and no memory, and takes no process.
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (group / setting).exists():
                (group / setting).write_text((hierarchy.own / setting).read_text())
        if (children := group / "cgroup.clone_children").exists() and "cpuset" in hierarchy.options:
            children.write_text("1")
    return made


def join(groups: Sequence[Path]) -> None:
    """Move this process into the groups; what it starts is in them, too."""
    for group in groups:
        (group / "cgroup.procs").write_text(str(os.getpid()))


def remove(groups: Sequence[Path]) -> None:
    """Remove the groups and all below them; waits for processes that are just ending."""
    deadline = time.monotonic() + REMOVE_SECONDS
    for group in groups:
        while group.exists():
            for folder, _, _ in os.walk(group, topdown=False):
                _remove_one(Path(folder))
            if not group.exists() or time.monotonic() > deadline:
                break
            time.sleep(0.1)


def remove_left_over() -> None:
    """Remove the groups of holders that do not run any more."""
    for hierarchy in hierarchies():
        for group in hierarchy.own.glob(f"{PREFIX}*"):
            number = group.name.removeprefix(PREFIX)
            if number.isdigit() and not _runs(int(number)):
                remove([group])


def _runs(number: int) -> bool:
    """Whether a process has not ended; one that its parent did not collect yet has."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def _remove_one(group: Path) -> None:
    try:
        group.rmdir()
    except OSError:
        return
