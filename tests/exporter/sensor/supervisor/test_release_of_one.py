"""What the release file names is let go of, nothing else is, and it is said no sooner."""

import os
from pathlib import Path, PosixPath
from typing import Any

import pytest

from benchmarks.processes import descendants
from exporter.sensor.nvml.vendor import NvmlVendor, released
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
    """A file that is written just after it was found to be empty."""

    def read_text(self, *how: Any, **more: Any) -> str:
        found = super().read_text(*how, **more)
        if not found:
            self.write_text("GPU-1\n", encoding="utf-8")
        return found


def test_a_file_that_was_made_and_not_written_yet_names_what_it_is_made_for(tmp_path: Path) -> None:
    file = BeingWritten(tmp_path / "now")
    file.touch()
    assert released(file) == ("GPU-1",)


def test_a_file_that_stays_empty_lets_go_of_all_and_one_that_is_not_there_of_none(
    tmp_path: Path,
) -> None:
    file = tmp_path / "now"
    assert released(file) is None
    file.touch()
    assert released(file) == ()
