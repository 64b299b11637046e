"""One GPU's reading, or the lack of one, into what the report says of that GPU.

Lost is a positive finding and stays until the GPU is seen again; a source that
is down makes Unknown. A GPU that comes back from Lost, or whose request for a reset
goes back to none, was reset: its epoch ends. What was taken away on purpose is Unknown
and never Lost: let go, as long as the release stands, or unbound. Pure: time comes in.
"""

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from exporter.agent.report import condition
from exporter.model.node_health import GpuHealth, MigInstance, RecoveryAction
from exporter.model.node_health_words import Presence, mig_mode
from exporter.model.readings import GpuReading

NOT_LISTED = "NotListed"
"""A live NVML no longer lists the GPU."""
NOT_IDENTIFIED = "NotIdentified"
"""NVML lists GPUs of which it is not known who they are; this one may be one of them."""
NOT_PUBLISHED = "NotPublished"
"""NVML does not list it and the driver does not publish it: taken away on purpose."""
UNPUBLISHED_LATER = "NotListedThenUnpublished"
"""It was missed while it was published. A driver that starts again publishes what NVML lists."""
NOT_ON_BUS = "NotOnBus"
"""The kernel no longer lists it on PCI: removed there, or unplugged."""
SET_ASIDE = "SetAside"
"""It is on the bus, and another driver than NVIDIA's has it, or none."""
RELEASED = "Released"
"""Let go on request (`Settings.release_file`), to be reset or given to a virtual machine."""
DUPLICATE_UUID = "DuplicateUUID"
"""NVML lists two GPUs with this UUID: nothing can be said of either by this name."""
NEVER_LISTED = "NeverListed"
"""Only the kernel log spoke of it."""
DRIVER_RELOADED = "DriverReloaded"
HUNG = "Hung"
IS_LOST = "GpuIsLost"
"""NVML_ERROR_GPU_IS_LOST."""

LogSource = Literal["kmsg", "syslog"]
Place = Literal["here", "aside", "gone"]
"""Where the kernel has a GPU: with NVIDIA's driver, with another or none, not on PCI."""

MAX_INSTANCES = 32
"""MIG slices kept per GPU; no product has more than seven."""
MAX_TEXT = 96
"""Characters kept of names that NVML gives (its own buffers have 96 bytes)."""

_UNLOADED = (RELEASED, "NvmlDriverNotLoaded", "NvmlDriverReloaded", "NvmlVersionMismatch")
_ELSEWHERE: dict[Place | None, str] = {"aside": SET_ASIDE, "gone": NOT_ON_BUS}
_MISSED = (NOT_LISTED, UNPUBLISHED_LATER)
_KEEPS = (NEVER_LISTED, DRIVER_RELOADED, RELEASED)
"""Reasons that tell more than that the GPU is not there, so that absence does not replace them."""
CLEARED_BY_RESET = frozenset({1, 2, 4, 6, 7})
"""Recovery actions that a reset alone ends. Action 3 (drain P2P) ends with the work that uses the
links, and 5 (recover the IMEX domain) elsewhere (nvml.h)."""


def blank(uuid: str, at: datetime) -> GpuHealth:
    """Return the entry of a GPU that is listed for the first time."""
    return GpuHealth(uuid=uuid, presence="Present", presence_since=at)


def read(
    gpu: GpuHealth, reading: GpuReading, at: datetime, *, unread_after: timedelta
) -> GpuHealth:
    """Return the entry after a reading by a live NVML.

    A recovery action of which the last reading is older than `unread_after` can no longer be read.
    """
    if reading.released:
        # A lost GPU that is let go stays lost: its coming back is what ends the epoch.
        return gpu if gpu.presence == "Lost" else in_state(gpu, "Unknown", RELEASED, at)
    action = _recovery(gpu.recovery_action, reading, at, unread_after)
    answers = not (reading.lost or reading.hung_call)
    cleared = gpu.recovery_action.value in CLEARED_BY_RESET and action.value == 0
    back = gpu.presence == "Lost" and not _has_load_since_lost(gpu)
    reset = answers and (cleared or back)
    before = next_epoch(gpu, at) if reset else gpu
    after = msgspec.structs.replace(
        _identified(before, reading, at),
        recovery_action=action,
        instances=_instances(before.instances, reading),
    )
    if reading.lost:
        return in_state(after, "Lost", IS_LOST, at)
    if reading.hung_call:
        return in_state(after, "Unknown", HUNG, at)
    after = msgspec.structs.replace(after, answered_epoch_started=after.epoch_started)
    return condition.updated(in_state(after, "Present", "", at), reading, at)


