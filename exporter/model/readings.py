"""What the sensor sees of a node at one moment, as values.

`None` is "could not read" everywhere, and a field that could not be read is not
in `Values`. These structs travel from the vendor children to the sensor and from
the sensor to the agent. Pure.
"""

from typing import Literal

import msgspec

from exporter.model.node_health import SourceHealth
from kubeapi.types import Moment

Values = dict[int, int | float | str]
"""By DCGM field id (`exporter.metrics.fields`), in DCGM's unit, whichever library reported it."""

ConfigAnswer = Literal["Answers", "AllOnes"]
"""What the config space of a GPU says (`exporter.sensor.kernel_log.config_space`)."""

STARTING = "Starting"
"""Reason of a source that has not spoken yet; how long it may be so is bounded by a deadline."""

LOST_RECORDS = (
    *("cleared", "overwritten", "missed", "compressed", "unreadable", "too_long"),
    *("malformed", "quoted"),
)
"""Reasons of `Observation.rejected` for which errors of the driver's may be missing: records that
did not come, and refused ones that may be its own in a form that is not known here. The others are
none of its own: any program can cause a `continuation`, and NVML contradicts the rest."""


class MigReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One live MIG slice. `values` are of the slice itself (calls on its MIG handle, or GPM)."""

    uuid: str
    gi: int
    ci: int
    profile: str = ""
    """As in the device name, such as `1g.10gb`."""
    gi_profile_id: int | None = None
    placement_start: int | None = None
    placement_size: int | None = None
    fb_used: int | None = None
    """Bytes."""
    values: Values = {}


class ProcessReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process on a GPU (nvmlDeviceGetComputeRunningProcesses and its graphics twin)."""

    pid: int
    gi: int | None = None
    ci: int | None = None
    memory: int | None = None
    """Bytes of framebuffer."""
    sm_util: int | None = None
    """Percent of SM time since the reading before (nvmlDeviceGetProcessUtilization); not on MIG."""
    pod_uid: str = ""
    """From the process's cgroup; "" when it is of no pod, or its /proc entry cannot be read."""
    container_id: str = ""


class LinkReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One NVLink of a GPU."""

    link: int
    up: bool | None = None
    """nvmlDeviceGetNvLinkState."""
    values: Values = {}


class FabricReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """nvmlDeviceGetGpuFabricInfoV; only on GPUs behind NVSwitch with fabric registration."""

    state: int
    """0 not supported, 1 not started, 2 in progress, 3 completed."""
    status: int
    """nvmlReturn_t of the registration."""
    health_mask: int | None = None
    health_summary: int | None = None
    clique: int | None = None
    cluster_uuid: str = ""


class PeerReading(msgspec.Struct, frozen=True, omit_defaults=True):
    """nvmlDeviceGetP2PStatus towards another GPU (NVML index), NVML_P2P_CAPS_INDEX_NVLINK."""

    peer: int
    status: int


class GpuReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One physical GPU: who it is, what the report needs of it, and the fields a page requested.

    Each attribute names the NVML call that it is from. What pages show under a DCGM field is in
    `values` alone.
    """

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
    fb_used: int | None = None
    """nvmlDeviceGetMemoryInfo, bytes."""
    values: Values = {}
    """What was requested of the GPU as a whole."""
    links: tuple[LinkReading, ...] = ()
    processes: tuple[ProcessReading, ...] | None = None
    peers: tuple[PeerReading, ...] = ()
    fabric: FabricReading | None = None
    sram_threshold: bool | None = None
    """nvmlDeviceGetSramEccErrorStatus.bThresholdExceeded; needs root."""
    retired_pending: bool | None = None
    """nvmlDeviceGetRetiredPagesPendingStatus; GPUs before Ampere."""
    slowdown: int | None = None
    """nvmlDeviceGetCurrentClocksEventReasons, bit mask."""
    recovery_supported: bool | None = None
    recovery_action: int | None = None
    """Field 230, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION."""
    dbe_volatile: int | None = None
    """nvmlDeviceGetTotalEccErrors, uncorrected, volatile."""
    dbe_aggregate: int | None = None
    sbe_volatile: int | None = None
    sbe_aggregate: int | None = None
    remap_pending: bool | None = None
    """nvmlDeviceGetRemappedRows."""
    remap_failure: bool | None = None
    instances: tuple[MigReading, ...] | None = None
    lost: bool = False
    """NVML said GPU_IS_LOST."""
    hung_call: str = ""
    """The call that did not come back; the GPU is then left out of sampling for a while."""
    without_events: bool = False
    """nvmlDeviceRegisterEvents is refused, so NVML tells of no XID of this GPU."""
    released: bool = False
    """The GPU was let go on request (`Settings.release_file`) and is not read meanwhile."""
    error: str = ""
    """The first error met on this GPU, beyond "not supported"."""


class NvmlReading(msgspec.Struct, frozen=True, kw_only=True):
    """One pass over all GPUs."""

    at: Moment
    """When the pass began: nothing in it was read earlier, so it may count as read after an XID."""
    driver_version: str = ""
    gpus: tuple[GpuReading, ...] = ()
    refused: int = 0
    """Answers refused because they make no sense, since NVML was opened."""
    took: float | None = None
    """Seconds that the pass took."""
    booted_at: Moment | None = None
    """When the node booted, by the clock that dated the pass."""
    listed: int | None = None
    """nvmlDeviceGetCount: while it stays, an index is the same GPU."""
    unidentified: int = 0
    """GPUs that NVML lists and can reach, and of which it is not known who they are: left out, or
    without a UUID. One of them may be a GPU that is not among `gpus`."""


