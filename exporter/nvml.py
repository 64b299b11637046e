"""The one door to NVML: its calls in, `exporter.readings` out, every failure an NvmlError.

Runs in the NVML child only. Each call is noted in shared memory before it is
made. One GPU's failure costs that GPU's fields and nothing else.
"""
# pyright: basic
# nvidia-ml-py carries no types.

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pynvml

from exporter.callnotes import Slot
from exporter.device import instance_of, normal_bus_id
from exporter.readings import GpuReading, MigReading, NvmlReading
from exporter.signals import Signal
from kubeapi import clock

RECOVERY_ACTION = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION; not every nvidia-ml-py has the name."""

_XID_EVENT = 0x8
_RECOVERY_EVENT = 0x8000
_NO_GPU = -1
_ABSENT = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
)
"""Answers that mean "has no such thing", not "is broken"."""

_REASONS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "LibraryNotFound",
        "libnvidia-ml.so.1 is not here: install the NVIDIA driver, or name its folder with "
        "--nvml-library-dir",
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
}


class NvmlError(Exception):
    """NVML said no. `reason` is a stable word, `absent` says that there is no such thing."""

    def __init__(self, call: str, code: int, text: str) -> None:
        self.code = code
        self.absent = code in _ABSENT
        self.lost = code == pynvml.NVML_ERROR_GPU_IS_LOST
        self.timeout = code == pynvml.NVML_ERROR_TIMEOUT
        self.reason, advice = _REASONS.get(code, ("NvmlError", ""))
        super().__init__(f"{call}: {text}" + (f"; {advice}" if advice else ""))


class Facts(msgspec.Struct, frozen=True):
    """What never changes about a GPU while the driver is loaded."""

    uuid: str
    bus_id: str
    serial: str
    minor: int | None
    product: str


class Caller:
    """Makes calls for one thread."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    def __call__(self, gpu: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call NVML about a GPU (index, or -1); raises NvmlError."""
        self._slot.begin(gpu, function.__name__)
        try:
            return function(*arguments)
        except pynvml.NVMLError as error:
            raise NvmlError(function.__name__, error.args[0], str(error)) from error
        finally:
            self._slot.end()


