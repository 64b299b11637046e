"""What the release file names is let go of, nothing else is, and it is said no sooner."""

import os
from collections.abc import Callable
from pathlib import Path, PosixPath

import pytest

from benchmarks.processes import descendants
from exporter.sensor.nvml.vendor import NvmlVendor
from exporter.sensor.supervisor.release_file import ReleaseFile
from simulator.node import SimulatedNode
from tests.exporter.running import Exporter, wait_for
from tests.exporter.sensor.supervisor.supervision import State, supervised


def test_a_file_that_is_empty_while_it_is_written_does_not_let_go_of_the_node(
    node: SimulatedNode,
) -> None:
    file = node.root / "release" / "now"
    file.parent.mkdir()
    with Exporter(node, "run", "--no-report", "--interval=1", f"--release-file={file}") as exporter:
        exporter.wait_shows('draguard_source_up{source="nvml"} 1')
        for _ in range(5):
            # Made empty and then written, as by `echo UUID > FILE`.
            file.write_text(f"{node.gpu(0).uuid}\n", encoding="utf-8")
            exporter.wait_shows('presence="Unknown",reason="Released"')
            file.unlink()
            exporter.wait_shows(f'draguard_gpu_up{{UUID="{node.gpu(0).uuid}"')
        assert "names no GPU" not in exporter.logged()


def test_all_gpus_are_called_released_once_no_process_holds_them(
    node: SimulatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding: list[str] = []

    def reported(state: State) -> None:
        if state.source.reason == "Released":
            lines = descendants(os.getpid()).values()
            holding.extend(line for line in lines if "exporter.sensor.nvml.child" in line)

    _, child, states = supervised(node, monkeypatch, NvmlVendor, 3600.0, reported=reported)
    child.start()
    try:
        wait_for(lambda: [candidate for candidate in states if candidate.reading], what="a reading")
        (node.root / "release").touch()
        wait_for(lambda: states[-1].source.reason == "Released", what="the release")
    finally:
        child.stop()
    assert not holding, "who resets the GPUs now finds them held"


class BeingWritten(PosixPath):
    """A file that is written just after it was looked at for the first time."""

    looks = 0

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        BeingWritten.looks += 1
        if BeingWritten.looks > 1:
            self.write_text("GPU-1\n", encoding="utf-8")
        return super().stat(follow_symlinks=follow_symlinks)


def test_a_file_that_was_made_and_not_written_yet_names_what_it_is_made_for(tmp_path: Path) -> None:
    file = BeingWritten(tmp_path / "now")
    file.touch()
    BeingWritten.looks = 0
    assert ReleaseFile(file).named() == ("GPU-1",)


def test_a_file_that_stays_empty_lets_go_of_all_and_one_that_is_not_there_of_none(
    tmp_path: Path,
) -> None:
    file = tmp_path / "now"
    release = ReleaseFile(file)
    assert release.named() is None
    assert release.trouble == ""
    file.touch()
    assert release.named() == ()


def test_a_file_that_is_too_long_lets_go_of_none(tmp_path: Path) -> None:
    """Its beginning may be empty."""
    file = tmp_path / "now"
    file.write_text(" " * (64 << 10) + "GPU-1", encoding="utf-8")
    release = ReleaseFile(file)
    assert release.named() is None
    assert "more than" in release.trouble


def put_fifo(file: Path) -> None:
    os.mkfifo(file)


def put_endless(file: Path) -> None:
    file.symlink_to("/dev/zero")


@pytest.mark.parametrize("put", [put_fifo, put_endless])
def test_what_anybody_puts_in_the_place_of_the_file_stops_no_reading_and_is_named(
    node: SimulatedNode, put: Callable[[Path], None]
) -> None:
    file = node.root / "release" / "now"
    file.parent.mkdir()
    with Exporter(node, "run", "--no-report", f"--release-file={file}") as exporter:
        exporter.wait_shows('draguard_source_up{source="nvml"} 1')
        put(file)
        exporter.wait_shows('draguard_source_up{source="nvml",reason="ReleaseFileUnreadable"} 1')
        node.set_value(0, "temperature_c", 71)
        wait_for(
            lambda: 71.0 in exporter.series("DCGM_FI_DEV_GPU_TEMP").values(), what="a new reading"
        )
        assert "cannot be read" in exporter.get("/debug")[1]
        file.unlink()
        exporter.wait_shows('draguard_source_up{source="nvml"} 1')