class DcgmEntity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One DCGM entity, translated to NVML's ids: a GPU, an instance of it or an NVLink."""

    uuid: str
    """Of the physical GPU."""
    gi: int | None = None
    ci: int | None = None
    link: int | None = None
    values: Values = {}


class DcgmPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A MIG instance as DCGM lists it, under NVML's ids."""

    gi: int
    ci: int | None = None
    """None for the GPU instance as a whole."""
    profile: str = ""
    """Such as `1g.10gb`; "" when the engine did not say."""


class DcgmGpu(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What DCGM calls a GPU that it reads (dcgmGetDeviceAttributes)."""

    id: int
    """DCGM's own number, which need not be NVML's index."""
    uuid: str
    bus_id: str = ""
    """In the form of `device.normal_bus_id`."""
    product: str = ""
    parts: tuple[DcgmPart, ...] = ()


class NodePart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An NVSwitch, a link of one, a CPU or a core, under the numbers that DCGM gives them."""

    kind: Literal["switch", "link", "cpu", "core"]
    id: int
    """Of a link its number on the switch."""
    of: int | None = None
    """The switch of a link, the CPU of a core."""
    serial: str = ""
    values: Values = {}


class HealthFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One incident of dcgmHealthCheck."""

    uuid: str
    watch: str
    """As in DCGM_EXP_GPU_HEALTH_STATUS: PCIE, NVLINK, ..., ALL."""
    health: int
    """10 warning, 20 failure."""
    error_code: str
    """DCGM_FR_*."""
    severity: str
    """dcgmErrorSeverity_t: NONE, MONITOR, ISOLATE, TRIAGE, CONFIG, RESET or UNKNOWN."""
    category: str
    """dcgmErrorCategory_t without DCGM_FR_EC_, such as HARDWARE_MEMORY, or UNKNOWN."""
    message: str = ""


class DcgmReading(msgspec.Struct, frozen=True, kw_only=True):
    """One pass over what DCGM watches."""

    at: Moment
    version: str = ""
    entities: tuple[DcgmEntity, ...] = ()
    health: tuple[HealthFinding, ...] | None = None
    """None: not watched, or could not be queried."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that the engine reads: of these alone no finding is health."""
    identities: tuple[DcgmGpu, ...] = ()
    """The same GPUs with what the engine calls them, for a page without NVML."""
    node_parts: tuple[NodePart, ...] = ()
    """What is no GPU's, as far as requested fields are of it."""
    remarks: tuple[str, ...] = ()
    """What is missing of that."""
    unsupported: tuple[int, ...] = ()
    """Field ids that were requested and that this engine cannot watch."""
    detached: tuple[str, ...] = ()
    """UUIDs of GPUs that the driver let go (DCGM status 7)."""
    took: float | None = None
    """Seconds that the pass took."""


class ClaimDevice(msgspec.Struct, frozen=True, order=True):
    """A device that DRA gave to a container; `claim` is a name in the pod's namespace or not."""

    claim: str
    claim_namespace: str
    driver: str
    pool: str
    device: str
    share_id: str = ""
    cdi_ids: tuple[str, ...] = ()
    """Those that end with the device's name."""


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


class LastRead(msgspec.Struct, frozen=True):
    """How far one thread of the sensor has come. No wall clock: that can be set."""

    number: int
    """Reads that it has finished in this run of the sensor."""
    age: float
    """Seconds since the last one, or since the start before the first one, when this was sent."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the sensor knows now. `nvml` and `containers` are None while unknown."""

    at: Moment
    booted_at: Moment | None = None
    """When the node booted, by the clock that dated it, but for `nvml`."""
    reads: dict[str, LastRead] = {}
    """By source. That of `podresources` reads the bus, too."""
    sources: tuple[SourceHealth, ...] = ()
    nvml: NvmlReading | None = None
    hang: Hang | None = None
    dcgm: DcgmReading | None = None
    """None: no DCGM, or nothing fresh from it."""
    pci_gpus: tuple[str, ...] | None = None
    """Bus ids of NVIDIA display and 3D controllers that the kernel lists (sysfs)."""
    pci_unbound: tuple[str, ...] = ()
    """Of those, GPUs that another driver than NVIDIA's holds (vfio-pci), or none (sysfs)."""
    pci_drivers: dict[str, str] = {}
    """Who has the unbound ones, by bus id: a driver's name, "" where none does (sysfs)."""
    pci_config: dict[str, ConfigAnswer] = {}
    """What the config space of a GPU reads, by bus id; without those that could not be read, or
    that NVIDIA's driver does not hold (sysfs)."""
    containers: tuple[ContainerDevices, ...] | None = None
    rejected: dict[str, int] = {}
    """Kernel-log records refused, by reason, since the sensor started."""
    refused: int = 0
    """Frames on the sensor's socket that could not be read."""
    cut: int = 0
    """Observations of which a part was left out, because they were too large to be sent."""
    signals_dropped: int = 0
    """Signals that fell out of the ring before any agent took them."""
    restarts: int = 0
    """Times the NVML child was started after the first."""
    dcgm_restarts: int = 0
