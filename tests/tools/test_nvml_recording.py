"""The recorder of a GPU's answers, run on the simulator's library."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from simulator.node import SimulatedNode
from tests.simulator.nvml_readings import READINGS
from tools import nvml_recording

ROOT = Path(__file__).parents[2]
RECORDINGS = sorted((ROOT / "tests" / "simulator" / "recordings").glob("*.json"))
CLUSTER = "0f3f3b54-93a2-4c63-9c38-4b1a0a5b8f11"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedNode]:
    root = tmp_path_factory.mktemp("node")
    with SimulatedNode(root / "n", "node-1").create("2xH100") as node:
        with node.scenario.edit() as scenario:
            scenario.gpus[1].cluster_uuid = CLUSTER
        yield node


def recorded(node: SimulatedNode, before: str = "") -> tuple[str, dict[str, Any]]:
    """Return what is recorded of GPU 1, as text and read, after some Python ran in the process."""
    file = node.root / "recording.json"
    program = (
        f"import pynvml, sys; {before}\n"
        "from tools import nvml_recording\n"
        "sys.exit(nvml_recording.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "--write", file, "--gpu", "1"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **node.environment()}, check=True)
    text = file.read_text(encoding="utf-8")
    return text, json.loads(text)


def test_a_recording_says_what_it_is_of_and_names_no_board(node: SimulatedNode) -> None:
    text, found = recorded(node)
    gpu = node.gpu(1)
    assert found["about"]["product"] == "NVIDIA H100 80GB HBM3"
    assert found["about"]["driver"] == node.scenario.load().driver
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", found["about"]["date"])
    for secret in (gpu.uuid, gpu.serial, CLUSTER):
        assert secret not in text
    assert found["calls"]["nvmlDeviceGetUUID(gpu)"][1].startswith("GPU-00000000-")
    assert found["calls"]["nvmlDeviceGetGpuFabricInfoV(gpu)"][1]["clusterUuid"] == [*range(1, 17)]
    assert found["calls"]["nvmlDeviceGetMinorNumber(gpu)"][:2] == [0, 1]


def test_a_call_that_nvidia_ml_py_lacks_is_an_answer(node: SimulatedNode) -> None:
    names = ("nvmlDeviceGetSerial", "nvmlDeviceGetGpuFabricInfoV", "nvmlEventSetCreate")
    lacking = f"del {', '.join(f'pynvml.{name}' for name in names)}"
    _, found = recorded(node, lacking)
    assert found["calls"]["nvmlDeviceGetSerial(gpu)"][0] == nvml_recording.MISSING
    assert found["calls"]["nvmlDeviceGetGpuFabricInfoV(gpu)"][0] == nvml_recording.UNREADABLE
    assert set(found["events"].values()) == {nvml_recording.UNREADABLE}
    assert found["calls"]["nvmlDeviceGetName(gpu)"][0] == 0


def test_a_gpu_without_profiling_has_no_metrics(tmp_path: Path) -> None:
    with SimulatedNode(tmp_path / "n", "node-1").create("2xA100") as node:
        _, found = recorded(node)
    assert found["gpm"] == {}


def test_everything_that_the_simulator_is_read_by_is_recorded() -> None:
    kept = {nvml_recording.key_of(call) for call in nvml_recording.calls()}
    lines = "\n".join(READINGS)
    found = re.findall(r"\b(nvml\w+)\(g\[3\]((?:, (?:\d+|NVML_\w+))*)\)", lines)
    assert len(found) > 50
    for name, arguments in found:
        numbers = [str(getattr(pynvml, word, word)) for word in arguments.split(", ")[1:]]
        assert f"{name}({', '.join(['gpu', *numbers])})" in kept


def test_nothing_but_nvidia_ml_py_and_msgspec_is_needed() -> None:
    program = (
        "import sys, tools.nvml_recording\n"
        "print(*{name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    loaded = {name for name in ran.stdout.split() if not name.startswith("_")}
    ours = {"exporter", "kubeapi", "tools"}
    assert loaded - ours - {"msgspec", "pynvml", "typing_extensions"} == set()


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_kept_recording_is_small_masked_and_one_answer_a_line(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = json.loads(text)
    assert len(text) < 150_000
    assert nvml_recording.as_text(found) == text
    identity = [f"nvmlDeviceGet{name}(gpu)" for name in ("UUID", "Serial", "Pdi")]
    again = nvml_recording.masked(found)
    assert {name: found["calls"][name] for name in identity} == {
        name: again["calls"][name] for name in identity
    }
