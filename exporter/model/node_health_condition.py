"""The part of a report that says how a GPU's memory, fabric, links, clocks and bus are. Pure."""

from datetime import timedelta

import msgspec

from exporter.model.node_health_words import Answer, ConfigState, known
from kubeapi.types import Entry, Moment


class MemoryHealth(Entry, frozen=True, kw_only=True):
    """ECC, row-remapping and page-retirement state; each None where NVML cannot say.

    NVML hides remaps on a GPU with MIG instances: the last value stays, with its age.
    """

    dbe_volatile: int | None = None
    """nvmlDeviceGetTotalEccErrors, uncorrected: errors since the driver loaded."""
    dbe_aggregate: int | None = None
    """The same in the GPU's life."""
    row_remap_pending: Answer = "Unknown"
    """nvmlDeviceGetRemappedRows: a remap waits for a reset. Forgotten with a new epoch."""
    row_remap_failed: Answer = "Unknown"
    """nvmlDeviceGetRemappedRows: a row could not be remapped."""
    remap_observed_at: Moment | None = msgspec.field(default=None, name="rowRemapObservedTime")
    """When the two were last read."""
    sram_threshold_exceeded: Answer = "Unknown"
    """nvmlDeviceGetSramEccErrorStatus.bThresholdExceeded; needs root."""
    page_retirement_pending: Answer = "Unknown"
    """nvmlDeviceGetRetiredPagesPendingStatus; GPUs before Ampere."""
    rose_at: Moment | None = msgspec.field(default=None, name="lastIncreaseTime")
    """The last reading in which one of the counts had risen, or one of the states begun."""

    @property
    def remap_pending(self) -> bool | None:
        return known(self.row_remap_pending, "True", "False")

    @property
    def remap_failure(self) -> bool | None:
        return known(self.row_remap_failed, "True", "False")

    @property
    def sram_threshold(self) -> bool | None:
        return known(self.sram_threshold_exceeded, "True", "False")

    @property
    def retired_pending(self) -> bool | None:
        return known(self.page_retirement_pending, "True", "False")


class FabricHealth(Entry, frozen=True, kw_only=True):
    """Registration with the NVSwitch fabric (nvmlDeviceGetGpuFabricInfoV)."""

    state: int | None = msgspec.field(default=None, name="stateCode")
    """0 not supported, 1 not started, 2 in progress, 3 completed."""
    state_name: str = msgspec.field(default="", name="state")
    """The name of `state`, for people."""
    status: int | None = msgspec.field(default=None, name="statusCode")
    """nvmlReturn_t of the registration; it counts only in state 3."""
    health_mask: int | None = None
    """Fields of 2 and 4 bits (nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_*)."""
    health_summary: int | None = msgspec.field(default=None, name="healthSummaryCode")
    """0 not supported, 1 healthy, 2 unhealthy, 3 limited capacity."""
    summary_name: str = msgspec.field(default="", name="healthSummary")
    """The name of `health_summary`, for people."""
    clique: int | None = None
    cluster_uuid: str = ""


TRAINS = timedelta(minutes=10)
"""After a driver load or a reset NVML answers before all links are trained (on NVSwitch machines by
the Fabric Manager). So a link that is down then has not failed yet, nor one of a GPU that was away:
it may have been reset, and no source reports that."""


class NvlinkHealth(Entry, frozen=True, kw_only=True):
    """Which NVLinks are active (nvmlDeviceGetNvLinkState), as each was last read.

    Error counters are left to the page: they grow without saying anything of now.
    """

    up: tuple[int, ...] = ()
    down: tuple[int, ...] = ()
    """Also links that no board has wired; those that were lost are in `failed`."""
    failed: tuple[int, ...] = ()
    """Of `down`, those that were up earlier in this boot and did not go down under MIG."""


class Slowdown(Entry, frozen=True, kw_only=True):
    """One reason for lowered clocks that is a finding about hardware or cooling.

    It stays for a while after it was last seen, so that a flapping one is one finding.
    """

    reason: str
    """`HwSlowdown`, `HwThermal`, `HwPowerBrake` or `SwThermal`."""
    since: Moment = msgspec.field(name="startTime")
    last_seen: Moment = msgspec.field(name="lastSeenTime")


class ConfigSpace(Entry, frozen=True, kw_only=True):
    """Whether the GPU answers on PCI, as the kernel reads its config space (sysfs).

    A second source beside kernel log and NVML: no program can make it up.
    """

    state: ConfigState = "Unknown"
    """AllOnes: it fell off the bus. Gone: it was there in this boot, and the kernel lists it no
    more. Unknown: it cannot be read, was let go, or NVIDIA's driver does not hold it."""
    since: Moment | None = msgspec.field(default=None, name="sinceTime")
    """First reading of this state in a row."""
    answered_at: Moment | None = msgspec.field(default=None, name="lastAnswerTime")
    """The last reading in which it answered, in this boot."""

    @property
    def off_bus(self) -> bool:
        """Whether it is positively not there."""
        return self.state in ("AllOnes", "Gone")
