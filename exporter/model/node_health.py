"""NodeDeviceHealth: what a node's hardware says, in state form.

These structs are the `status` of the object (deploy/crds). The agent writes
them, the remediator and anybody else reads them. Rules of the file:

- `None` means "could not read" and travels as such; nothing is 0 or False by
  default of ignorance.
- Unknown fields are ignored, absent ones take their default, and a word that is not
  known is Unknown (`node_health_words`), so that agents, CRDs and remediators one version
  apart understand each other.
- The status is replaced as a whole, so defaults are left out.
- Code asks `gpu.mig` or `source.up`: True, False, or None for unknown. What is stored
  is a word.

Pure: times come in as values.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

import msgspec

from exporter.model.node_health_condition import (
    ConfigSpace,
    FabricHealth,
    MemoryHealth,
    NvlinkHealth,
    Slowdown,
)
from exporter.model.node_health_words import (
    MigMode,
    Presence,
    ResetRequest,
    SourceState,
    Support,
    SxidSeverity,
    Via,
    known,
)
from kubeapi.types import (
    EARLIEST,
    LATEST,
    Entry,
    Moment,
    ObjectMeta,
    kubernetes_case,
)

API_GROUP = "draguard.dev"
API_VERSION = "v1alpha1"
SCHEMA_VERSION = 1
"""Raised when a field changes its meaning; readers accept one above and one below theirs."""


class MemorySlices(Entry, frozen=True, order=True):
    """The memory slices that a MIG instance is made of: nvmlGpuInstancePlacement_t."""

    start: int
    size: int

    def intersects(self, other: "MemorySlices") -> bool:
        """Whether both are made of the same memory, in part at least."""
        return self.start < other.start + other.size and other.start < self.start + self.size


class XidRecord(Entry, frozen=True, kw_only=True):
    """One XID code on one GPU, or on one instance of it, since the node booted.

    What it meant is fixed when it is counted: instance ids are used again, and the MIG mode
    changes. An instance id in another place is another record.
    """

    code: int
    count: int
    first_seen: Moment = msgspec.field(name="firstSeenTime")
    last_seen: Moment = msgspec.field(name="lastSeenTime")
    epoch: int = 1
    """The GPU's epoch at `last_seen`."""
    previous_seen: Moment | None = msgspec.field(default=None, name="previousSeenTime")
    """The sighting before the last one, of an error without instance on a MIG GPU: where a second
    source names the slice of the last one, this record is as old as that again."""
    previous_epoch: int | None = None
    """Of the GPU then."""
    gi: int | None = msgspec.field(default=None, name="giID")
    """NVML GPU instance id; absent when no source named one."""
    ci: int | None = msgspec.field(default=None, name="ciID")
    mig_mode: MigMode = "Unknown"
    """Of the GPU at `last_seen`."""
    gi_profile_id: int | None = None
    """Of the instance then, as nvidia-smi shows it; absent when it could not be read."""
    placement: MemorySlices | None = None
    """Of the instance then; absent when it could not be read, and from older agents."""
    reset_request: ResetRequest = "Unknown"
    """`RST:` (Immediate: the GPU must be reset) and `D-RST:` (AfterDrain: running work may finish)
    of a 94 or 95 line, the worst since the last reset or answer of the driver that it requests
    nothing. Unknown where no line said it."""
    pid: int | None = None
    process: str = ""
    message: str = ""
    """Of the last line, cut short."""
    caused_by: int | None = None
    """XID that the last line to name one gave as the root cause (45, new drivers)."""
    rate_limited: bool = False
    """The driver said that it leaves out lines of this code, so `count` is a lower bound."""
    sources: tuple[str, ...] = ()
    """`kmsg`, `syslog` (the same log, read by syslog(2)), `nvml`, `dcgm`."""
    event_at: Moment | None = msgspec.field(default=None, name="eventTime")
    """When NVML or DCGM reported it last: a second source of errors at about that time."""


class RecoveryAction(Entry, frozen=True, kw_only=True):
    """What the driver wants done (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, field 230, from R565).

    0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset, 5 recover
    IMEX domain, 6 bus reset, 7 system reboot; higher values are not known yet.
    """

    support: Support = "Unknown"
    """Unsupported: the driver has no such field. Unknown: could not ask."""
    action: str = ""
    """The name of `value`, for people."""
    value: int | None = msgspec.field(default=None, name="code")
    since: Moment | None = msgspec.field(default=None, name="sinceTime")
    """First reading of this value in a row."""
    observed_at: Moment | None = msgspec.field(default=None, name="observedTime")
    """The last reading, as of this report."""
    none_at: Moment | None = msgspec.field(default=None, name="noneTime")
    """While the value is another one than 0: the last reading of 0."""
    unread_since: Moment | None = msgspec.field(default=None, name="unreadSinceTime")
    """Since when none of the last three samples could read it; None while it is read."""
    logged: int | None = msgspec.field(default=None, name="loggedCode")
    """The action that the newest kernel-log line with XID 154 said is requested from then on."""
    logged_at: Moment | None = msgspec.field(default=None, name="loggedTime")
    """The time of that line. A reading after it outranks it."""
    logged_source: Literal["kmsg", "syslog"] | None = None
    """How that line was read."""

    @property
    def supported(self) -> bool | None:
        return known(self.support, "Supported", "Unsupported")

    @property
    def last_none_at(self) -> datetime | None:
        """The last reading of 0, None where none is known."""
        return self.observed_at if self.value == 0 else self.none_at


