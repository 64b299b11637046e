"""The simulator answers as the real GPUs that were recorded: the same codes and the same types."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from simulator.node import SimulatedNode
from simulator.product import SHORT_NAMES

ROOT = Path(__file__).parents[2]
RECORDINGS = Path(__file__).parent / "recordings"
NOT_SUPPORTED = 3
Answers = dict[str, Any]

PLAYED: dict[str, dict[str, int | None]] = {
    # These machines' drivers were loaded with NvLinkDisable=1, and so they have no fabric.
    "h100-80gb-hbm3-r580": {"nvlink_disabled": 1, "fabric_state": 0},
    "h200-r580": {"nvlink_disabled": 1, "fabric_state": 0},
}
"""By recording: where its GPU is not as a scenario's is by itself."""

_UNUSED = {
    "accounting of processes": "AccountingBufferSize AccountingMode",
    "an older form of a call that is simulated": (
        "ComputeRunningProcesses_v2 GraphicsRunningProcesses_v2 MPSComputeRunningProcesses_v2"
    ),
    "what the board is and how it is built in": (
        "BoardId BusType C2cModeInfoV C2cModeInfoV1 DefaultEccMode DisplayActive DisplayMode "
        "GspFirmwareMode GspFirmwareVersion IrqNum MultiGpuBoard PcieLinkMaxSpeed PcieSpeed Pdi "
        "PowerManagementMode PowerSource"
    ),
    "fans": "FanSpeedRPM MinMaxFanSpeed NumFans",
    "clocks and states that can be set": (
        "AdaptiveClockInfoStatus CurrentClockFreqs DynamicPstatesInfo GpcClkMinMaxVfOffset "
        "GpcClkVfOffset MemClkMinMaxVfOffset MemClkVfOffset PerformanceModes SupportedMemoryClocks "
        "SupportedPerformanceStates"
    ),
    "encoders": "EncoderStats FBCStats",
    "the board's black box": "BBXTimeData_v1 LastBBXFlushTime",
    "confidential computing": "ConfComputeMemSizeInfo ConfComputeProtectedMemoryUsage",
}
_OTHERS = {
    "draining and streaming": "nvmlDeviceQueryDrainState(gpu) nvmlGpmQueryIfStreamingEnabled(gpu)",
    "confidential computing of the system": (
        "nvmlSystemGetConfComputeCapabilities() nvmlSystemGetConfComputeGpusReadyState() "
        "nvmlSystemGetConfComputeKeyRotationThresholdInfo() nvmlSystemGetConfComputeState()"
    ),
    "what else the system is": (
        "nvmlSystemGetDriverBranch() nvmlSystemGetHicVersion() nvmlSystemGetNvlinkBwMode()"
    ),
}
UNUSED = frozenset(
    (
        *(f"nvmlDeviceGet{name}(gpu)" for names in _UNUSED.values() for name in names.split()),
        *(name for names in _OTHERS.values() for name in names.split()),
    )
)
"""Calls that nothing here makes: the simulator answers NOT_SUPPORTED, whatever a driver has."""
DIFFERENCES: dict[str, str] = {}
"""Any other answer that differs in a recording, and why it may."""


class Played(msgspec.Struct):
    """A recording, and what the simulator answers in its place; both by name of the answer."""

    recorded: Answers
    simulated: Answers

    def differing(self) -> set[str]:
        both = self.recorded.keys() & self.simulated.keys()
        return {name for name in both if self.recorded[name] != self.simulated[name]}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    root = tmp_path_factory.mktemp("played")
    return {path.stem: _play(path, root / path.stem) for path in sorted(RECORDINGS.glob("*.json"))}


def _play(path: Path, root: Path) -> Played:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    about = recorded["about"]
    word = next(word for word, p in SHORT_NAMES.items() if p.name == about["product"])
    with SimulatedNode(root, "node-1").create(f"1x{word}") as node:
        with node.scenario.edit() as scenario:
            scenario.driver, scenario.nvml = about["driver"], about["nvml"]
            scenario.gpus[0].values |= PLAYED.get(path.stem, {})
        written = root / "simulated.json"
        command = [sys.executable, "-m", "tools.nvml_recording", "--write", written]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **node.environment()}, check=True)
    simulated = json.loads(written.read_text(encoding="utf-8"))
    return Played(answers_of(recorded), answers_of(simulated))


def answers_of(recorded: Answers) -> Answers:
    """Return the kind of every answer by its name: a code, or what type of value it has."""
    calls = {name: kind_of(code, value) for name, (code, value, _) in recorded["calls"].items()}
    fields = {
        f"field {number} scope {scope}": code if code else f"type {kind}"
        for number, scope, code, kind, *_ in recorded["fields"]
    }
    metrics = {f"metric {number}": code for number, (code, _) in recorded["gpm"].items()}
    events = {f"events {kinds}": code for kinds, code in recorded["events"].items()}
    return {**calls, **fields, **metrics, **events}


def kind_of(code: int, value: Any) -> Any:
    return code or shape_of(value)


def shape_of(value: Any) -> Any:
    if isinstance(value, dict):
        struct = cast("dict[str, Any]", value)
        return {name: shape_of(part) for name, part in sorted(struct.items())}
    if isinstance(value, list):
        return [shape_of(part) for part in cast("list[Any]", value)]
    return type(value).__name__


def test_an_answer_is_of_the_recorded_kind(played: dict[str, Played]) -> None:
    assert played
    unknown = {
        (recording, name): (found.recorded[name], found.simulated[name])
        for recording, found in played.items()
        for name in sorted(found.differing() - UNUSED - DIFFERENCES.keys())
    }
    assert unknown == {}


def test_a_known_difference_is_one(played: dict[str, Played]) -> None:
    differing = {name for found in played.values() for name in found.differing()}
    assert (UNUSED | DIFFERENCES.keys()) - differing == frozenset()


def test_what_nothing_calls_is_not_supported(played: dict[str, Played]) -> None:
    answers = {found.simulated[name] for found in played.values() for name in UNUSED}
    assert answers == {NOT_SUPPORTED}


def test_most_of_what_was_recorded_is_compared(played: dict[str, Played]) -> None:
    for recording, found in played.items():
        compared = found.recorded.keys() & found.simulated.keys()
        assert len(compared) > 0.9 * len(found.recorded), recording
