"""NodeDeviceHealth: what a node's hardware says, in state form.

These structs are the `status` of the object (deploy/crds). The agent writes
them, the remediator and anybody else reads them. Rules of the file:

- `None` means "could not read" and travels as such; nothing is 0 or False by
  default of ignorance.
- Unknown fields are ignored and absent ones take their default, so that agents,
  CRDs and remediators one version apart understand each other.
- Top-level fields are always written, because a merge patch keeps what it does
  not name. Inside lists, which are replaced whole, defaults are left out.

Pure: times come in as values.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec

API_GROUP = "draguard.dev"
API_VERSION = "v1alpha1"
SCHEMA_VERSION = 1
"""Raised when a field changes its meaning; readers accept one above and one below theirs."""

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""One without a time zone is refused when it is read: it could not be compared with others."""
EARLIEST, LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
"""Outside of these a report is refused when it is read: nothing could be added to such a date, or
taken from it. A clock that is only wrong, such as one of 1970, is well within."""

_ACRONYMS = {"id": "ID", "uuid": "UUID"}


def kubernetes_case(name: str) -> str:
    """Spell a field as Kubernetes objects do: `boot_id` is `bootID`, `last_seen` is `lastSeen`."""
    first, *rest = name.split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


class Entry(msgspec.Struct, frozen=True, rename=kubernetes_case, omit_defaults=True):
    """Part of a Kubernetes object that is written whole, so that defaults are left out."""


Presence = Literal["Present", "Lost", "Unknown"]
"""Lost is a positive finding (NVML said so, or a live NVML no longer lists the GPU); a source
that is down makes Unknown."""


class XidRecord(Entry, frozen=True, kw_only=True):
    """One XID code on one GPU, or on one instance of it, since the node booted."""

    code: int
    count: int
    first_seen: Moment
    last_seen: Moment
    epoch: int = 1
    """The GPU's epoch at `last_seen`."""
    gi: int | None = None
    """NVML GPU instance id; absent when no witness named one."""
    ci: int | None = None
    reset: bool | None = None
    """`RST:` of a 94 or 95 line: the GPU must be reset. The worst seen."""
    drain_reset: bool | None = None
    """`D-RST:` of the same lines: reset wanted, running work may finish."""
    pid: int | None = None
    process: str = ""
    message: str = ""
    """Of the last line, cut short."""
    caused_by: int | None = None
    """XID that the last line to name one gave as the root cause (45, new drivers)."""
    rate_limited: bool | None = None
    """True: the driver said that it leaves out lines of this code, so `count` is a lower bound."""
    sources: tuple[str, ...] = ()
    """Witnesses: `kmsg`, `nvml`, `dcgm`."""


class RecoveryAction(Entry, frozen=True, kw_only=True):
    """What the driver wants done (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, field 230, from R565).

    0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset, 5 recover
    IMEX domain, 6 bus reset, 7 system reboot; higher values are not known yet.
    """

    supported: bool | None = None
    """False: the driver has no such field. None: could not ask."""
    value: int | None = None
    since: Moment | None = None
    """First reading of this value in a row."""
    observed_at: Moment | None = None
    """The last reading, as of this report."""
    logged: int | None = None
    """The action that the newest kernel-log line with XID 154 said is wanted from then on."""
    logged_at: Moment | None = None
    """The time of that line. A reading after it outranks it."""


class MemoryHealth(Entry, frozen=True, kw_only=True):
    """ECC, row-remapping and page-retirement state; each None where NVML cannot say.

    NVML hides remaps on a GPU with MIG instances: the last value stays, with its age.
    """

    dbe_volatile: int | None = None
    """nvmlDeviceGetTotalEccErrors, uncorrected: errors since the driver loaded."""
    dbe_aggregate: int | None = None
    """The same in the GPU's life."""
    remap_pending: bool | None = None
    """nvmlDeviceGetRemappedRows: a remap waits for a reset. Forgotten with a new epoch."""
    remap_failure: bool | None = None
    """nvmlDeviceGetRemappedRows: a row could not be remapped."""
    remap_observed_at: Moment | None = None
    """When the two were last read."""
    sram_threshold: bool | None = None
    """nvmlDeviceGetSramEccErrorStatus.bThresholdExceeded; needs root."""
    retired_pending: bool | None = None
    """nvmlDeviceGetRetiredPagesPendingStatus; GPUs before Ampere."""


class FabricHealth(Entry, frozen=True, kw_only=True):
    """Registration with the NVSwitch fabric (nvmlDeviceGetGpuFabricInfoV)."""

    state: int | None = None
    """0 not supported, 1 not started, 2 in progress, 3 completed."""
    status: int | None = None
    """nvmlReturn_t of the registration; it counts only in state 3."""
    health_mask: int | None = None
    """Fields of 2 and 4 bits (nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_*)."""
    health_summary: int | None = None
    """0 not supported, 1 healthy, 2 unhealthy, 3 limited capacity."""
    clique: int | None = None
    cluster_uuid: str = ""


class NvlinkHealth(Entry, frozen=True, kw_only=True):
    """Which NVLinks are active (nvmlDeviceGetNvLinkState), as each was last read.

    Error counters are left to the page: they grow without saying anything of now.
    """

    up: tuple[int, ...] = ()
    down: tuple[int, ...] = ()
    """Also links that no board has wired; those that were lost are in `failed`."""
    failed: tuple[int, ...] = ()
    """Of `down`, those that were up earlier in this boot."""


class Slowdown(Entry, frozen=True, kw_only=True):
    """One reason for lowered clocks that is a finding about hardware or cooling.

    It stays for a while after it was last seen, so that a flapping one is one finding.
    """

    reason: str
    """`HwSlowdown`, `HwThermal`, `HwPowerBrake` or `SwThermal`."""
    since: Moment
    last_seen: Moment


