"""UIDs of pods by the kubelet's log folders, and whose shares of a GPU are known by them."""

from pathlib import Path

import pytest

from exporter.agent.join.claims import Known, join
from exporter.agent.join.pod_folders import PodFolders, uids_of
from exporter.model.readings import ContainerDevices, PluginDevice
from exporter.sensor import gpu_processes
from exporter.settings import Settings


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_folder_names_namespace_pod_and_uid() -> None:
    assert uids_of(["team_train-0_0a1b-2c", "kube-system_proxy-node-a_5f2d"]) == {
        ("team", "train-0"): "0a1b-2c",
        ("kube-system", "proxy-node-a"): "5f2d",
    }


@pytest.mark.parametrize("name", ["", "_", "__", "a_b", "a__u", "_b_u", "a_b_", "a_b_c_d", "lost"])
def test_a_folder_of_another_form_names_nobody(name: str) -> None:
    assert uids_of([name]) == {}


def test_a_pod_that_was_made_again_is_not_known_while_its_old_folder_is_there() -> None:
    assert uids_of(["team_train-0_old", "team_train-0_new", "team_b_1"]) == {("team", "b"): "1"}


def test_the_folder_is_read_again_after_a_while(tmp_path: Path) -> None:
    clock = Clock()
    folders = PodFolders(tmp_path, clock)
    (tmp_path / "team_a_1").mkdir()
    assert folders.uids() == {("team", "a"): "1"}
    assert folders.source().up
    (tmp_path / "team_b_2").mkdir()
    assert folders.uids() == {("team", "a"): "1"}
    clock.now = 60.0
    assert folders.uids() == {("team", "a"): "1", ("team", "b"): "2"}


def test_a_folder_that_is_not_there_is_a_state_that_says_what_to_do(tmp_path: Path) -> None:
    clock = Clock()
    folders = PodFolders(tmp_path / "none", clock)
    assert folders.uids() == {}
    assert (folders.source().up, folders.source().reason) == (False, "NoFolder")
    assert "exporter.podShares" in folders.source().message
    (tmp_path / "none").mkdir()
    clock.now = 60.0
    folders.uids()
    assert folders.source().up


def test_a_pod_of_a_device_plugin_has_the_uid_of_its_folder() -> None:
    device = PluginDevice("nvidia.com/gpu", "GPU-1::3")
    container = ContainerDevices("team", "train-0", "main", plugin=(device,))
    known = Known(uids={("team", "train-0"): "uid-of-the-folder"})
    (holder,) = join([container], known=known).owners("GPU-1")
    assert holder.pod_uid == "uid-of-the-folder"
    assert join([container]).owners("GPU-1")[0].pod_uid == ""


def test_who_does_not_look_at_processes_says_so(tmp_path: Path) -> None:
    off = gpu_processes.source(Settings(node_name="node-a", processes=False))
    assert (off.up, off.reason) == (False, "HostPIDOff")
    assert "exporter.podShares" in off.message
    assert gpu_processes.source(Settings(node_name="node-a", proc_dir=tmp_path)).up