class Sampler:
    """Reads the state of all GPUs."""

    def __init__(self, slot: Slot) -> None:
        self._call = Caller(slot)
        self._facts: dict[int, Facts] = {}
        self._mig_facts: dict[str, MigReading] = {}
        self._driver = ""
        self.handles: dict[int, Any] = {}
        """NVML handle by index, of the GPUs that gave one at the last `sample`."""

    def open(self) -> None:
        """Load and initialise the library; raises NvmlError."""
        self._call(_NO_GPU, pynvml.nvmlInit)
        self._driver = str(self._call(_NO_GPU, pynvml.nvmlSystemGetDriverVersion))

    def sample(self, skip: frozenset[int]) -> NvmlReading:
        """Read every GPU but those in `skip`; raises NvmlError when not even the count is told."""
        begun = clock.now()
        count = self._call(_NO_GPU, pynvml.nvmlDeviceGetCount)
        readings = [self._gpu(index) for index in range(count) if index not in skip]
        return NvmlReading(
            at=begun,
            driver_version=self._driver,
            gpus=tuple(one for one in readings if one is not None),
        )

    def uuid_of(self, index: int) -> tuple[str, str]:
        """Return (UUID, bus id) of a GPU by what it said when it last could."""
        facts = self._facts.get(index)
        return (facts.uuid, facts.bus_id) if facts else ("", "")

    def _gpu(self, index: int) -> GpuReading | None:
        try:
            handle = self._call(index, pynvml.nvmlDeviceGetHandleByIndex, index)
            facts = self._identify(index, handle)
        except NvmlError as error:
            facts = self._facts.get(index)
            # A GPU that never said who it is cannot be told from others.
            return facts and _with(facts, index, lost=error.lost, error=str(error))
        self.handles[index] = handle
        fields = Fields(self._call, index, handle)
        values = fields.read()
        if values.get("mig") and not fields.lost:
            values["instances"] = tuple(self._instances(index, handle, fields))
        return _with(facts, index, lost=fields.lost, error=fields.error, **values)

    def _identify(self, index: int, handle: Any) -> Facts:
        uuid = str(self._call(index, pynvml.nvmlDeviceGetUUID, handle))
        known = self._facts.get(index)
        if known is None or known.uuid != uuid:
            fields = Fields(self._call, index, handle)
            pci = fields.get(pynvml.nvmlDeviceGetPciInfo)
            known = Facts(
                uuid,
                normal_bus_id(_text(pci.busId) if pci else "") or "",
                fields.get(pynvml.nvmlDeviceGetSerial) or "",
                fields.get(pynvml.nvmlDeviceGetMinorNumber),
                fields.get(pynvml.nvmlDeviceGetName) or "",
            )
            self._facts[index] = known
        return known

    def _instances(self, index: int, handle: Any, fields: "Fields") -> Iterator[MigReading]:
        for position in range(fields.get(pynvml.nvmlDeviceGetMaxMigDeviceCount) or 0):
            mig = fields.get(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, position)
            part = Fields(self._call, index, mig) if mig is not None else None
            uuid = part.get(pynvml.nvmlDeviceGetUUID) if part else None
            if part is None or uuid is None:
                continue
            if uuid not in self._mig_facts:
                self._mig_facts[uuid] = self._identify_mig(uuid, handle, index, part)
            used, free = part.memory()
            yield msgspec.structs.replace(self._mig_facts[uuid], fb_used=used, fb_free=free)

    def _identify_mig(self, uuid: str, gpu: Any, index: int, part: "Fields") -> MigReading:
        gi = part.get(pynvml.nvmlDeviceGetGpuInstanceId) or 0
        ci = part.get(pynvml.nvmlDeviceGetComputeInstanceId) or 0
        instance = Fields(self._call, index, gpu).get(pynvml.nvmlDeviceGetGpuInstanceById, gi)
        about = (
            Fields(self._call, index, instance).get(pynvml.nvmlGpuInstanceGetInfo)
            if instance is not None
            else None
        )
        # "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
        name = part.get(pynvml.nvmlDeviceGetName) or ""
        return MigReading(
            uuid=uuid,
            gi=gi,
            ci=ci,
            profile=name.rpartition(" MIG ")[2] if " MIG " in name else "",
            gi_profile_id=about.profileId if about else None,
            placement_start=about.placement.start if about else None,
            placement_size=about.placement.size if about else None,
        )


