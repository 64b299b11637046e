"""The one door to NVML: calls by name in, plain values out, every failure an NvmlError.

Runs in the NVML child only. Each call is noted in shared memory before it is
made. A call is named as nvidia-ml-py names it; one that this nvidia-ml-py does
not have fails like one that the driver does not have. Calls that take or give
structs with versions are wrapped here, as nvidia-ml-py hands those through
untouched (a struct instead of a reference to it crashes the process).
"""
# pyright: basic
# nvidia-ml-py carries no types.

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
import pynvml

from exporter.sensor.supervisor.call_notes import Slot

NO_GPU = -1
"""Instead of an index: the call is about no GPU."""
REFUSED = -1
"""Code of an answer that came and cannot be read."""
SUCCESS = int(pynvml.NVML_SUCCESS)
INVALID_ARGUMENT = int(pynvml.NVML_ERROR_INVALID_ARGUMENT)
LOST = int(pynvml.NVML_ERROR_GPU_IS_LOST)

LACKING = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    26,  # NVML_ERROR_DEPRECATED
)
"""Answers that mean "has no such thing" and will mean it again, not "is broken"."""
ABSENT = (*LACKING, pynvml.NVML_ERROR_NOT_FOUND)

OPENING = "nvmlDeviceGetHandleByIndex"
_CANNOT_OPEN = (
    pynvml.NVML_ERROR_INSUFFICIENT_POWER,
    pynvml.NVML_ERROR_IRQ_ISSUE,
    pynvml.NVML_ERROR_RESET_REQUIRED,
    pynvml.NVML_ERROR_UNKNOWN,
)
"""Answers to OPENING about a GPU that the driver cannot reach; "unknown" is that of one that fell
off the bus, to a process that did not have it open before."""

_USELESS = (
    pynvml.NVML_ERROR_UNINITIALIZED,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
)
"""Answers after which this process can do nothing with the library any more."""

_REASONS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "LibraryNotFound",
        "libnvidia-ml.so.1 is not here: install the NVIDIA driver, name its folder with "
        "--nvml-library-dir, or choose the chart's `stack` that the nodes have (docs/install.md)",
    ),
    pynvml.NVML_ERROR_UNINITIALIZED: (
        "DriverReloaded",
        "the NVIDIA kernel driver was unloaded or loaded again; NVML is opened anew",
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "DriverNotLoaded",
        "the NVIDIA kernel driver is not loaded: see `dmesg | grep NVRM`, load it with "
        "`modprobe nvidia`",
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "VersionMismatch",
        "libnvidia-ml and the loaded kernel driver are of different versions: finish the driver "
        "upgrade (reload the driver or reboot)",
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "NoPermission",
        "NVML may not open the GPUs: run the sensor as root with /dev/nvidia* visible",
    ),
    REFUSED: ("AnswerRefused", ""),
}

_UNREADABLE = (UnicodeDecodeError, IndexError, MemoryError, OverflowError, ValueError)
"""What nvidia-ml-py raises when the library's strings or counts make no sense."""


class NvmlError(Exception):
    """NVML said no. `reason` is a stable word, `absent` says that there is no such thing.

    `unreachable` says that the driver cannot open the GPU.
    """

    def __init__(self, call: str, code: int, text: str) -> None:
        self.code = code
        self.absent = code in ABSENT
        self.lacking = code in LACKING
        self.lost = code == LOST
        self.unreachable = call == OPENING and code in _CANNOT_OPEN
        self.timeout = code == pynvml.NVML_ERROR_TIMEOUT
        self.refused = code == REFUSED
        self.useless = code in _USELESS
        self.reason, advice = _REASONS.get(code, ("NvmlError", ""))
        super().__init__(f"{call}: {text}" + (f"; {advice}" if advice else ""))


class FieldAnswer(msgspec.Struct, frozen=True):
    """One answer of nvmlDeviceGetFieldValues: an nvmlReturn_t, and the number if that is 0."""

    code: int
    value: int | float | None = None


class Fabric(msgspec.Struct, frozen=True):
    """nvmlGpuFabricInfoV_t; what the driver's version of it does not have is None."""

    state: int
    status: int
    clique: int
    cluster_uuid: bytes
    health_mask: int | None = None
    health_summary: int | None = None


class Caller(Protocol):
    """Makes calls."""

    def __call__(self, gpu: int, name: str, *arguments: Any) -> Any:
        """Call NVML's function `name` about a GPU (index, or NO_GPU); raises NvmlError."""
        ...


