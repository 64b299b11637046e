"""Records what a real GPU answers: `python -m tools.nvml_recording --write FILE [--gpu N]`.

Needs the NVIDIA driver, nvidia-ml-py, msgspec and this checkout, and changes nothing on the GPU.
The file says how the driver answered each call that the exporter or the simulator knows, and what
it is about. Tests compare the simulator with it. Identity (UUID, serial number, PDI, fabric) is
masked. A call that nvidia-ml-py or the driver does not have is an answer like any other.
"""
# pyright: basic
# nvidia-ml-py carries no types.

import argparse
import ctypes
import inspect
import json
import math
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pynvml

from exporter.sensor.nvml.link_table import ALL_LINKS, per_link
from exporter.sensor.nvml.table import TABLE, Call

GPU = "gpu"
"""In the place of a handle among a call's arguments."""
CallKey = tuple[str, tuple[str | int, ...]]
LINKS = (0, 17, 18)
"""First and last of an H100, and one that it does not have."""
FIELDS = range(1, 311)
METRICS = range(1, 341)
EVENT_SETS = (*(1 << bit for bit in range(19)), 0x8008, 0x8108, 0xC108)
"""Each kind alone, and those that the exporter registers together."""
MISSING, UNREADABLE = 13, -1
"""Codes: there is no such function; nvidia-ml-py could not read the answer."""
WHOLE_CALL = -1
"""In the place of a value type: the code is that of the whole call."""
_ONE_HANDLE = re.compile(r"nvml(Device(Get|Query)|GpmQuery)")
_LEFT_OUT = re.compile(
    "Handle|Vgpu|VGpu|Certificate|Attestation|Hostname|Pgpu|Pids|Platform|Sessions"
)
"""Handles of other things, what only hosts of virtual GPUs have, and what identifies a machine."""
_SLOW_US = 50_000
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_CLUSTER = list(range(1, 17))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.nvml_recording", description=__doc__)
    parser.add_argument("--write", type=Path, required=True, metavar="FILE")
    parser.add_argument("--gpu", type=int, default=0, metavar="N", help="index of the GPU")
    options = parser.parse_args(argv)
    pynvml.nvmlInit()
    try:
        recorded = record(pynvml.nvmlDeviceGetHandleByIndex(options.gpu))
    finally:
        pynvml.nvmlShutdown()
    options.write.write_text(as_text(masked(recorded)), encoding="utf-8")
    print(f"wrote {options.write}: {recorded['about']['product']}, {recorded['about']['driver']}")
    return 0


def record(handle: Any) -> dict[str, Any]:
    """Return the answers of a GPU as JSON, most as [code, value, microseconds]."""
    answers = {key_of(call): _timed(call, handle) for call in calls()}
    return {
        "about": _about(answers),
        "calls": answers,
        "fields": [_field(handle, number, scope) for number, scope in field_keys()],
        "gpm": _gpm(handle),
        "events": {str(kinds): _register(handle, kinds) for kinds in EVENT_SETS},
    }


def calls() -> list[CallKey]:
    """Return each call with its arguments: what the exporter makes, and what else reads a GPU."""
    found = [*_of_exporter(), *_with_numbers(), *_without_arguments()]
    return list(dict.fromkeys(found))


def key_of(call: CallKey) -> str:
    """Return the name of a call in the file, such as `nvmlDeviceGetClockInfo(gpu, 1)`."""
    name, arguments = call
    return f"{name}({', '.join(map(str, arguments))})"


def field_keys() -> list[tuple[int, int]]:
    """Return (field id, scope) of all fields, and of those of NVLinks with the links as scope."""
    names = (name for name in dir(pynvml) if name.startswith("NVML_FI_DEV_NVLINK"))
    links = sorted({number for name in names if isinstance(number := getattr(pynvml, name), int)})
    scoped = ((number, scope) for number in links for scope in (*LINKS[1:], ALL_LINKS))
    return [*((number, 0) for number in FIELDS), *(key for key in scoped if key[0] in FIELDS)]


def masked(recorded: dict[str, Any]) -> dict[str, Any]:
    """Return a recording with stable stand-ins for what names one board, machine or fabric."""
    answers = dict(recorded["calls"])
    secrets: dict[str, str] = {}
    for name, stand_in in (
        ("nvmlDeviceGetUUID(gpu)", "GPU-00000000-0000-4000-8000-000000000001"),
        ("nvmlDeviceGetSerial(gpu)", "0000000000001"),
    ):
        code, value, *_ = answers.get(name, [MISSING, None])
        if code == 0 and value:
            secrets[value] = stand_in
    pdi = answers.get("nvmlDeviceGetPdi(gpu)")
    if pdi is not None and pdi[0] == 0:
        answers["nvmlDeviceGetPdi(gpu)"] = [0, 1, *pdi[2:]]
    return _masked(recorded | {"calls": answers}, secrets)


