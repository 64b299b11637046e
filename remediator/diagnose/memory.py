"""Memory health as NVML reports it: remaps, retired pages, the SRAM threshold.

NVML hides remaps while a GPU has MIG instances, so such a value may be old. A failure lasts as long
as the board and counts at any age; a pending remap ends with the epoch; and a good value from
before the epoch proves nothing. Pure.
"""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from exporter.model.node_health import GpuHealth
from remediator.diagnose.fault import Fault, FaultClass, Need


class Signal(msgspec.Struct, frozen=True):
    """One flag of `node_health.MemoryHealth` and what it means when it is set."""

    flag: str
    cause: str
    fault_class: FaultClass
    needs: Need
    evidence: str
    doubt: str
    is_remap: bool = False
    """Hidden under MIG, so that it has an age."""


SIGNALS: tuple[Signal, ...] = (
    Signal(
        "row_remap_failed",
        "row-remap-failure",
        "memory",
        "replacement",
        "a memory row could not be remapped; the board needs replacement",
        "running work may go on after a failed row remap",
        is_remap=True,
    ),
    Signal(
        "sram_threshold_exceeded",
        "sram-threshold",
        "memory",
        "diagnosis",
        "uncorrectable SRAM errors are over the threshold; the board needs field diagnostics",
        "running work may go on over the SRAM threshold",
    ),
    Signal(
        "row_remap_pending",
        "row-remap-pending",
        "pending",
        "gpu-reset",
        "a row remap waits for a reset",
        "running work may go on while a row remap waits",
        is_remap=True,
    ),
    Signal(
        "page_retirement_pending",
        "page-retirement-pending",
        "pending",
        "gpu-reset",
        "a page retirement waits for a reset",
        "running work may go on while a page retirement waits",
    ),
)


def faults(gpu: GpuHealth) -> Iterator[Fault]:
    read = gpu.memory.remap_observed_at
    age = f" (last read at {read.isoformat(timespec='seconds')})" if gpu.mig and read else ""
    for signal in SIGNALS:
        if getattr(gpu.memory, signal.flag) == "True" and not _is_carried_out(gpu, signal):
            yield Fault(
                fault_class=signal.fault_class,
                cause=signal.cause,
                needs=signal.needs,
                last_seen=gpu.presence_since,
                evidence=signal.evidence + (age if signal.is_remap else ""),
                doubt=signal.doubt,
            )


def unread(gpu: GpuHealth) -> str:
    """Return why it is unknown whether remapping works, "" when NVML read it in this epoch."""
    if gpu.memory.remap_failure is None:
        return "whether rows can be remapped could not be read"
    if _read_before(gpu, gpu.epoch_started):
        return "whether rows can be remapped was last read before the GPU was reset"
    return ""


def reads_well(gpu: GpuHealth, since: datetime) -> bool:
    """Whether NVML reported after a moment, and in this epoch, that no remap has failed."""
    read = gpu.memory.remap_observed_at
    fresh = read is not None and read > since and not unread(gpu)
    return fresh and gpu.memory.remap_failure is False


def _is_carried_out(gpu: GpuHealth, signal: Signal) -> bool:
    """A reset carries out what was pending; an older value is of before."""
    return signal.flag == "row_remap_pending" and _read_before(gpu, gpu.epoch_started)


def _read_before(gpu: GpuHealth, moment: datetime | None) -> bool:
    read = gpu.memory.remap_observed_at
    return read is not None and moment is not None and read < moment
