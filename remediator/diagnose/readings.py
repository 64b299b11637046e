"""What NVML and the PCI bus read of a GPU, into faults: recovery action, absence, memory.

The recovery action is the best source. A line with XID 154 reports a change before NVML was read
again, so it counts as that action until a reading outranks it, or until a new epoch of a GPU that
answers. A line with "none" proves nothing by itself: recovery needs a reading.

*Lost* is the agent's positive finding (a live NVML that listed the GPU no longer does, while it is
still offered), and needs no XID. A GPU that was never listed since the boot is a finding too, but a
doubtful one: right after a boot the published slices may still be those of before. So it must have
been missing for a while, and it evicts no pod.

NVML hides remaps while a GPU has MIG instances, so such a value may be old. A failure lasts as long
as the board and counts at any age; a pending remap ends with the epoch; and a good value from
before the epoch proves nothing. Pure.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from exporter.model.node_health import GpuHealth, NodeHealth
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.fault import ALONE, NEAR, Fault, FaultClass, Need, Surroundings


class ActionLevel(msgspec.Struct, frozen=True):
    """One value of NVML field 230."""

    fault_class: FaultClass
    needs: Need
    name: str
    spares: bool = False
    """Running work may finish: never a reason to evict."""


ACTION_LEVELS: dict[int, ActionLevel] = {
    1: ActionLevel("gpu", "gpu-reset", "GPU reset"),
    2: ActionLevel("node", "node-reboot", "node reboot"),
    3: ActionLevel("fabric", "fabric-recovery", "drain P2P", spares=True),
    4: ActionLevel("gpu", "gpu-reset", "drain and reset", spares=True),
    5: ActionLevel("fabric", "fabric-recovery", "recover IMEX domain", spares=True),
    6: ActionLevel("gpu", "gpu-reset", "bus reset"),
    7: ActionLevel("node", "node-reboot", "system reboot"),
}
"""A value that is not here is newer than this version: keep new work away and demand a user."""

_NEWER = ActionLevel("gpu", "human", "an action this version does not know", spares=True)


class Requested(msgspec.Struct, frozen=True):
    """An action that the driver requests now."""

    value: int
    since: datetime
    received_at: datetime | None
    """When it was last reported, None when unknown."""
    logged: bool = False
    """XID 154 reported it, and NVML was not read since."""

    @property
    def level(self) -> ActionLevel:
        return ACTION_LEVELS.get(self.value, _NEWER)

    def in_words(self) -> str:
        return f"recovery action {self.value} ({self.level.name})"

    def after(self, moment: datetime) -> bool:
        """Whether it was reported after a moment; the driver logs 154 right behind its reason."""
        if self.received_at is None:
            return False
        # A reading of the same moment may have been taken just before it.
        return self.received_at >= moment if self.logged else self.received_at > moment


def requested_action(gpu: GpuHealth) -> Requested | None:
    """Return the action that stands, None when none is known to."""
    action = gpu.recovery_action
    if action.logged and action.logged_at is not None and not _is_outranked(gpu, action.logged_at):
        return Requested(action.logged, action.logged_at, action.logged_at, logged=True)
    if not action.value:
        return None
    return Requested(action.value, action.since or gpu.presence_since, action.observed_at)


UNREAD_FOR = timedelta(hours=1)
"""A driver whose recovery action cannot be read for so long will not say itself what is over. A
driver upgrade takes less."""


def unread_for_long(gpu: GpuHealth, reported_at: datetime | None) -> bool:
    """Whether a driver that may have a recovery action has failed to say it for long.

    What it requested last stands: a user's word may be older than that.
    """
    action = gpu.recovery_action
    if reported_at is None or action.supported is False or action.value:
        return False
    # Where nothing was read, or nothing but that there is no value, since that was so.
    known = action.since if action.value is None else action.unread_since or action.observed_at
    since = known or gpu.presence_since
    return reported_at - max(since, gpu.epoch_started or since) >= UNREAD_FOR


def no_action_read(gpu: GpuHealth, reported_at: datetime | None) -> str:
    """Return why the driver will not say itself that a fault is over, "" while it may."""
    if gpu.recovery_action.supported is False:
        return "the driver has no recovery action"
    silent = unread_for_long(gpu, reported_at)
    return "the recovery action could not be read for an hour" if silent else ""


def without_action(gpu: GpuHealth, reported_at: datetime | None) -> GpuHealth:
    """Return a GPU as if its driver had no recovery action, and had been queried for it."""
    action = msgspec.structs.replace(
        gpu.recovery_action,
        support="Unsupported",
        value=None,
        since=None,
        observed_at=reported_at,
        unread_since=None,
        none_at=gpu.recovery_action.last_none_at,
        # A logged request that a reading has withdrawn stays so.
        logged=gpu.recovery_action.logged if requested_action(gpu) else None,
    )
    return msgspec.structs.replace(gpu, recovery_action=action)


def action_faults(gpu: GpuHealth, around: Surroundings) -> Iterator[Fault]:
    """Return the fault that the action is by itself."""
    action = requested_action(gpu)
    if action is None:
        return
    level = action.level
    source = "XID 154 reports that the driver requests" if action.logged else "the driver requests"
    doubt = f"under {action.in_words()} running work may finish" if level.spares else ""
    if action.logged:
        doubt = doubt or f"{ALONE}: the recovery action has not been read since"
    # The reset may have been what it requested.
    answers = gpu.presence == "Present"
    before_reset = answers and not action.logged and _read_in_epoch(gpu) is False
    if before_reset:
        doubt = f"{action.in_words()} was read before the last reset, and none could be since"
    syslog = gpu.recovery_action.logged_source == "syslog"
    yield Fault(
        fault_class=level.fault_class,
        cause=f"recovery-action-{action.value}",
        needs="human" if before_reset else level.needs,
        last_seen=action.since,
        evidence=f"{source} {action.in_words()}",
        certain=not doubt,
        doubt=doubt,
        sources=("RecoveryAction",) if not action.logged else ("Syslog",) if syslog else ("Kmsg",),
        unprovable="NvmlUnavailable" if action.logged and around.up("nvml") is False else None,
    )


def ended_since(gpu: GpuHealth, last_seen: datetime, epoch: int) -> datetime | None:
    """Return since when something that was last seen in an epoch is over, None while it stands.

    A new epoch (reset, driver load) ends it, or a recovery action of 0 that was read afterwards.
    What is over stays over while NVML cannot be read, and under a later action: a driver that
    reported 0 after the error requests that action for another reason. But an action within `NEAR`
    of the error may be the answer to it, and the 0 may have been read too early. While the GPU is
    lost nothing is over.
    """
    if gpu.presence == "Lost":
        return None
    # A reset of a GPU that has not answered since may have failed. An error may be counted before
    # the epoch that it came in: NVML was read meanwhile, or the agent was away.
    began_later = gpu.epoch_started is None or gpu.epoch_started > last_seen
    if epoch < gpu.epoch and began_later and _has_answered(gpu):
        return max(gpu.epoch_started or gpu.presence_since, last_seen)
    if epoch < gpu.epoch and was_answered_after(gpu, last_seen):
        return last_seen
    action = gpu.recovery_action
    read = action.observed_at
    if (
        action.value == 0
        and requested_action(gpu) is None
        and read is not None
        and read > last_seen
    ):
        # A GPU that came back a moment ago cannot have been well for longer.
        return max(action.since or last_seen, last_seen, gpu.presence_since)
    # A driver upgrade takes NVML away from many nodes at once. Without what was read before it, old
    # errors would stand again on all of them.
    none_at = action.last_none_at
    if none_at is not None and none_at - last_seen > NEAR:
        return last_seen
    return None


def was_answered_after(gpu: GpuHealth, moment: datetime) -> bool:
    """Whether an epoch that began after a moment was answered, also one before the present epoch.

    What such an epoch has ended stays so while NVML is away or a driver is loaded once more.
    """
    began = gpu.epoch_started if _has_answered(gpu) else gpu.answered_epoch_started
    return began is not None and began > moment


def _has_answered(gpu: GpuHealth) -> bool:
    """Whether a GPU answers, or did so earlier in this epoch."""
    # An earlier answer counts while NVML is down: each failure of it would taint the GPU anew.
    return gpu.presence == "Present" or _read_in_epoch(gpu) is True


def _read_in_epoch(gpu: GpuHealth) -> bool | None:
    """Whether the recovery action was read in this epoch, None where either has no date."""
    read, begun = gpu.recovery_action.observed_at, gpu.epoch_started
    return None if read is None or begun is None else read >= begun


def _is_outranked(gpu: GpuHealth, logged_at: datetime) -> bool:
    action, begun = gpu.recovery_action, gpu.epoch_started
    read = None if action.value is None else action.observed_at
    # A reset that the GPU has not answered yet may be the one that failed.
    if gpu.presence == "Present" and begun is not None and begun > logged_at:
        return True
    return read is not None and read > logged_at


NEVER_LISTED = "NeverListed"
"""Presence reason of a GPU that only the kernel log names (agent/report/gpu_state.py)."""
HUNG, NOT_LISTED, NOT_ON_BUS = "Hung", "NotListed", "NotOnBus"
"""Further reasons of it: a call on the GPU hangs; a live NVML, or the kernel's PCI list, no longer
has it."""
UNPUBLISHED_LATER = "NotListedThenUnpublished"
"""NVML no longer had it while it was published, and then it was no longer published."""
NOT_REPORTED = "NotReported"
"""The same, of a GPU that only the slices name: our own word."""
MISSING_FOR = timedelta(minutes=1)
"""As long as a GPU must be missed to be lost."""


def absence_faults(gpu: GpuHealth, around: Surroundings) -> Iterator[Fault]:
    if gpu.presence == "Lost":
        yield Fault(
            fault_class="lost",
            cause="gpu-lost",
            needs="node-reboot",
            last_seen=gpu.presence_since,
            evidence=f"the GPU is lost: {gpu.presence_reason or 'NVML no longer lists it'}",
            certain=True,
            sources=("GpuLost",),
        )
    elif gpu.presence_reason in (NEVER_LISTED, NOT_REPORTED) and _missing(gpu, around):
        yield Fault(
            fault_class="lost",
            cause="gpu-missing",
            needs="human",  # of a GPU that was here before a reboot, `needs` knows more
            last_seen=gpu.presence_since,
            evidence="the GPU is published, and a live NVML has not listed it since the boot",
            doubt="it was not seen in this boot, so what is published may be of before",
        )


def off_bus(gpu: GpuHealth) -> bool:
    """Whether PCI shows that the GPU is not there: its config space, or the kernel's list."""
    return gpu.config_space.off_bus or gpu.presence_reason == NOT_ON_BUS


