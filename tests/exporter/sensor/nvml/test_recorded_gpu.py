"""The real sampler over what a real GPU answered, compared with what nvidia-smi said of it."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from exporter.model.readings import GpuReading, NvmlReading
from exporter.sensor.nvml import gpm, link_table
from exporter.sensor.nvml.gpu import SampleOptions
from exporter.sensor.nvml.library import NO_GPU, Fabric, FieldAnswer, NvmlError
from exporter.sensor.nvml.sampler import Sampler
from exporter.sensor.nvml.table import TABLE
from tests.exporter.running import ROOT

RECORDINGS = ROOT / "tests" / "simulator" / "recordings"
ALL = frozenset((*TABLE, *link_table.LINK_FIELDS, *link_table.GPU_FIELDS, *gpm.METRICS))


GPU = "gpu"
"""The handle, as the keys of a recording have it."""


class Replayed:
    """A `Caller` that answers as a recorded GPU did; a call that was not recorded is a KeyError."""

    def __init__(self, path: Path) -> None:
        recorded = json.loads(path.read_text(encoding="utf-8"))
        self._calls: dict[str, list[Any]] = recorded["calls"]
        self._fields = {(row[0], row[1]): row[2:5] for row in recorded["fields"]}
        self._gpm = {int(metric): answer for metric, answer in recorded["gpm"].items()}

    def answer(self, name: str, *arguments: Any) -> Any:
        """Return what was recorded of a call about the GPU."""
        return self(0, name, GPU, *arguments)

    def __call__(self, gpu: int, name: str, *arguments: Any) -> Any:
        assert gpu in (NO_GPU, 0)
        if name in _LIBRARY:
            return _LIBRARY[name]
        if name == "nvmlDeviceGetFieldValues":
            return [self._field(key) for key in arguments[1]]
        if name == "nvmlGpmMetricsGet":
            answers = {metric: self._gpm[metric] for metric in arguments[2]}
            numbers = {metric: value for metric, (code, value) in answers.items() if code == 0}
            return {metric: math.nan if n is None else n for metric, n in numbers.items()}
        found = self._recorded(f"{name}({', '.join(map(str, arguments))})", name)
        return _AS_THE_DOOR[name](found) if name in _AS_THE_DOOR else found

    def _recorded(self, key: str, name: str) -> Any:
        code, value, _ = self._calls[key]
        if code:
            raise NvmlError(name, code, "recorded")
        return _as_struct(value)

    def _field(self, key: tuple[int, int]) -> FieldAnswer:
        code, _, value = self._fields[key]
        return FieldAnswer(code, value if code == 0 else None)


def _as_struct(value: Any) -> Any:
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        return SimpleNamespace(**{name: _as_struct(part) for name, part in parts.items()})
    return tuple(map(_as_struct, cast("list[Any]", value))) if isinstance(value, list) else value


def _fabric(found: Any) -> Fabric:
    return Fabric(
        state=found.state,
        status=found.status,
        clique=found.cliqueId,
        cluster_uuid=bytes(found.clusterUuid),
        health_mask=found.healthMask,
        health_summary=found.healthSummary,
    )


_LIBRARY: dict[str, Any] = {
    "nvmlInit": None,
    "nvmlDeviceGetCount": 1,
    "nvmlDeviceGetHandleByIndex": GPU,
    "nvmlGpmSampleAlloc": "sample",
    "nvmlGpmSampleGet": "sample",
    # Nothing ran; the recorded answer is "not found", which the door takes for that.
    "nvmlDeviceGetProcessUtilization": [],
}
_AS_THE_DOOR: dict[str, Callable[[Any], Any]] = {
    "nvmlDeviceGetGpuFabricInfoV": _fabric,
    "nvmlGpmQueryDeviceSupport": lambda found: found.isSupportedDevice,
}
"""What `library` makes of the answers of these calls."""


@pytest.fixture(scope="module", params=("h100-80gb-hbm3-r580", "h200-r580"))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def recorded(name: str) -> Replayed:
    return Replayed(RECORDINGS / f"{name}.json")


@pytest.fixture(scope="module")
def reading(recorded: Replayed) -> NvmlReading:
    """The second pass, which has what happened since the first."""
    sampler = Sampler(recorded)
    sampler.open()
    options = SampleOptions(ALL)
    sampler.sample(frozenset(), options)
    return sampler.sample(frozenset(), options)


@pytest.fixture(scope="module")
def gpu(reading: NvmlReading) -> GpuReading:
    (gpu,) = reading.gpus
    return gpu


_OF_H100: dict[int, Any] = {
    1: "580.159.04",
    50: "NVIDIA H100 80GB HBM3",
    51: "Nvidia",
    56: "2.1",
    57: "00000000:00:06.0",
    58: 0x2330_10DE,
    59: 0x16C1_10DE,
    66: 1,
    67: 0,
    80: "7.16",
    82: "G520.0200.00.05",
    85: "96.00.DA.00.0C",
    90: 131_072,
    92: 1,
    110: 1980,
    111: 2619,
    112: 1,
    113: 1980,
    114: 2619,
    115: 1545,
    160: 700.0,
    161: 200.0,
    162: 700.0,
    163: 700.0,
    164: 700.0,
    170: 0,
    190: 0,
    202: 0,
    235: 5,
    236: 16,
    237: 5,
    238: 16,
    250: 81_559,
    251: 81_079,
    252: 0,
    253: 480,
    300: 1,
    301: 1,
    # Errors: totals, DRAM and SRAM; rows, retirement and repairs.
    **dict.fromkeys((310, 311, 312, 313, 318, 319, 328, 329, 342, 343, 344, 345, 346), 0),
    385: 2560,
    **dict.fromkeys((386, 387, 388, 389, 393, 394, 395, 396, 1507), 0),
    **dict.fromkeys(range(1420, 1425), 0),
    1523: 0,
}
_OF_H200 = _OF_H100 | {
    50: "NVIDIA H200",
    58: 0x2335_10DE,
    59: 0x18BF_10DE,
    82: "G520.0282.02.02",
    85: "96.00.A5.00.1A",
    90: 262_144,
    111: 3201,
    114: 3201,
    250: 143_771,
    251: 143_155,
    253: 615,
    385: 3072,
}
OF_SMI = {"h100-80gb-hbm3-r580": _OF_H100, "h200-r580": _OF_H200}
"""What `nvidia-smi -q` said of a GPU at the time, in DCGM's units, as far as it stays so."""
NEAR = {"h100-80gb-hbm3-r580": (73.25, 38, 40), "h200-r580": (80.25, 38, 40)}
"""Its watts, its degrees, and those of its memory."""
NOT_ON_THIS_GPU = frozenset(
    (
        *(81, 120, 191),  # power object of the InfoROM, automatic boost, a fan
        *range(171, 176),  # a fabric: nvidia-smi says N/A to all of it
        *(285, 286, 287, *range(1400, 1404), *range(1076, 1080)),  # C2C
        *range(314, 318),  # ECC by part of the chip
        *range(320, 328),
        *range(330, 342),
        *(390, 391, 392),  # retired pages
        *(409, 419, 429, 439, 1220, *link_table.LINK_FIELDS, *link_table.GPU_FIELDS),  # NVLinks
        *range(1040, 1076),
        *(1024, 1032, 1034),  # it has 7 decoders, 7 JPEG engines, 1 for optical flow
        *range(1084, 1097),  # totals of GPM, which came after R580
    )
)