class MigInstance(Entry, frozen=True, kw_only=True):
    """A live MIG slice. `gi_profile_id` is the one nvidia-smi shows (19, 20, 15, 14, 9, 5, 0)."""

    uuid: str
    gi: int = msgspec.field(name="giID")
    ci: int = msgspec.field(name="ciID")
    profile: str
    gi_profile_id: int | None = None
    placement_start: int | None = None
    placement_size: int | None = None


class PublishedDevice(Entry, frozen=True, kw_only=True):
    """A device of a GPU: the whole, or a MIG slice, as the ResourceSlices had it."""

    driver: str
    pool: str
    device: str
    uuid: str = ""
    """Of the hardware; "" for a partition of dynamic MIG, which has none of its own."""
    gi_profile_id: int | None = None
    placement_start: int | None = None
    placement_size: int | None = None


class GpuHealth(Entry, frozen=True, kw_only=True):
    """One physical GPU."""

    uuid: str
    presence: Presence
    """Lost is a positive finding (NVML said so, or a live NVML no longer lists the GPU); a source
    that is down makes Unknown."""
    presence_since: Moment = msgspec.field(name="presenceTransitionTime")
    presence_reason: str = ""
    pci_bus_id: str = ""
    serial: str = ""
    minor: int | None = None
    product: str = ""
    mig_mode: MigMode = "Unknown"
    mig_since: Moment | None = msgspec.field(default=None, name="migModeTransitionTime")
    """When it was turned on or off; None: not since this boot, as far as is known."""
    recovery_action: RecoveryAction = RecoveryAction()
    epoch: int = 1
    """Counts, within this boot, driver loads and observed resets."""
    epoch_started: Moment | None = msgspec.field(default=None, name="epochStartTime")
    answered_epoch_started: Moment | None = msgspec.field(
        default=None, name="answeredEpochStartTime"
    )
    """When the last epoch began in which it answered: what came before was ended by a reset."""
    xids: tuple[XidRecord, ...] = ()
    xids_dropped: int = 0
    """Of this GPU: records left out of `xids` since the node booted, least severe first."""
    memory: MemoryHealth = MemoryHealth()
    fabric: FabricHealth = FabricHealth()
    nvlink: NvlinkHealth = NvlinkHealth()
    config_space: ConfigSpace = ConfigSpace()
    slowdowns: tuple[Slowdown, ...] = ()
    instances: tuple[MigInstance, ...] = ()
    last_published: tuple[PublishedDevice, ...] = ()
    """Under what names it was published, while its driver publishes nothing: the names mean this
    GPU as long as nothing speaks against it, and pods go on holding it by them."""
    omitted: tuple[str, ...] = ()
    """Parts that the agent knows and could not write, such as `nvlink`: unknown, and not well."""

    @property
    def mig(self) -> bool | None:
        return known(self.mig_mode, "Enabled", "Disabled")


class SxidRecord(Entry, frozen=True, kw_only=True):
    """One SXid code of one NVSwitch since the node booted."""

    code: int
    count: int
    first_seen: Moment = msgspec.field(name="firstSeenTime")
    last_seen: Moment = msgspec.field(name="lastSeenTime")
    severity: SxidSeverity = "Unknown"
    """Fatal when one of its lines was printed so."""
    links: tuple[int, ...] = ()
    """NVLinks of the switch that its lines named."""
    message: str = ""
    """Of the last line, cut short."""
    sources: tuple[str, ...] = ()
    """`kmsg`, `syslog`; absent from older agents."""

    @property
    def fatal(self) -> bool | None:
        return known(self.severity, "Fatal", "NonFatal")


class SwitchHealth(Entry, frozen=True, kw_only=True):
    """One NVSwitch that has reported an error; only the kernel log speaks of them."""

    pci_bus_id: str
    sxids: tuple[SxidRecord, ...] = ()


class SourceHealth(Entry, frozen=True, kw_only=True):
    """One sensor: `nvml`, `kmsg`, `podresources`, `dcgm`."""

    name: str
    state: SourceState
    reason: str = ""
    """A stable CamelCase word, such as LibraryNotFound, Hung, Stuck, PermissionDenied."""
    message: str = ""
    """A sentence that says what to do."""
    last_success: Moment | None = msgspec.field(default=None, name="lastSuccessTime")
    via: Via | None = None
    """Of `kmsg` while it is up: read from the device (or a file) or from systemd's journal, which
    keep records whole, or by syslog(2), whose lines alone are not trusted with a taint. Each record
    says for itself by which of them it came."""

    @property
    def up(self) -> bool:
        return self.state == "Up"


