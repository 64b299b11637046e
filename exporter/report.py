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

from datetime import datetime
from typing import Literal

import msgspec

API_GROUP = "draguard.dev"
API_VERSION = "v1alpha1"
SCHEMA_VERSION = 1
"""Raised when a field changes its meaning; readers accept one above and one below theirs."""

_ACRONYMS = {"id": "ID"}


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
    first_seen: datetime
    last_seen: datetime
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
    sources: tuple[str, ...] = ()
    """Witnesses: `kmsg`, `nvml`."""


class RecoveryAction(Entry, frozen=True, kw_only=True):
    """What the driver wants done (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, field 230, from R565).

    0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset, 5 recover
    IMEX domain, 6 bus reset, 7 system reboot; higher values are not known yet.
    """

    supported: bool | None = None
    """False: the driver has no such field. None: could not ask."""
    value: int | None = None
    since: datetime | None = None
    """First reading of this value in a row."""
    observed_at: datetime | None = None
    """The last reading, as of this report."""


class MemoryHealth(Entry, frozen=True, kw_only=True):
    """ECC and row-remapping state; each None where NVML cannot say (MIG hides remaps)."""

    dbe_volatile: int | None = None
    dbe_aggregate: int | None = None
    remap_pending: bool | None = None
    remap_failure: bool | None = None


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
    presence_since: datetime
    presence_reason: str = ""
    pci_bus_id: str = ""
    serial: str = ""
    minor: int | None = None
    product: str = ""
    mig: bool | None = None
    recovery_action: RecoveryAction = RecoveryAction()
    epoch: int = 1
    """Counts, within this boot, driver loads and observed resets."""
    epoch_started: datetime | None = None
    xids: tuple[XidRecord, ...] = ()
    memory: MemoryHealth = MemoryHealth()
    instances: tuple[MigInstance, ...] = ()


class SourceHealth(Entry, frozen=True, kw_only=True):
    """One sensor: `nvml`, `kmsg`, `podresources`, later `dcgm`."""

    name: str
    up: bool
    reason: str = ""
    """A stable CamelCase word, such as LibraryNotFound, Hung, Stuck, PermissionDenied."""
    message: str = ""
    """A sentence that says what to do."""
    last_success: datetime | None = None


class Cursor(msgspec.Struct, frozen=True, kw_only=True, rename=kubernetes_case):
    """Up to where signals are counted in this report; a restarting agent goes on from here."""

    kernel_sequence: int | None = None
    """Sequence number of the last kernel-log record read in this boot."""
    sensor_run: str = ""
    """Identity of the sensor process that the next number belongs to."""
    signal_sequence: int = 0
    """Number of the last signal taken from that sensor process."""


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
    observed_at: datetime | None = None
    cursor: Cursor = Cursor()
    sources: tuple[SourceHealth, ...] = ()
    gpus: tuple[GpuHealth, ...] = ()
    xids_dropped: int = 0
    """Least severe XID records left out because the report would grow too large."""
    summary: Summary = Summary()


class ObjectMeta(Entry, frozen=True):
    """The parts of Kubernetes metadata that Draguard reads."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class NodeDeviceHealth(msgspec.Struct, frozen=True, rename=kubernetes_case):
    """The object as the API server stores it."""

    metadata: ObjectMeta
    status: NodeHealth = NodeHealth()