class MigInstance(Entry, frozen=True, kw_only=True):
    """A live MIG slice. `gi_profile_id` is the one nvidia-smi shows (19, 20, 15, 14, 9, 5, 0)."""

    uuid: str
    gi: int
    ci: int
    profile: str
    gi_profile_id: int | None = None
    placement_start: int | None = None
    placement_size: int | None = None


class GpuHealth(Entry, frozen=True, kw_only=True):
    """One physical GPU."""

    uuid: str
    presence: Presence
    presence_since: Moment
    presence_reason: str = ""
    pci_bus_id: str = ""
    serial: str = ""
    minor: int | None = None
    product: str = ""
    mig: bool | None = None
    recovery_action: RecoveryAction = RecoveryAction()
    epoch: int = 1
    """Counts, within this boot, driver loads and observed resets."""
    epoch_started: Moment | None = None
    xids: tuple[XidRecord, ...] = ()
    xids_dropped: int = 0
    """Of this GPU: records left out of `xids` since the node booted, least severe first."""
    memory: MemoryHealth = MemoryHealth()
    fabric: FabricHealth = FabricHealth()
    nvlink: NvlinkHealth = NvlinkHealth()
    slowdowns: tuple[Slowdown, ...] = ()
    instances: tuple[MigInstance, ...] = ()


class SxidRecord(Entry, frozen=True, kw_only=True):
    """One SXid code of one NVSwitch since the node booted."""

    code: int
    count: int
    first_seen: Moment
    last_seen: Moment
    fatal: bool | None = None
    """True when one of its lines was printed as Fatal."""
    links: tuple[int, ...] = ()
    """NVLinks of the switch that its lines named."""
    message: str = ""
    """Of the last line, cut short."""


class SwitchHealth(Entry, frozen=True, kw_only=True):
    """One NVSwitch that has told of an error; only the kernel log speaks of them."""

    pci_bus_id: str
    sxids: tuple[SxidRecord, ...] = ()


class SourceHealth(Entry, frozen=True, kw_only=True):
    """One sensor: `nvml`, `kmsg`, `podresources`, `dcgm`."""

    name: str
    up: bool
    reason: str = ""
    """A stable CamelCase word, such as LibraryNotFound, Hung, Stuck, PermissionDenied."""
    message: str = ""
    """A sentence that says what to do."""
    last_success: Moment | None = None


class Cursor(msgspec.Struct, frozen=True, kw_only=True, rename=kubernetes_case):
    """Up to where signals are counted in this report; a restarting agent goes on from here."""

    kernel_sequence: int | None = None
    """Sequence number of the last kernel-log record read in this boot."""
    sensor_run: str = ""
    """Identity of the sensor process that the next number belongs to."""
    signal_sequence: int = 0
    """Number of the last signal taken from that sensor process."""


class Inventory(msgspec.Struct, frozen=True, kw_only=True, rename=kubernetes_case):
    """GPUs that should be there against GPUs that are; each None while nobody could count."""

    seen: int | None = None
    """GPUs that a live NVML lists, without lost ones and those that were let go."""
    on_bus: int | None = None
    """NVIDIA GPUs that the kernel lists on PCI."""
    set_aside: int | None = None
    """Of those, GPUs that NVIDIA's driver does not hold or that were let go on request."""
    published: int | None = None
    """GPUs that the DRA driver offers, whole or in slices."""
    missing: tuple[str, ...] = ()
    """Bus ids (or, without one, UUIDs) of GPUs that are on the bus or offered, not set aside, and
    not seen."""


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename=kubernetes_case):
    """For `kubectl get ndh`: the object in one line."""

    gpus: int = 0
    present: int = 0
    attention: str = ""
    """Worst findings in words, such as `GPU-2fa81118: XID 79`; empty when there are none."""
    sources_down: str = ""


class NodeHealth(msgspec.Struct, frozen=True, kw_only=True, rename=kubernetes_case):
    """The status of a NodeDeviceHealth."""

    schema_version: int = SCHEMA_VERSION
    boot_id: str = ""
    agent_version: str = ""
    driver_version: str = ""
    observed_at: Moment | None = None
    cursor: Cursor = Cursor()
    sources: tuple[SourceHealth, ...] = ()
    gpus: tuple[GpuHealth, ...] = ()
    switches: tuple[SwitchHealth, ...] = ()
    inventory: Inventory = Inventory()
    xids_dropped: int = 0
    """XID and SXid records left out because the report would grow too large, least severe first;
    those of known GPUs are also counted there."""
    summary: Summary = Summary()


class ObjectMeta(Entry, frozen=True):
    """The parts of Kubernetes metadata that Draguard reads."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Moment | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class NodeDeviceHealth(msgspec.Struct, frozen=True, rename=kubernetes_case):
    """The object as the API server stores it."""

    metadata: ObjectMeta
    status: NodeHealth = NodeHealth()

    def __post_init__(self) -> None:
        for moment in _moments(self.status):
            if moment is not None and not EARLIEST <= moment <= LATEST:
                raise ValueError(f"{moment} is no date that can be reckoned with")


def _moments(report: NodeHealth) -> Iterator[datetime | None]:
    """Give the dates that are reckoned with."""
    yield report.observed_at
    for gpu in report.gpus:
        action = gpu.recovery_action
        yield from (gpu.presence_since, gpu.epoch_started, gpu.memory.remap_observed_at)
        yield from (action.since, action.observed_at, action.logged_at)
        for record in gpu.xids:
            yield from (record.first_seen, record.last_seen)
    for switch in report.switches:
        for record in switch.sxids:
            yield from (record.first_seen, record.last_seen)