def unlisted_gpus(report: NodeHealth, inventory: Iterable[SliceDevice]) -> dict[str, GpuHealth]:
    """Return entries for GPUs that a node publishes and its report misses, by UUID.

    The verdict decides whether one of them is a fault.
    """
    known = {gpu.uuid for gpu in report.gpus}
    missed = set(report.inventory.missing)
    # Since the first GPU of the node was seen: a neighbour that comes later must not make one that
    # never came look young.
    begun = min((gpu.presence_since for gpu in report.gpus), default=report.observed_at)
    found: dict[str, GpuHealth] = {}
    for device in inventory:
        uuid = device.parent_uuid or device.uuid
        bus = device.pci_bus_id
        # A VFIO device is given to a virtual machine: NVML does not list it, and none is missing.
        if device.kind not in ("gpu", "mig") or uuid is None or uuid in known or begun is None:
            continue
        if missed & {uuid, bus}:
            found[uuid] = GpuHealth(
                uuid=uuid,
                presence="Unknown",
                presence_since=begun,
                presence_reason=NOT_REPORTED,
                pci_bus_id=bus,
            )
    return found


def _missing(gpu: GpuHealth, around: Surroundings) -> bool:
    named = {gpu.uuid, gpu.pci_bus_id} & set(around.inventory.missing)
    if not named or around.up("nvml") is not True or around.reported_at is None:
        return False
    # NVML lists a GPU that it cannot name: it may be this one.
    if around.inventory.unidentified:
        return False
    return around.reported_at - gpu.presence_since >= MISSING_FOR