class Cursor(Entry, frozen=True, kw_only=True):
    """Up to where signals are counted in this report; a restarting agent goes on from here."""

    kernel_sequence: int | None = None
    """Sequence number of the last kernel-log record read in this boot."""
    sensor_run: str = ""
    """Identity of the sensor process that the next number belongs to."""
    signal_sequence: int = 0
    """Number of the last signal taken from that sensor process."""


class VersionSince(Entry, frozen=True, kw_only=True):
    """A version, the last one that was known, and when it took the place of another one."""

    version: str = ""
    time: Moment | None = msgspec.field(default=None, name="sinceTime")
    """By the node's clock. None: no other version was seen before it."""

    def seen(self, version: str, at: datetime) -> "VersionSince":
        """Return what is known after a look; a driver that is not loaded has no version."""
        if version in ("", self.version):
            return self
        return VersionSince(version=version, time=at if self.version else None)


class Inventory(Entry, frozen=True, kw_only=True):
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
    unidentified: int = 0
    """GPUs that NVML lists and can reach, and of which it is not known who they are: one of them
    may be one that is missing."""


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename=kubernetes_case, gc=False):
    """For `kubectl get ndh`: the object in one line."""

    gpus: int = 0
    present: int = 0
    attention: str = ""
    """Worst findings in words, such as `GPU-2fa81118: XID 79`; empty when there are none."""
    sources_down: str = ""


REPORT_INTERVAL = 900
"""Seconds between two reports in which nothing changed, where an agent does not say."""
MOST_SET_BACK = 10**13
"""Milliseconds: three centuries."""
REPORT_HASH = "draguard.dev/report"
"""Annotation of an agent's Lease: `contentHash` of the report that it would write now."""


class NodeHealth(Entry, frozen=True, kw_only=True):
    """The status of a NodeDeviceHealth."""

    schema_version: int = msgspec.field(default_factory=lambda: SCHEMA_VERSION)
    """Made by a factory, so that it is written always."""
    boot_id: str = ""
    agent_version: str = ""
    driver_version: str = ""
    agent_since: VersionSince = VersionSince()
    driver_since: VersionSince = VersionSince()
    """Both outlast restarts of the agent and boots of the node."""
    observed_at: Moment | None = msgspec.field(default=None, name="observedTime")
    cursor: Cursor = Cursor()
    sources: tuple[SourceHealth, ...] = ()
    gpus: tuple[GpuHealth, ...] = ()
    switches: tuple[SwitchHealth, ...] = ()
    inventory: Inventory = Inventory()
    xids_dropped: int = 0
    """XID and SXid records left out because the report would grow too large, least severe first;
    those of known GPUs are also counted there."""
    truncated: tuple[str, ...] = ()
    """Fields of which something was cut to what the CRD takes, such as `gpus.xids`."""
    omitted: tuple[str, ...] = ()
    """Parts that the agent knows and could not write: unknown, and not well."""
    summary: Summary = Summary()
    content_hash: str = ""
    """Of what a policy can act on. The agent's Lease carries that of its latest observation, so
    that a renewal confirms this report. "" of an agent that confirms nothing."""
    report_interval_seconds: int = REPORT_INTERVAL
    """The report is written at least this often, changed or not."""
    clock_set_back_ms: int = msgspec.field(default=0, name="clockSetBackMilliseconds")
    """By how much the node's clock was set back in this boot, in all. The dates of the report moved
    along: a date kept from an earlier report is later by what came on top since."""
    booted_at: Moment | None = msgspec.field(default=None, name="bootTime")
    """When the node booted, by the clock that the dates of this report are of."""


class NodeDeviceHealth(msgspec.Struct, frozen=True, rename=kubernetes_case, gc=False):
    """The object as the API server stores it."""

    metadata: ObjectMeta
    status: NodeHealth = NodeHealth()

    def __post_init__(self) -> None:
        for moment in _moments(self.status):
            if moment is not None and not EARLIEST <= moment <= LATEST:
                raise ValueError(f"{moment} is not a date that can be reckoned with")


def _moments(report: NodeHealth) -> Iterator[datetime | None]:
    """Give the dates that are reckoned with."""
    yield from (report.observed_at, report.booted_at)
    yield from (report.agent_since.time, report.driver_since.time)
    for gpu in report.gpus:
        action = gpu.recovery_action
        yield from (
            gpu.presence_since,
            gpu.epoch_started,
            gpu.answered_epoch_started,
            gpu.mig_since,
            gpu.memory.remap_observed_at,
        )
        yield from (action.since, action.observed_at, action.none_at, action.unread_since)
        yield from (action.logged_at, gpu.memory.rose_at)
        yield from (gpu.config_space.since, gpu.config_space.answered_at)
        for record in gpu.xids:
            yield from (record.first_seen, record.last_seen, record.event_at)
    for switch in report.switches:
        for record in switch.sxids:
            yield from (record.first_seen, record.last_seen)