class Noted:
    """The `Caller` of one thread, which notes each call before it makes it."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    def __call__(self, gpu: int, name: str, *arguments: Any) -> Any:
        function = _WRAPPED.get(name) or getattr(pynvml, name, None)
        if function is None:
            missing = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
            raise NvmlError(name, missing, "not in this nvidia-ml-py")
        self._slot.begin(gpu, name)
        try:
            return function(*arguments)
        except pynvml.NVMLError as error:
            raise NvmlError(name, error.args[0], str(error)) from error
        except _UNREADABLE as error:
            raise NvmlError(name, REFUSED, f"an answer that cannot be read ({error})") from error
        finally:
            self._slot.end()


def out_of_time(name: str, seconds: float) -> NvmlError:
    """Return what says that a call was not made, as earlier ones on the GPU took so long."""
    text = f"not called, as the calls before it took {seconds:.1f} s"
    return NvmlError(name, pynvml.NVML_ERROR_TIMEOUT, text)


def number_of(name: str) -> int | None:
    """Return the number of an NVML_* constant, None when this nvidia-ml-py does not have it."""
    value = getattr(pynvml, name, None)
    return value if isinstance(value, int) else None


def address(handle: Any) -> int:
    """Return what tells one handle from another, also in event data."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of nvmlValue_t by nvmlValueType_t."""
_ALWAYS_UNSIGNED = (number_of("NVML_FI_DEV_MEMORY_TEMP"),)
"""Drivers of R545 call this one a double and give an unsigned int (DCGM reads it so too)."""


def _field_values(handle: Any, desired: Sequence[tuple[int, int]]) -> list[FieldAnswer]:
    """Return the answers to (field id, scope id) pairs, in order, from one call."""
    answers = pynvml.nvmlDeviceGetFieldValues(handle, list(desired))
    return [_field_answer(answer) for answer in answers]


def _field_answer(answer: Any) -> FieldAnswer:
    code = int(answer.nvmlReturn)
    if code != SUCCESS:
        return FieldAnswer(code)
    kind = 1 if answer.fieldId in _ALWAYS_UNSIGNED else int(answer.valueType)
    if not 0 <= kind < len(_MEMBERS):
        return FieldAnswer(REFUSED)
    value = getattr(answer.value, _MEMBERS[kind])
    # All ones is NVML's "not available" in 32 bits.
    return FieldAnswer(REFUSED if kind == 1 and value == 0xFFFFFFFF else code, value)


def _sram_status(handle: Any) -> Any:
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    pynvml.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return status


def _fabric(handle: Any) -> Fabric:
    """Ask for the newest struct first; an older driver refuses its version."""
    try:
        answer: Any = pynvml.c_nvmlGpuFabricInfo_v3_t()
        pynvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(answer))
    except pynvml.NVMLError as error:
        if error.args[0] == LOST:
            raise
        answer = pynvml.c_nvmlGpuFabricInfo_v2_t()
        pynvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(answer))
    summary = getattr(answer, "healthSummary", None)
    uuid = bytes(answer.clusterUuid)
    return Fabric(answer.state, answer.status, answer.cliqueId, uuid, answer.healthMask, summary)


def _process_utilization(handle: Any, since: int) -> list[Any]:
    try:
        return pynvml.nvmlDeviceGetProcessUtilization(handle, since)
    except pynvml.NVMLError as error:
        # nvidia-ml-py raises an error of code 0 when there are no samples.
        if error.args[0] in (SUCCESS, pynvml.NVML_ERROR_NOT_FOUND):
            return []
        raise


def _gpm_metrics(before: Any, now: Any, metrics: Sequence[int]) -> dict[int, float]:
    """Return the metrics between two samples; one that failed is left out."""
    request: Any = pynvml.c_nvmlGpmMetricsGet_t()
    request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    request.numMetrics = len(metrics)
    request.sample1, request.sample2 = before, now
    for row, metric in zip(request.metrics, metrics, strict=False):
        row.metricId = metric
    pynvml.nvmlGpmMetricsGet(request)
    rows = request.metrics[: len(metrics)]
    return {int(row.metricId): float(row.value) for row in rows if row.nvmlReturn == SUCCESS}


def _system_events(kinds: int) -> Any:
    """Return a set of system events with these kinds registered."""
    made = pynvml.nvmlSystemEventSetCreate(pynvml.nvmlSystemEventSetCreateRequest_v1)
    pynvml.nvmlSystemRegisterEvents(pynvml.nvmlSystemRegisterEventRequest_v1, kinds, made)
    return made


def _system_wait(event_set: Any, milliseconds: int) -> list[int]:
    """Return the kinds of the events that came, none after the time."""
    room = (pynvml.c_nvmlSystemEventData_v1_t * 8)()
    version = pynvml.nvmlSystemEventSetWaitRequest_v1
    answer = pynvml.nvmlSystemEventSetWait(version, event_set, milliseconds, room, len(room))
    return [int(event["eventType"]) for event in answer]


_WRAPPED: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetFieldValues": _field_values,
    "nvmlDeviceGetMemoryInfo_v2": lambda handle: pynvml.nvmlDeviceGetMemoryInfo(
        handle, pynvml.nvmlMemory_v2
    ),
    "nvmlDeviceGetSramEccErrorStatus": _sram_status,
    "nvmlDeviceGetGpuFabricInfoV": _fabric,
    "nvmlDeviceGetProcessUtilization": _process_utilization,
    "nvmlGpmMetricsGet": _gpm_metrics,
    "nvmlGpmQueryDeviceSupport": lambda handle: int(
        pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
    ),
    "nvmlSystemEventSetCreate": _system_events,
    "nvmlSystemEventSetWait": _system_wait,
}
"""By the name of the call that they make; the hang watch shows that name."""