class MemorySignal(msgspec.Struct, frozen=True):
    """One flag of `node_health.MemoryHealth` and what it means when it is set."""

    flag: str
    cause: str
    fault_class: FaultClass
    needs: Need
    evidence: str
    doubt: str
    is_remap: bool = False
    """Hidden under MIG, so that it has an age."""


MEMORY_SIGNALS: tuple[MemorySignal, ...] = (
    MemorySignal(
        "row_remap_failed",
        "row-remap-failure",
        "memory",
        "replacement",
        "a memory row could not be remapped; the board needs replacement",
        "running work may go on after a failed row remap",
        is_remap=True,
    ),
    MemorySignal(
        "sram_threshold_exceeded",
        "sram-threshold",
        "memory",
        "diagnosis",
        "uncorrectable SRAM errors are over the threshold; the board needs field diagnostics",
        "running work may go on over the SRAM threshold",
    ),
    MemorySignal(
        "row_remap_pending",
        "row-remap-pending",
        "pending",
        "gpu-reset",
        "a row remap waits for a reset",
        "running work may go on while a row remap waits",
        is_remap=True,
    ),
    MemorySignal(
        "page_retirement_pending",
        "page-retirement-pending",
        "pending",
        "gpu-reset",
        "a page retirement waits for a reset",
        "running work may go on while a page retirement waits",
    ),
)