def test_the_reading_of_a_real_gpu_is_whole(gpu: GpuReading, name: str) -> None:
    assert gpu == GpuReading(
        index=0,
        uuid="GPU-00000000-0000-4000-8000-000000000001",
        bus_id="0000:00:06.0",
        serial="0000000000001",
        minor=0,
        product=str(OF_SMI[name][50]),
        mig=False,
        fb_used=0,
        values=gpu.values,
        links=(),
        processes=(),
        fabric=None,
        sram_threshold=False,
        retired_pending=None,
        slowdown=1,
        recovery_supported=True,
        recovery_action=0,
        dbe_volatile=0,
        dbe_aggregate=0,
        sbe_volatile=0,
        sbe_aggregate=0,
        remap_pending=False,
        remap_failure=False,
        instances=None,
        lost=False,
        error="",
    )


def test_nothing_that_a_real_gpu_answers_is_refused(reading: NvmlReading) -> None:
    assert (reading.refused, reading.driver_version) == (0, "580.159.04")


def test_what_stays_is_as_nvidia_smi_says(gpu: GpuReading, name: str) -> None:
    stated = OF_SMI[name]
    assert {number: gpu.values.get(number) for number in stated} == stated


def test_what_changes_is_as_recorded_and_near_to_nvidia_smi(
    gpu: GpuReading, recorded: Replayed, name: str
) -> None:
    watts, degrees, of_memory = NEAR[name]
    power, temperature = gpu.values[155], gpu.values[150]
    assert power == recorded.answer("nvmlDeviceGetPowerUsage") / 1000
    assert power == pytest.approx(watts, abs=15)
    assert temperature == recorded.answer("nvmlDeviceGetTemperature", 0)
    assert temperature == pytest.approx(degrees, abs=10)
    assert gpu.values[153] == recorded.answer("nvmlDeviceGetMarginTemperature")
    assert gpu.values[140] == pytest.approx(of_memory, abs=10)


def test_only_what_the_gpu_has_is_shown(gpu: GpuReading) -> None:
    assert gpu.values.keys() == ALL - NOT_ON_THIS_GPU