def as_text(recorded: dict[str, Any]) -> str:
    """Return a recording as JSON with one answer a line, so that two can be compared."""
    parts: list[str] = []
    for name, section in recorded.items():
        if isinstance(section, dict):
            rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in section.items()]
            opening, closing = "{", "}"
        else:
            rows = [json.dumps(row) for row in section]
            opening, closing = "[", "]"
        parts.append(f"{json.dumps(name)}: {opening}\n" + ",\n".join(rows) + f"\n{closing}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def plain(value: Any) -> Any:
    """Return an answer of nvidia-ml-py as JSON has it."""
    if value is None or isinstance(value, str | int | float):
        return None if isinstance(value, float) and not math.isfinite(value) else value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, pynvml.nvmlFriendlyObject):
        return {name: plain(part) for name, part in vars(value).items()}
    if isinstance(value, ctypes.Structure):
        return {field[0]: plain(getattr(value, field[0])) for field in value._fields_}
    if isinstance(value, ctypes.Array | list | tuple):
        return [plain(part) for part in value]
    # A pointer or a union says nothing by itself.
    return getattr(value, "value", type(value).__name__)


def _of_exporter() -> Iterator[CallKey]:
    tables = [TABLE, *(per_link(link) for link in LINKS)]
    sources = (source for table in tables for found in table.values() for source in found)
    for source in sources:
        if isinstance(source, Call):
            yield source.name, (*(() if source.node else (GPU,)), *source.arguments)
    for name in ("MaxMigDeviceCount", "EccMode", "SupportedEventTypes", "SramEccErrorStatus"):
        yield f"nvmlDeviceGet{name}", (GPU,)
    for name in ("MigDeviceHandleByIndex", "GpuInstanceById", "ProcessUtilization"):
        yield f"nvmlDeviceGet{name}", (GPU, 0)
    for link in LINKS:
        yield "nvmlDeviceGetNvLinkState", (GPU, link)
    for kind in ("Compute", "Graphics", "MPSCompute"):
        yield f"nvmlDeviceGet{kind}RunningProcesses", (GPU,)
    yield "nvmlDeviceGetP2PStatus", (GPU, GPU, 2)


def _with_numbers() -> Iterator[CallKey]:
    """Yield calls that take numbers, up to the first that should be refused."""
    for name, count in (
        *(("ClockInfo", 4), ("TemperatureThreshold", 9), ("ViolationStatus", 13)),
        *(("InforomVersion", 5), ("PcieThroughput", 3), ("GpuInstanceProfileInfo", 20)),
        *(("TemperatureV", 1), ("ApplicationsClock", 4), ("MaxClockInfo", 4)),
        *(("RetiredPages", 2), ("RetiredPages_v2", 2)),
    ):
        yield from ((f"nvmlDeviceGet{name}", (GPU, number)) for number in range(count))
    for kind in range(4):
        yield from (("nvmlDeviceGetClock", (GPU, kind, which)) for which in range(4))
    for kind, counter in ((kind, counter) for kind in range(2) for counter in range(2)):
        yield "nvmlDeviceGetTotalEccErrors", (GPU, kind, counter)
        for place in range(9):
            yield "nvmlDeviceGetMemoryErrorCounter", (GPU, kind, counter, place)
    for link in LINKS:
        for name in ("NvLinkVersion", "NvLinkRemotePciInfo", "NvLinkRemoteDeviceType"):
            yield f"nvmlDeviceGet{name}", (GPU, link)
        for number in range(5):
            yield "nvmlDeviceGetNvLinkErrorCounter", (GPU, link, number)
    yield from (("nvmlDeviceGetNvLinkCapability", (GPU, 0, number)) for number in range(7))


def _without_arguments() -> Iterator[CallKey]:
    """Yield what else nvidia-ml-py can read of a GPU or of the system without further arguments."""
    for name in sorted(dir(pynvml)):
        system = name.startswith("nvmlSystemGet")
        if not (system or _ONE_HANDLE.match(name)) or _LEFT_OUT.search(name):
            continue
        try:
            parameters = inspect.signature(getattr(pynvml, name)).parameters.values()
        except (TypeError, ValueError):
            continue
        needed = sum(1 for part in parameters if part.default is part.empty)
        if needed == (0 if system else 1):
            yield name, () if system else (GPU,)


def _sram(handle: Any) -> Any:
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    pynvml.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return status


