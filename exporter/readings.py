"""What the sensor sees of a node at one moment, as values.

`None` is "could not read" everywhere. These structs travel from the NVML child
to the sensor and from the sensor to the agent. Pure.
"""

from datetime import datetime

import msgspec

from exporter.report import SourceHealth

STARTING = "Starting"
"""Reason of a source that has not spoken yet; how long it may be so is bounded by a deadline."""


class MigReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One live MIG slice. Memory in bytes (nvmlDeviceGetMemoryInfo on the MIG handle)."""

    uuid: str
    gi: int
    ci: int
    profile: str = ""
    """As in the device name, such as `1g.10gb`."""
    gi_profile_id: int | None = None
    placement_start: int | None = None
    placement_size: int | None = None
    fb_used: int | None = None
    fb_free: int | None = None


class GpuReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One physical GPU. Each field names the NVML call that it is from."""

    index: int
    uuid: str
    """nvmlDeviceGetUUID, remembered from registration."""
    bus_id: str = ""
    """nvmlDeviceGetPciInfo, in the form of `device.normal_bus_id`."""
    serial: str = ""
    """nvmlDeviceGetSerial."""
    minor: int | None = None
    """nvmlDeviceGetMinorNumber."""
    product: str = ""
    """nvmlDeviceGetName."""
    mig: bool | None = None
    """nvmlDeviceGetMigMode, current; False where the GPU has no such mode."""
    gpu_util: int | None = None
    """nvmlDeviceGetUtilizationRates, percent."""
    mem_util: int | None = None
    """nvmlDeviceGetUtilizationRates, percent of time with memory traffic."""
    fb_used: int | None = None
    """nvmlDeviceGetMemoryInfo, bytes."""
    fb_free: int | None = None
    """nvmlDeviceGetMemoryInfo, bytes."""
    temperature: int | None = None
    """nvmlDeviceGetTemperature, degrees Celsius."""
    power: int | None = None
    """nvmlDeviceGetPowerUsage, milliwatts."""
    recovery_supported: bool | None = None
    recovery_action: int | None = None
    """Field 230, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION."""
    dbe_volatile: int | None = None
    """nvmlDeviceGetTotalEccErrors, uncorrected, volatile."""
    dbe_aggregate: int | None = None
    remap_pending: bool | None = None
    """nvmlDeviceGetRemappedRows."""
    remap_failure: bool | None = None
    instances: tuple[MigReading, ...] | None = None
    lost: bool = False
    """NVML said GPU_IS_LOST."""
    hung_call: str = ""
    """The call that did not come back; the GPU is then left out of sampling for a while."""
    error: str = ""
    """The first error met on this GPU, beyond "not supported"."""


class NvmlReading(msgspec.Struct, frozen=True, kw_only=True):
    """One pass over all GPUs."""

    at: datetime
    """When the pass began: nothing in it was read earlier, so it may count as read after an XID."""
    driver_version: str = ""
    gpus: tuple[GpuReading, ...] = ()


class ClaimDevice(msgspec.Struct, frozen=True, order=True):
    """A device that DRA gave to a container; `claim` is a name in the pod's namespace or not."""

    claim: str
    claim_namespace: str
    driver: str
    pool: str
    device: str
    share_id: str = ""
    cdi_ids: tuple[str, ...] = ()


class PluginDevice(msgspec.Struct, frozen=True, order=True):
    """A device that a device plugin gave to a container, such as `nvidia.com/gpu` `GPU-…`."""

    resource: str
    id: str


class ContainerDevices(msgspec.Struct, frozen=True, order=True):
    """What one container of one pod holds (PodResources v1 List)."""

    namespace: str
    pod: str
    container: str
    claims: tuple[ClaimDevice, ...] = ()
    plugin: tuple[PluginDevice, ...] = ()


class CallNote(msgspec.Struct, frozen=True):
    """A call under way for `seconds`. `gpu` is the NVML index, None for the whole library."""

    gpu: int | None
    call: str
    seconds: float


class Hang(msgspec.Struct, frozen=True):
    """A vendor call that has not come back. `gpu` is the NVML index, None for the whole library."""

    call: str
    gpu: int | None = None
    uuid: str = ""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the sensor knows now. `nvml` and `containers` are None while unknown."""

    at: datetime
    sources: tuple[SourceHealth, ...] = ()
    nvml: NvmlReading | None = None
    hang: Hang | None = None
    containers: tuple[ContainerDevices, ...] | None = None
    rejected: dict[str, int] = {}
    """Kernel-log records refused, by reason, since the sensor started."""
    refused: int = 0
    """Frames on the sensor's socket that could not be read."""
    signals_dropped: int = 0
    """Signals that fell out of the ring before any agent took them."""
    restarts: int = 0
    """Times the NVML child was started after the first."""
