"""Where libnvidia-ml.so.1 is searched: folders of the node, in order, whatever else is in them."""

from pathlib import Path

import pytest

from exporter.model.readings import NvmlReading
from exporter.sensor.nvml.preload import SONAME
from exporter.sensor.nvml.vendor import NvmlVendor
from exporter.sensor.supervisor.child import VendorChild, VendorState
from exporter.settings import Settings
from simulator.node import SimulatedNode
from tests.lab.cluster import await_true


def opened(node: SimulatedNode, *folders: Path) -> VendorState[NvmlReading]:
    """Return the first state of an NVML child that searches in these folders."""
    states: list[VendorState[NvmlReading]] = []
    searched = ",".join(map(str, folders))
    release = node.root / "release"
    settings = Settings(node_name="node-a", nvml_library_dir=searched, release_file=release)
    vendor = NvmlVendor(settings, lambda: ())
    child = VendorChild[NvmlReading](vendor, settings, states.append, lambda _: None)
    child.start()
    try:
        await_true("a state", lambda: any(one.source.reason != "Starting" for one in states))
    finally:
        child.stop()
    return next(one for one in states if one.source.reason != "Starting")


@pytest.fixture(autouse=True)
def scenario(node: SimulatedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the simulated library reads; unlike elsewhere, the loader does not know its folder."""
    monkeypatch.setenv("DRAGUARD_SIM_SCENARIO", node.environment()["DRAGUARD_SIM_SCENARIO"])
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A system folder of another node: a C library of its own, a driver of another machine."""
    folder = tmp_path / "usr" / "lib64"
    folder.mkdir(parents=True)
    for name in ("libc.so.6", "libm.so.6", "libpthread.so.0", SONAME):
        (folder / name).write_bytes(b"\x7fELF of another machine")
    return folder


def test_the_first_folder_that_has_a_library_for_this_machine_is_used(
    node: SimulatedNode, foreign: Path, tmp_path: Path
) -> None:
    state = opened(node, tmp_path / "not-there", foreign, node.library_dir)

    assert state.source.message == ""
    assert state.reading is not None
    assert state.reading.gpus


def test_a_c_library_beside_the_drivers_does_not_end_the_process(
    node: SimulatedNode, foreign: Path
) -> None:
    """As in /usr/lib64 of the node, where it is of another version than the image's."""
    (foreign / SONAME).unlink()
    (foreign / SONAME).symlink_to((node.library_dir / SONAME).resolve())

    assert opened(node, foreign).reading is not None


def test_without_one_the_message_names_each_folder(node: SimulatedNode, tmp_path: Path) -> None:
    state = opened(node, tmp_path / "a", tmp_path / "b")

    assert state.source.reason == "LibraryNotFound"
    assert f"is in none of {tmp_path}/a, {tmp_path}/b" in state.source.message


def test_a_library_that_cannot_be_loaded_is_named(node: SimulatedNode, foreign: Path) -> None:
    state = opened(node, foreign)

    assert state.source.reason == "LibraryNotFound"
    assert f"{foreign}/{SONAME}" in state.source.message
