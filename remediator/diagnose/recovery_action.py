"""The recovery action: what the driver requests, and whether it was reported since.

It is the best source. A line with XID 154 reports a change before NVML was read again, so it counts
as that action until a reading outranks it, or until a new epoch of a GPU that answers. A line with
"none" proves nothing by itself: recovery needs a reading. Pure.
"""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from exporter.model.node_health import GpuHealth
from remediator.diagnose.fault import ALONE, NEAR, Fault, FaultClass, Need


class Level(msgspec.Struct, frozen=True):
    """One value of NVML field 230."""

    fault_class: FaultClass
    needs: Need
    name: str
    spares: bool = False
    """Running work may finish: never a reason to evict."""


LEVELS: dict[int, Level] = {
    1: Level("gpu", "gpu-reset", "GPU reset"),
    2: Level("node", "node-reboot", "node reboot"),
    3: Level("fabric", "fabric-recovery", "drain P2P", spares=True),
    4: Level("gpu", "gpu-reset", "drain and reset", spares=True),
    5: Level("fabric", "fabric-recovery", "recover IMEX domain", spares=True),
    6: Level("gpu", "gpu-reset", "bus reset"),
    7: Level("node", "node-reboot", "system reboot"),
}
"""A value that is not here is newer than this version: keep new work away and demand a user."""

_NEWER = Level("gpu", "human", "an action this version does not know", spares=True)


class Requested(msgspec.Struct, frozen=True):
    """An action that the driver requests now."""

    value: int
    since: datetime
    received_at: datetime | None
    """When it was last reported, None when unknown."""
    logged: bool = False
    """XID 154 reported it, and NVML was not read since."""

    @property
    def level(self) -> Level:
        return LEVELS.get(self.value, _NEWER)

    def in_words(self) -> str:
        return f"recovery action {self.value} ({self.level.name})"

    def after(self, moment: datetime) -> bool:
        """Whether it was reported after a moment; the driver logs 154 right behind its reason."""
        if self.received_at is None:
            return False
        return self.received_at >= moment if self.logged else self.received_at > moment


def requested_action(gpu: GpuHealth) -> Requested | None:
    """Return the action that stands, None when none is known to."""
    action = gpu.recovery_action
    if action.logged and action.logged_at is not None and not _is_outranked(gpu, action.logged_at):
        return Requested(action.logged, action.logged_at, action.logged_at, logged=True)
    if not action.value:
        return None
    return Requested(action.value, action.since or gpu.presence_since, action.observed_at)


def faults(gpu: GpuHealth) -> Iterator[Fault]:
    """Return the fault that the action is by itself."""
    action = requested_action(gpu)
    if action is None:
        return
    level = action.level
    source = "XID 154 reports that the driver requests" if action.logged else "the driver requests"
    doubt = f"under {action.in_words()} running work may finish" if level.spares else ""
    if action.logged:
        doubt = doubt or f"{ALONE}: the recovery action has not been read since"
    syslog = gpu.recovery_action.logged_source == "syslog"
    yield Fault(
        fault_class=level.fault_class,
        cause=f"recovery-action-{action.value}",
        needs=level.needs,
        last_seen=action.since,
        evidence=f"{source} {action.in_words()}",
        certain=not doubt,
        doubt=doubt,
        sources=("RecoveryAction",) if not action.logged else ("Syslog",) if syslog else ("Kmsg",),
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
    if epoch < gpu.epoch and _has_answered(gpu):
        return max(gpu.epoch_started or gpu.presence_since, last_seen)
    action = gpu.recovery_action
    read = action.observed_at
    if (
        action.value == 0
        and requested_action(gpu) is None
        and read is not None
        and read > last_seen
    ):
        return max(action.since or last_seen, last_seen, gpu.presence_since)
    none_at = read if action.value == 0 else action.none_at
    if none_at is not None and none_at - last_seen > NEAR:
        return last_seen
    return None


def _has_answered(gpu: GpuHealth) -> bool:
    """Whether a GPU answers, or did so earlier in this epoch."""
    read, begun = gpu.recovery_action.observed_at, gpu.epoch_started
    return gpu.presence == "Present" or (read is not None and begun is not None and read >= begun)


def _is_outranked(gpu: GpuHealth, logged_at: datetime) -> bool:
    action, begun = gpu.recovery_action, gpu.epoch_started
    read = None if action.value is None else action.observed_at
    if gpu.presence == "Present" and begun is not None and begun > logged_at:
        return True
    return read is not None and read > logged_at