def _fabric(handle: Any) -> Any:
    info = pynvml.c_nvmlGpuFabricInfo_v3_t()
    pynvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    return info


_WITH_STRUCT: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetMemoryInfo_v2": lambda handle: pynvml.nvmlDeviceGetMemoryInfo(
        handle, pynvml.nvmlMemory_v2
    ),
    "nvmlDeviceGetSramEccErrorStatus": _sram,
    "nvmlDeviceGetGpuFabricInfoV": _fabric,
}
"""Calls that nvidia-ml-py gives a struct of one version."""


def _timed(call: CallKey, handle: Any) -> list[Any]:
    """Return [code, value, microseconds]; the shortest of three times, as the first may wake."""
    name, arguments = call
    function = _WITH_STRUCT.get(name) or getattr(pynvml, name, None)
    if function is None:
        return [MISSING, None, 0]
    shortest, answer = math.inf, [MISSING, None]
    for _ in range(3):
        begun = time.perf_counter()
        answer = _answer(function, [handle if part == GPU else part for part in arguments])
        shortest = min(shortest, (time.perf_counter() - begun) * 1e6)
        if shortest > _SLOW_US:
            break
    return [*answer, round(shortest)]


def _answer(function: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    try:
        return [0, plain(function(*arguments))]
    except pynvml.NVMLError as error:
        return [int(error.args[0]), None]
    except Exception as error:  # noqa: BLE001 - whatever nvidia-ml-py makes of it is the answer
        return [UNREADABLE, repr(error)]


def _field(handle: Any, number: int, scope: int) -> list[Any]:
    """Return [field id, scope, code, value type, value, the driver's microseconds]."""
    try:
        (answer,) = pynvml.nvmlDeviceGetFieldValues(handle, [(number, scope)])
    except pynvml.NVMLError as error:
        return [number, scope, int(error.args[0]), WHOLE_CALL, None, 0]
    kind = int(answer.valueType)
    value = getattr(answer.value, _MEMBERS[kind]) if 0 <= kind < len(_MEMBERS) else None
    return [number, scope, int(answer.nvmlReturn), kind, plain(value), int(answer.latencyUsec)]


def _gpm(handle: Any) -> dict[str, list[Any]]:
    """Return [code, value] of each metric between two samples; nothing where there are none."""
    try:
        samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
        pynvml.nvmlGpmSampleGet(handle, samples[0])
        time.sleep(1)
        pynvml.nvmlGpmSampleGet(handle, samples[1])
    except (AttributeError, pynvml.NVMLError):
        return {}
    return {str(number): _metric(samples, number) for number in METRICS}


def _metric(samples: list[Any], number: int) -> list[Any]:
    request: Any = pynvml.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, 1
    request.sample1, request.sample2 = samples
    request.metrics[0].metricId = number
    try:
        pynvml.nvmlGpmMetricsGet(request)
    except pynvml.NVMLError as error:
        return [int(error.args[0]), None]
    row = request.metrics[0]
    return [int(row.nvmlReturn), plain(float(row.value))]


def _register(handle: Any, kinds: int) -> int:
    """Return the code of registering these kinds of events in a set of their own."""

    def register() -> None:
        made = pynvml.nvmlEventSetCreate()
        try:
            pynvml.nvmlDeviceRegisterEvents(handle, kinds, made)
        finally:
            pynvml.nvmlEventSetFree(made)

    return _answer(register, [])[0]


def _about(answers: dict[str, list[Any]]) -> dict[str, Any]:
    def answered(call: str) -> Any:
        return answers[call][1]

    try:
        binding = metadata.version("nvidia-ml-py")
    except metadata.PackageNotFoundError:
        binding = None
    return {
        "product": answered("nvmlDeviceGetName(gpu)"),
        "driver": answered("nvmlSystemGetDriverVersion()"),
        "nvml": answered("nvmlSystemGetNVMLVersion()"),
        "nvidia_ml_py": binding,
        "kernel": platform.release().partition("-")[0],
        "virtualised": _is_virtualised(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _is_virtualised() -> bool | None:
    """Say whether the processor names a hypervisor; None where that cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    flags = next((line for line in lines if line.startswith("flags")), None)
    return None if flags is None else "hypervisor" in flags.split()


def _masked(value: Any, secrets: dict[str, str]) -> Any:
    if isinstance(value, str):
        for secret, stand_in in secrets.items():
            value = value.replace(secret, stand_in)
        return value
    if isinstance(value, list):
        return [_masked(part, secrets) for part in value]
    if not isinstance(value, dict):
        return value
    found = {name: _masked(part, secrets) for name, part in value.items()}
    if any(found.get("clusterUuid") or ()):
        found["clusterUuid"] = _CLUSTER
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