def memory_faults(gpu: GpuHealth) -> Iterator[Fault]:
    read = gpu.memory.remap_observed_at
    age = f" (last read at {read.isoformat(timespec='seconds')})" if gpu.mig and read else ""
    for signal in MEMORY_SIGNALS:
        if getattr(gpu.memory, signal.flag) == "True" and not _is_carried_out(gpu, signal):
            yield Fault(
                fault_class=signal.fault_class,
                cause=signal.cause,
                needs=signal.needs,
                last_seen=gpu.presence_since,
                evidence=signal.evidence + (age if signal.is_remap else ""),
                doubt=signal.doubt,
            )


def remaps_unread(gpu: GpuHealth) -> str:
    """Return why it is unknown whether remapping works, "" when NVML read it in this epoch."""
    if gpu.memory.remap_failure is None:
        return "whether rows can be remapped could not be read"
    if _read_before(gpu, gpu.epoch_started):
        return "whether rows can be remapped was last read before the GPU was reset"
    return ""


def remaps_read_well(gpu: GpuHealth, since: datetime) -> bool:
    """Whether NVML reported after a moment, and in this epoch, that no remap has failed."""
    read = gpu.memory.remap_observed_at
    fresh = read is not None and read > since and not remaps_unread(gpu)
    return fresh and gpu.memory.remap_failure is False


def _is_carried_out(gpu: GpuHealth, signal: MemorySignal) -> bool:
    """A reset carries out what was pending; an older value is of before."""
    return signal.flag == "row_remap_pending" and _read_before(gpu, gpu.epoch_started)


def _read_before(gpu: GpuHealth, moment: datetime | None) -> bool:
    read = gpu.memory.remap_observed_at
    return read is not None and moment is not None and read < moment
