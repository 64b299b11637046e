"""What a reading says of a GPU's memory, fabric, links and clocks, into the report.

A value that could not be read now stays as it was where it is a lasting state
with a time beside it, and is absent where it is not. Pure: time comes in.
"""

from datetime import datetime, timedelta

import msgspec

from exporter.model.node_health import FabricHealth, GpuHealth, MemoryHealth, NvlinkHealth, Slowdown
from exporter.model.node_health_condition import TRAINS
from exporter.model.node_health_words import answer
from exporter.model.readings import FabricReading, GpuReading, LinkReading

SLOWDOWN_REASONS = (
    (0x08, "HwSlowdown"),
    (0x40, "HwThermal"),
    (0x80, "HwPowerBrake"),
    (0x20, "SwThermal"),
)
"""Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h) that point at hardware or cooling. Idle,
clock settings, a power cap and sync boost are ordinary life."""

SLOWDOWN_KEPT = timedelta(minutes=10)
"""A reason stays for so long after it was last seen: under load such reasons come and go with
every sample, and each change would be a write."""

MAX_LINKS = 72
"""Links kept per GPU; Blackwell has 18."""


def updated(gpu: GpuHealth, reading: GpuReading, at: datetime) -> GpuHealth:
    """Return the entry after a GPU that answers was read at `at`."""
    return msgspec.structs.replace(
        gpu,
        memory=_memory(gpu.memory, reading, at),
        fabric=_fabric(reading.fabric),
        nvlink=_nvlink(gpu, reading.links, at),
        slowdowns=_slowdowns(gpu.slowdowns, reading.slowdown, at),
        omitted=(),
    )


def after_reset(memory: MemoryHealth) -> MemoryHealth:
    """Return what is known of the memory once the GPU was reset: that carries out remaps."""
    return msgspec.structs.replace(memory, row_remap_pending="Unknown")


def _memory(old: MemoryHealth, reading: GpuReading, at: datetime) -> MemoryHealth:
    fresh = MemoryHealth(
        dbe_volatile=reading.dbe_volatile,
        dbe_aggregate=reading.dbe_aggregate,
        row_remap_pending=answer(reading.remap_pending),
        row_remap_failed=answer(reading.remap_failure),
        remap_observed_at=at,
        sram_threshold_exceeded=answer(reading.sram_threshold),
        page_retirement_pending=answer(reading.retired_pending),
        rose_at=at if _rose(old, reading) else old.rose_at,
    )
    if reading.remap_pending is not None or reading.remap_failure is not None:
        return fresh
    return msgspec.structs.replace(
        fresh,
        row_remap_pending=old.row_remap_pending,
        row_remap_failed=old.row_remap_failed,
        remap_observed_at=old.remap_observed_at,
    )


def _rose(old: MemoryHealth, reading: GpuReading) -> bool:
    """Whether an uncorrectable error was counted, or a remap or retirement begun, since."""
    counts = (
        (old.dbe_volatile, reading.dbe_volatile),
        (old.dbe_aggregate, reading.dbe_aggregate),
    )
    states = (
        (old.remap_pending, reading.remap_pending),
        (old.remap_failure, reading.remap_failure),
        (old.retired_pending, reading.retired_pending),
    )
    return any(was is not None and now is not None and now > was for was, now in counts) or any(
        was is False and now is True for was, now in states
    )


def _fabric(reading: FabricReading | None) -> FabricHealth:
    if reading is None or reading.state == 0:
        return FabricHealth()
    return FabricHealth(
        state=reading.state,
        status=reading.status,
        health_mask=reading.health_mask,
        health_summary=reading.health_summary,
        clique=reading.clique,
        cluster_uuid=reading.cluster_uuid[:64],
    )


def _nvlink(gpu: GpuHealth, links: tuple[LinkReading, ...], at: datetime) -> NvlinkHealth:
    """Add what was read now to what is known; a link that could not be read stays as it was.

    So does one that is down while links are trained, also after MIG was turned off, under which
    they are not read. What goes down under MIG has not failed.
    """
    old = gpu.nvlink
    dates = (gpu.epoch_started, gpu.mig_since, gpu.presence_since)
    begun = max(date for date in dates if date is not None)
    # A date of the time to come is of a clock that was set back since.
    trained = not begun <= at < begun + TRAINS
    state = dict.fromkeys(old.up, True) | dict.fromkeys(old.down, False)
    read = {reading.link: reading.up for reading in links if reading.up is not None}
    state |= {link: up for link, up in read.items() if up or trained or link not in state}
    known = sorted(state)[:MAX_LINKS]
    may_fail = {*old.failed} if gpu.mig else {*old.up, *old.failed}
    down = tuple(link for link in known if not state[link])
    return NvlinkHealth(
        up=tuple(link for link in known if state[link]),
        down=down,
        failed=tuple(link for link in down if link in may_fail),
    )


def _slowdowns(old: tuple[Slowdown, ...], mask: int | None, at: datetime) -> tuple[Slowdown, ...]:
    before = {
        slowdown.reason: slowdown for slowdown in old if at - slowdown.last_seen <= SLOWDOWN_KEPT
    }
    now = {reason for bit, reason in SLOWDOWN_REASONS if mask is not None and mask & bit}
    found: list[Slowdown] = []
    for _, reason in SLOWDOWN_REASONS:
        known = before.get(reason)
        if reason in now:
            since = min(known.since, at) if known else at
            found.append(Slowdown(reason=reason, since=since, last_seen=at))
        elif known:
            found.append(known)
    return tuple(found)