def ambiguous(gpu: GpuHealth, at: datetime) -> GpuHealth:
    """Return the entry while two GPUs bear its UUID; its records are of before."""
    return in_state(gpu, "Unknown", DUPLICATE_UUID, at)


def unread(gpu: GpuHealth, reason: str, at: datetime) -> GpuHealth:
    """Return the entry while NVML cannot be queried at all."""
    if gpu.presence == "Lost" or gpu.presence_reason in _KEEPS:
        return gpu
    return in_state(gpu, "Unknown", reason, at)


def absent(
    gpu: GpuHealth,
    at: datetime,
    *,
    missed_at: datetime,
    published: bool | None,
    place: Place | None = None,
    all_identified: bool = True,
    lost_after: timedelta,
) -> GpuHealth:
    """Return the entry when a live NVML lists other GPUs, but not this one.

    `missed_at` is when it did so last, which may be long before `at`. `published` says
    whether the DRA driver still offers it as a GPU, `place` where the kernel has it; None where
    that is not known. `all_identified`: it is none of those that NVML lists.
    """
    # The kernel has it with NVIDIA's driver: it is let go no more, or was not there after a load.
    left = place == "here" and gpu.presence_reason != NEVER_LISTED
    if gpu.presence == "Lost" or (gpu.presence_reason in _KEEPS and not left):
        return gpu
    if place is None and gpu.presence_reason in _ELSEWHERE.values():
        return gpu  # it was found there, and nobody looks any more
    elsewhere = _ELSEWHERE.get(place, "")
    # What was unpublished on purpose is no loss when it is unplugged after that.
    purpose = gpu.presence_reason == NOT_PUBLISHED and place == "gone"
    if published is False and (purpose or not elsewhere):
        missed = all_identified and gpu.presence_reason in _MISSED
        elsewhere = UNPUBLISHED_LATER if missed else NOT_PUBLISHED
    if elsewhere or not all_identified:
        return in_state(gpu, "Unknown", elsewhere or NOT_IDENTIFIED, at)
    if gpu.presence_reason == NOT_LISTED and gpu.presence_since > at:
        # By a clock that was wrong: it is missed from now on.
        return msgspec.structs.replace(gpu, presence_since=at)
    if gpu.presence_reason == NOT_LISTED and missed_at - gpu.presence_since >= lost_after:
        return in_state(gpu, "Lost", NOT_LISTED, at)
    return in_state(gpu, "Unknown", NOT_LISTED, at)


def missed_as_long(gpu: GpuHealth, step: timedelta) -> GpuHealth:
    """Return the entry after the clock was set forwards: since when a GPU is missed moves along."""
    if gpu.presence_reason != NOT_LISTED or gpu.presence == "Lost":
        return gpu
    return msgspec.structs.replace(gpu, presence_since=gpu.presence_since + step)


def driver_loaded(gpu: GpuHealth, at: datetime) -> GpuHealth:
    """Return the entry after the kernel said that the driver was loaded at `at`.

    A new sensor reads the log from its start, so the load that this boot began
    with may be reported late; it starts no new epoch.
    """
    begun = gpu.epoch_started
    if begun is not None and at <= begun:
        return gpu
    if begun is None and at <= gpu.presence_since:
        return msgspec.structs.replace(gpu, epoch_started=at)
    after = next_epoch(gpu, at)
    # A load alone brings no lost GPU back.
    if at <= gpu.presence_since or gpu.presence == "Lost":
        return after
    return in_state(after, "Unknown", DRIVER_RELOADED, at)


def other_driver(gpu: GpuHealth, at: datetime) -> GpuHealth:
    """Return the entry when another driver answers than the one before.

    It may have no recovery action, or another one. The kernel's own line about the load may have
    been counted already.
    """
    action = msgspec.structs.replace(
        gpu.recovery_action,
        support="Unknown",
        value=None,
        since=None,
        observed_at=None,
        none_at=None,
    )
    gpu = msgspec.structs.replace(gpu, recovery_action=action)
    begun = gpu.presence_reason == DRIVER_RELOADED or _has_load_since_lost(gpu)
    return gpu if begun else next_epoch(gpu, at)


