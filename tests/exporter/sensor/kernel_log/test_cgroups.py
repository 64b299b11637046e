"""Which pod and container a process belongs to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.sensor.kernel_log import cgroups
from exporter.sensor.kernel_log.cgroups import Cgroups, Placement, placement

UID = "3f5e1a2b-4c6d-7e8f-9a0b-1c2d3e4f5a6b"
SLICE_UID = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
ID = "7f7ccf05e97be2bf8fc03b91a9cca11c5b6d31149d60d11e67b7df4bf127bb52"
OTHER = "1207db63eaeb133a85d2b614d12d95d4dff3f29af60d7a7b3c7d39abdf4bd119"
SYSTEMD = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE_UID}.slice"

PATHS = [
    ("containerd, systemd", f"0::{SYSTEMD}/cri-containerd-{ID}.scope", UID, ID),
    (
        "CRI-O, guaranteed, with a group inside",
        f"0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice/crio-{ID}.scope/container",
        UID,
        ID,
    ),
    ("docker, systemd", f"0::{SYSTEMD}/docker-{ID}.scope", UID, ID),
    ("cgroupfs", f"0::/kubepods/besteffort/pod{UID}/{ID}", UID, ID),
    ("cgroupfs, guaranteed", f"0::/kubepods/pod{UID}/{ID}", UID, ID),
    (
        "version 1",
        f"12:pids:/kubepods/burstable/pod{UID}/{ID}\n11:memory:/kubepods/burstable/pod{UID}/{ID}\n"
        f"1:name=systemd:/kubepods/burstable/pod{UID}/{ID}\n0::/",
        UID,
        ID,
    ),
    ("version 1, one controller only", f"2:cpu:/\n1:name=systemd:/kubepods/pod{UID}/{ID}", UID, ID),
    ("with a colon in the name", f"1:name=systemd:/a:b/kubepods/pod{UID}/{ID}", UID, ID),
    (
        "kubelet below a root of its own",
        f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SLICE_UID}.slice/"
        f"cri-containerd-{ID}.scope",
        UID,
        ID,
    ),
    (
        "containerd told of the other driver",
        f"0::/system.slice/containerd.service/kubepods-besteffort-pod{SLICE_UID}.slice:"
        f"cri-containerd:{ID}",
        UID,
        ID,
    ),
    (
        "a node in a container",
        f"0::/docker/{OTHER}/kubelet.slice/kubelet-kubepods.slice/"
        f"kubelet-kubepods-pod{SLICE_UID}.slice/cri-containerd-{ID}.scope",
        UID,
        ID,
    ),
    ("docker in a pod", f"0::/kubepods/pod{UID}/{ID}/docker/{OTHER}", UID, ID),
    (
        "a cluster in a pod",
        f"0::/kubepods/pod{UID}/{ID}/kubepods/pod{OTHER[:8]}-1111-2222-3333-444444444444/{OTHER}",
        UID,
        ID,
    ),
    ("seen from a group namespace", f"0::/../../kubepods-pod{SLICE_UID}.slice/{ID}", UID, ID),
    ("a pod from a file", f"0::/kubepods/burstable/pod{STATIC}/{ID}", STATIC, ID),
    ("a pod's own group", f"0::{SYSTEMD}", UID, ""),
    ("the monitor beside a container", f"0::{SYSTEMD}/crio-conmon-{ID}.scope", UID, ""),
    ("a plain container", f"0::/system.slice/docker-{ID}.scope", "", ""),
    ("a service", "0::/system.slice/sshd.service", "", ""),
    ("podman's pod", f"0::/machine.slice/libpod_pod_{ID}.slice/libpod-{ID}.scope", "", ""),
    ("a name that only begins so", f"0::/kubepods/pod{UID}0/{ID}", "", ""),
    ("nothing", "", "", ""),
]


@pytest.mark.parametrize(
    ("text", "uid", "container"), [case[1:] for case in PATHS], ids=[case[0] for case in PATHS]
)
def test_every_runtime_and_driver_is_understood(text: str, uid: str, container: str) -> None:
    assert placement(text) == Placement(uid, container)


@given(st.text(), st.binary())
def test_no_text_raises(text: str, stat: bytes) -> None:
    placement(text)
    placement(f"0::/kubepods/pod{text}/{UID}")
    cgroups.start_time(stat)
    cgroups.start_time(b"7 (a) b) S " + stat)


class Proc:
    """A /proc of our own."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, pid: int, started: int, path: str, name: str = "train") -> None:
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        between = " ".join(["0"] * 18)
        (folder / "stat").write_text(f"{pid} ({name}) S {between} {started} 1 2 3\n")
        (folder / "cgroup").write_text(f"0::{path}\n")

    def end(self, pid: int) -> None:
        for name in ("stat", "cgroup"):
            (self.root / str(pid) / name).unlink()
        (self.root / str(pid)).rmdir()


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_a_process_is_placed_and_one_that_is_not_there_is_left_out(proc: Proc) -> None:
    proc.run(7, 100, f"/kubepods/pod{UID}/{ID}", name="a) S (b")
    proc.run(8, 100, "/system.slice/x.service")
    assert Cgroups(proc.root).placements([7, 8, 9]) == {7: Placement(UID, ID), 8: Placement()}


def test_a_pid_that_is_used_again_is_looked_at_again(proc: Proc) -> None:
    reader = Cgroups(proc.root)
    proc.run(7, 100, f"/kubepods/pod{UID}/{ID}")
    reader.placements([7])
    proc.run(7, 100, "/kept because the process is the same one")
    assert reader.placements([7]) == {7: Placement(UID, ID)}
    proc.run(7, 200, f"/kubepods/pod{STATIC}/{OTHER}", name="a) S (b")
    assert reader.placements([7]) == {7: Placement(STATIC, OTHER)}
    proc.run(7, 300, "/another", name="a) S (b")
    assert reader.placements([7]) == {7: Placement()}


def test_a_process_that_ended_is_forgotten(proc: Proc) -> None:
    reader = Cgroups(proc.root)
    proc.run(7, 100, f"/kubepods/pod{UID}/{ID}")
    reader.placements([7])
    reader.placements([])
    proc.run(7, 100, "/another")
    assert reader.placements([7]) == {7: Placement()}
    proc.end(7)
    assert reader.placements([7]) == {}


def test_a_stat_that_makes_no_sense_places_nothing(proc: Proc) -> None:
    proc.run(7, 100, f"/kubepods/pod{UID}/{ID}")
    (proc.root / "7" / "stat").write_bytes(b"7 (train) S 1 2")
    assert Cgroups(proc.root).placements([7]) == {}


def test_not_more_processes_are_looked_at_than_the_limit(proc: Proc) -> None:
    proc.run(1, 100, f"/kubepods/pod{UID}/{ID}")
    pids = [*range(2, cgroups.MOST_PROCESSES + 2), 1]
    assert Cgroups(proc.root).placements(pids) == {}
    assert Cgroups(proc.root).placements(pids[1:]) == {1: Placement(UID, ID)}


def test_the_processes_of_this_machine_are_read() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        reader = Cgroups(Path("/proc"))
        assert reader.placements([os.getpid(), child.pid]).keys() == {os.getpid(), child.pid}
        child.kill()
        child.wait()
        assert reader.placements([child.pid]) == {}
