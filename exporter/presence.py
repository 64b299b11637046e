"""One GPU's reading, or the lack of one, into what the report says of that GPU.

Lost is a positive finding and stays until the GPU is seen again; a source that
is down makes Unknown. A GPU that comes back from Lost, or whose recovery action
goes back to none, was reset: its epoch ends. Pure: time comes in.
"""

from datetime import datetime, timedelta

import msgspec

from exporter.readings import GpuReading, MigReading
from exporter.report import GpuHealth, MemoryHealth, MigInstance, Presence, RecoveryAction

NOT_LISTED = "NotListed"
"""A live NVML no longer lists the GPU."""
NOT_PUBLISHED = "NotPublished"
"""NVML does not list it and the driver does not publish it: taken away on purpose."""
NEVER_LISTED = "NeverListed"
"""Only the kernel log spoke of it."""
DRIVER_RELOADED = "DriverReloaded"
HUNG = "Hung"
IS_LOST = "GpuIsLost"
"""NVML_ERROR_GPU_IS_LOST."""


def newly_read(reading: GpuReading, at: datetime) -> GpuHealth:
    """Return the first entry of a GPU."""
    blank = GpuHealth(uuid=reading.uuid, presence="Present", presence_since=at)
    return read(blank, reading, at)


def read(gpu: GpuHealth, reading: GpuReading, at: datetime) -> GpuHealth:
    """Return the entry after a reading by a live NVML."""
    action = _recovery(gpu.recovery_action, reading, at)
    after = msgspec.structs.replace(
        gpu,
        pci_bus_id=reading.bus_id or gpu.pci_bus_id,
        serial=reading.serial or gpu.serial,
        minor=gpu.minor if reading.minor is None else reading.minor,
        product=reading.product or gpu.product,
        mig=gpu.mig if reading.mig is None else reading.mig,
        recovery_action=action,
        memory=_memory(gpu.memory, reading),
        instances=_instances(gpu.instances, reading),
    )
    if reading.lost:
        return in_state(after, "Lost", IS_LOST, at)
    if reading.hung_call:
        return in_state(after, "Unknown", HUNG, at)
    back = gpu.presence == "Lost"
    if back or ((gpu.recovery_action.value or 0) > 0 and action.value == 0):
        after = next_epoch(after, at)
    return in_state(after, "Present", "", at)


def unread(gpu: GpuHealth, reason: str, at: datetime) -> GpuHealth:
    """Return the entry while NVML cannot be asked at all."""
    if gpu.presence == "Lost" or gpu.presence_reason in (NEVER_LISTED, DRIVER_RELOADED):
        return gpu
    return in_state(gpu, "Unknown", reason, at)


def absent(
    gpu: GpuHealth, at: datetime, *, published: bool | None, lost_after: timedelta
) -> GpuHealth:
    """Return the entry when a live NVML lists other GPUs, but not this one.

    `published` says whether the DRA driver still offers it as a GPU, None where
    that is not known.
    """
    if gpu.presence == "Lost" or gpu.presence_reason in (NEVER_LISTED, DRIVER_RELOADED):
        return gpu
    if published is False:
        return in_state(gpu, "Unknown", NOT_PUBLISHED, at)
    if gpu.presence_reason == NOT_LISTED and at - gpu.presence_since >= lost_after:
        return in_state(gpu, "Lost", NOT_LISTED, at)
    return in_state(gpu, "Unknown", NOT_LISTED, at)


def driver_loaded(gpu: GpuHealth, at: datetime) -> GpuHealth:
    """Return the entry after the kernel said that the driver was loaded at `at`.

    A new sensor reads the log from its start, so the load that this boot began
    with may be told late; it starts no new epoch.
    """
    begun = gpu.epoch_started
    if begun is not None and at <= begun:
        return gpu
    if begun is None and at <= gpu.presence_since:
        return msgspec.structs.replace(gpu, epoch_started=at)
    after = next_epoch(gpu, at)
    if at <= gpu.presence_since:
        return after
    return in_state(after, "Unknown", DRIVER_RELOADED, at)


def next_epoch(gpu: GpuHealth, at: datetime) -> GpuHealth:
    return msgspec.structs.replace(gpu, epoch=gpu.epoch + 1, epoch_started=at)


def epoch_at(gpu: GpuHealth, at: datetime) -> int:
    """Return the epoch that a moment belongs to; 0 is before all that was observed."""
    late = gpu.epoch_started is None or at >= gpu.epoch_started
    return gpu.epoch if late else max(0, gpu.epoch - 1)


def in_state(gpu: GpuHealth, presence: Presence, reason: str, at: datetime) -> GpuHealth:
    if (gpu.presence, gpu.presence_reason) == (presence, reason):
        return gpu
    # "Since" is of the finding: Lost counts from when the GPU was first missed.
    since = gpu.presence_since if presence == "Lost" and reason == gpu.presence_reason else at
    return msgspec.structs.replace(
        gpu, presence=presence, presence_reason=reason, presence_since=since
    )


def _recovery(old: RecoveryAction, reading: GpuReading, at: datetime) -> RecoveryAction:
    if reading.recovery_supported is None:
        return old
    if not reading.recovery_supported:
        # A driver that had the field does not lose it: this reading failed.
        return old if old.supported else RecoveryAction(supported=False, observed_at=at)
    since = old.since if old.value == reading.recovery_action else at
    return RecoveryAction(
        supported=True, value=reading.recovery_action, since=since, observed_at=at
    )


def _memory(old: MemoryHealth, reading: GpuReading) -> MemoryHealth:
    if reading.lost or reading.hung_call:
        return old
    return MemoryHealth(
        dbe_volatile=reading.dbe_volatile,
        dbe_aggregate=reading.dbe_aggregate,
        remap_pending=reading.remap_pending,
        remap_failure=reading.remap_failure,
    )


def _instances(old: tuple[MigInstance, ...], reading: GpuReading) -> tuple[MigInstance, ...]:
    if reading.instances is None:
        return old
    return tuple(_instance(one) for one in sorted(reading.instances, key=_gi_ci))


def _gi_ci(one: MigReading) -> tuple[int, int]:
    return one.gi, one.ci


def _instance(one: MigReading) -> MigInstance:
    return MigInstance(
        uuid=one.uuid,
        gi=one.gi,
        ci=one.ci,
        profile=one.profile,
        gi_profile_id=one.gi_profile_id,
        placement_start=one.placement_start,
        placement_size=one.placement_size,
    )