def _has_load_since_lost(gpu: GpuHealth) -> bool:
    """Whether the load of a driver has begun an epoch since a GPU was lost.

    A second one, dated when it is read again, would end errors that came in between.
    """
    begun = gpu.epoch_started
    return gpu.presence == "Lost" and begun is not None and begun > gpu.presence_since


def let_go_of(gpu: GpuHealth) -> bool:
    """Whether NVML says that no driver has this GPU, so that one may have been loaded."""
    return gpu.presence_reason in _UNLOADED


def action_logged(
    gpu: GpuHealth, value: int, at: datetime, now: datetime, source: LogSource
) -> GpuHealth:
    """Return the entry after the kernel logged at `at` another requested recovery action."""
    action = gpu.recovery_action
    if action.logged_at is not None and at < action.logged_at <= now:
        return gpu
    action = msgspec.structs.replace(action, logged=value, logged_at=at, logged_source=source)
    return msgspec.structs.replace(gpu, recovery_action=action)


def next_epoch(gpu: GpuHealth, at: datetime) -> GpuHealth:
    return msgspec.structs.replace(
        gpu, epoch=gpu.epoch + 1, epoch_started=at, memory=condition.after_reset(gpu.memory)
    )


def epoch_at(gpu: GpuHealth, at: datetime, now: datetime) -> int:
    """Return the epoch that a moment belongs to; 0 is before all that was observed.

    An epoch that begins in the future began before the clock was set back. A new error then
    belongs to that epoch: counted in the epoch before, it would be over, and a sick GPU would
    pass for healthy.
    """
    begun = gpu.epoch_started
    late = begun is None or at >= begun or begun > now
    return gpu.epoch if late else max(0, gpu.epoch - 1)


def in_state(gpu: GpuHealth, presence: Presence, reason: str, at: datetime) -> GpuHealth:
    if (gpu.presence, gpu.presence_reason) == (presence, reason):
        return gpu
    # "Since" is of the finding: Lost counts from when the GPU was first missed.
    since = gpu.presence_since if presence == "Lost" and reason == gpu.presence_reason else at
    return msgspec.structs.replace(
        gpu, presence=presence, presence_reason=reason, presence_since=since
    )


def _recovery(
    old: RecoveryAction, reading: GpuReading, at: datetime, unread_after: timedelta
) -> RecoveryAction:
    # A driver that had the field does not lose it: such a reading failed.
    if reading.recovery_supported is None or (old.supported and not reading.recovery_supported):
        late = old.observed_at is not None and at - old.observed_at > unread_after
        return msgspec.structs.replace(old, unread_since=old.unread_since or at) if late else old
    if not reading.recovery_supported:
        return msgspec.structs.replace(
            old, support="Unsupported", observed_at=at, unread_since=None
        )
    value = reading.recovery_action
    return msgspec.structs.replace(
        old,
        support="Supported",
        value=value,
        since=old.since if old.value == value else at,
        observed_at=at,
        none_at=None if value == 0 else old.observed_at if old.value == 0 else old.none_at,
        unread_since=None,
    )


def _identified(gpu: GpuHealth, reading: GpuReading, at: datetime) -> GpuHealth:
    mode = gpu.mig_mode if reading.mig is None else mig_mode(reading.mig)
    changed = gpu.mig is not None and mode != gpu.mig_mode
    return msgspec.structs.replace(
        gpu,
        pci_bus_id=reading.bus_id or gpu.pci_bus_id,
        serial=reading.serial[:MAX_TEXT] or gpu.serial,
        minor=gpu.minor if reading.minor is None else reading.minor,
        product=reading.product[:MAX_TEXT] or gpu.product,
        mig_mode=mode,
        mig_since=at if changed else gpu.mig_since,
    )


def _instances(old: tuple[MigInstance, ...], reading: GpuReading) -> tuple[MigInstance, ...]:
    if reading.mig is False:
        return ()
    if reading.instances is None:
        return old
    parts = sorted(reading.instances, key=lambda part: (part.gi, part.ci))
    return tuple(
        MigInstance(
            uuid=part.uuid[:MAX_TEXT],
            gi=part.gi,
            ci=part.ci,
            profile=part.profile[:MAX_TEXT],
            gi_profile_id=part.gi_profile_id,
            placement_start=part.placement_start,
            placement_size=part.placement_size,
        )
        for part in parts[:MAX_INSTANCES]
    )