class Fields:
    """Reads one handle call by call, and remembers what went wrong with it."""

    def __init__(self, call: Caller, index: int, handle: Any) -> None:
        self._call = call
        self._index = index
        self._handle = handle
        self.lost = False
        self.error = ""

    def get(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a call says, None when it does not; a lost GPU is not asked again."""
        if self.lost:
            return None
        try:
            return self._call(self._index, function, self._handle, *arguments)
        except NvmlError as error:
            self.lost = error.lost
            if not error.absent and not self.error:
                self.error = str(error)
            return None

    def read(self) -> dict[str, Any]:
        """Return the fields of a `GpuReading` that change."""
        use = self.get(pynvml.nvmlDeviceGetUtilizationRates)
        used, free = self.memory()
        remaps = self.get(pynvml.nvmlDeviceGetRemappedRows)
        supported, action = self._recovery_action()
        return {
            "mig": self._mig(),
            "gpu_util": use.gpu if use else None,
            "mem_util": use.memory if use else None,
            "fb_used": used,
            "fb_free": free,
            "temperature": self.get(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
            "power": self.get(pynvml.nvmlDeviceGetPowerUsage),
            "recovery_supported": supported,
            "recovery_action": action,
            "dbe_volatile": self._dbe(pynvml.NVML_VOLATILE_ECC),
            "dbe_aggregate": self._dbe(pynvml.NVML_AGGREGATE_ECC),
            "remap_pending": bool(remaps[2]) if remaps else None,
            "remap_failure": bool(remaps[3]) if remaps else None,
        }

    def memory(self) -> tuple[int | None, int | None]:
        """Return (used, free) in bytes; version 2 keeps the driver's reserve out of "used"."""
        told = self.get(pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlMemory_v2)
        told = told or self.get(pynvml.nvmlDeviceGetMemoryInfo)
        return (told.used, told.free) if told else (None, None)

    def _mig(self) -> bool | None:
        if self.lost:
            return None
        try:
            return bool(self._call(self._index, pynvml.nvmlDeviceGetMigMode, self._handle)[0])
        except NvmlError as error:
            self.lost = error.lost
            # A GPU without the mode is not in it.
            return False if error.absent else None

    def _dbe(self, counter: int) -> int | None:
        uncorrected = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
        return self.get(pynvml.nvmlDeviceGetTotalEccErrors, uncorrected, counter)

    def _recovery_action(self) -> tuple[bool | None, int | None]:
        values = self.get(pynvml.nvmlDeviceGetFieldValues, [RECOVERY_ACTION])
        if values is None:
            return None, None
        answer = values[0]
        if answer.nvmlReturn == pynvml.NVML_SUCCESS:
            return True, int(answer.value.uiVal)
        if answer.nvmlReturn in (*_ABSENT, pynvml.NVML_ERROR_INVALID_ARGUMENT):
            return False, None
        self.lost = self.lost or answer.nvmlReturn == pynvml.NVML_ERROR_GPU_IS_LOST
        return None, None


class Events:
    """Waits for XIDs and changes of the recovery action on physical GPUs."""

    def __init__(self, slot: Slot) -> None:
        self._call = Caller(slot)
        self._set: Any = None
        self._known: dict[int, tuple[str, str]] = {}

    def register(self, handles: dict[int, Any], sampler: Sampler) -> int:
        """Register every GPU that is not yet; returns how many are.

        Handles are mapped to UUIDs here, as a dead GPU cannot tell its own.
        """
        if self._set is None:
            self._set = self._call(_NO_GPU, pynvml.nvmlEventSetCreate)
        for index, handle in handles.items():
            if _address(handle) not in self._known and self._register(index, handle):
                self._known[_address(handle)] = sampler.uuid_of(index)
        return len(self._known)

    def wait(self, milliseconds: int) -> Signal | None:
        """Return the next event, None after the time; raises NvmlError."""
        try:
            event = self._call(_NO_GPU, pynvml.nvmlEventSetWait_v2, self._set, milliseconds)
        except NvmlError as error:
            if error.timeout:
                return None
            raise
        uuid, bus_id = self._known.get(_address(event.device), ("", ""))
        if event.eventType == _RECOVERY_EVENT:
            return Signal(kind="recovery", source="nvml", at=clock.now(), uuid=uuid, bus_id=bus_id)
        instance = instance_of(event.gpuInstanceId, event.computeInstanceId)
        return Signal(
            kind="xid",
            source="nvml",
            at=clock.now(),
            uuid=uuid,
            bus_id=bus_id,
            code=int(event.eventData),
            gi=instance.gi if instance else None,
            ci=instance.ci if instance else None,
        )

    def _register(self, index: int, handle: Any) -> bool:
        # Drivers before R565 know no recovery events and refuse both.
        for kinds in (_XID_EVENT | _RECOVERY_EVENT, _XID_EVENT):
            try:
                self._call(index, pynvml.nvmlDeviceRegisterEvents, handle, kinds, self._set)
            except NvmlError:
                continue
            return True
        return False


def _with(facts: Facts, index: int, **fields: Any) -> GpuReading:
    return GpuReading(index=index, **msgspec.structs.asdict(facts), **fields)


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
