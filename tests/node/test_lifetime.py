"""The end of a node: whoever is killed, nothing of it is left on the machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cluster import await_true
from tests.lab.node import groups

ROOT = Path(__file__).parents[2]
SYSCTLS = tuple(
    Path("/proc/sys") / name
    for name in ("kernel/hostname", "kernel/panic", "net/ipv4/ip_forward", "vm/overcommit_memory")
)


def machine() -> dict[str, object]:
    """Return what of the machine a node might have changed."""
    interfaces = sorted(path.name for path in Path("/sys/class/net").iterdir())
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    folders = [path for path in ("/etc/cdi", "/var/lib/kubelet") if Path(path).exists()]
    values = [file.read_text() for file in SYSCTLS]
    return {"network": interfaces, "mounts": mounts, "folders": folders, "values": values}


@pytest.fixture
def owned(control_plane_built: None) -> Iterator[tuple["subprocess.Popen[str]", Path, int]]:
    """A process that owns a node, the node's folder, and the node's first process."""
    script = ROOT / "tests" / "lab" / "node" / "owner.py"
    owner = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert owner.stdout is not None
        folder, first = owner.stdout.readline().split()
        yield owner, Path(folder), int(first)
    finally:
        owner.kill()
        owner.wait()
        if owner.stdout is not None:
            owner.stdout.close()


def group_names() -> set[str]:
    return {
        group.name
        for hierarchy in groups.hierarchies()
        for group in hierarchy.own.glob(f"{groups.PREFIX}*")
    }


def holder_of(first: int) -> int:
    """Return the process that holds a node: the parent of `unshare`."""
    return _parent(_parent(first))


def _parent(number: int) -> int:
    fields = Path(f"/proc/{number}/status").read_text().split("PPid:")[1].split()
    return int(fields[0])


def test_a_killed_owner_leaves_no_process_no_group_and_no_folder(
    owned: tuple["subprocess.Popen[str]", Path, int],
) -> None:
    owner, folder, first = owned
    group = f"{groups.PREFIX}{holder_of(first)}"
    before = machine()
    assert group in group_names()

    owner.send_signal(signal.SIGKILL)

    await_true("its processes are gone", lambda: not Path(f"/proc/{first}").exists())
    await_true("its groups are gone", lambda: group not in group_names())
    await_true("its folder is gone", lambda: not folder.exists())
    assert machine() == before


def test_a_killed_holder_ends_all_that_it_holds(
    owned: tuple["subprocess.Popen[str]", Path, int],
) -> None:
    _, folder, first = owned
    holder = holder_of(first)
    group = f"{groups.PREFIX}{holder}"

    os.kill(holder, signal.SIGKILL)

    await_true("its processes are gone", lambda: not Path(f"/proc/{first}").exists())
    assert group in group_names(), "the next holder removes it"
    groups.remove_left_over()
    assert group not in group_names()
    assert folder.exists()
    subprocess.run(["rm", "-r", folder], check=True)
