"""A signal as named on the command line into the report of a simulated node. Pure.

One GPU, whole or in seven slices, each held by a pod. The report arrives a
moment after the signal; a recovery action that was named was read in between.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from exporter.model.device import GPU_DRIVER, Device
from exporter.model.node_health import (
    GpuHealth,
    MemoryHealth,
    MemorySlices,
    MigInstance,
    NodeHealth,
    RecoveryAction,
    SourceHealth,
    XidRecord,
)
from exporter.model.node_health_words import answer, mig_mode, reset_request
from exporter.model.resource_slices import SliceDevice

GPU = "GPU-00000000-0000-0000-0000-000000000000"
SLICES = 7
LONG_AGO = timedelta(hours=5)
BEFORE = timedelta(minutes=1)
"""The last reading of the recovery action before the signal."""
HAPPENED = timedelta(seconds=2)
READ = timedelta(seconds=1)
"""Before the report: the signal, and the reading of a recovery action that was named."""
LOG_ONLY = frozenset({62, 79, 119, 120})
"""XIDs of which NVML sends no event."""
FIRST_WITH_ACTION = 565
"""Driver release that brought the recovery action."""


LogMode = Literal["auto", "journal", "kmsg", "syslog"]
LOGS_READ: Mapping[LogMode, str] = {
    "auto": "from systemd's journal",
    "journal": "from systemd's journal",
    "kmsg": "from /dev/kmsg",
    "syslog": "by syslog(2)",
}


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen; each field is a flag of `draguard policy explain`."""

    xid: int | None = None
    mig: bool = False
    gi: int | None = None
    reset: bool = False
    drain_reset: bool = False
    kernel_log: LogMode = "auto"
    """As the chart's `exporter.kernelLog`; `auto`: of the journal, which has the record."""
    log_only: bool = False
    """Whether NVML and DCGM do not report the XID."""
    recovery_action: int | None = None
    driver: str = "580.65.06"
    lost: bool = False
    remap_failure: bool = False
    remap_pending: bool = False
    sram_threshold: bool = False
    retired_pending: bool = False

    @property
    def release(self) -> int:
        """Release of the driver, 0 when it is not a number."""
        first = self.driver.partition(".")[0].removeprefix("R")
        return int(first) if first.isdecimal() else 0

    def in_words(self) -> str:
        parts = [f"XID {self.xid}"] if self.xid is not None else []
        parts += [f"on GPU instance {self.gi}"] if self.gi is not None else []
        parts += [
            words
            for present, words in (
                (self.reset, "with RST"),
                (self.drain_reset, "with D-RST"),
                (self.lost, "the GPU is lost"),
                (self.remap_failure, "a row remap has failed"),
                (self.remap_pending, "a row remap is pending"),
                (self.sram_threshold, "the SRAM error threshold is exceeded"),
                (self.retired_pending, "a page retirement is pending"),
                (self.log_only, "only the kernel log reports it"),
            )
            if present
        ]
        if self.recovery_action is not None:
            parts.append(f"recovery action {self.recovery_action}")
        seen = ", ".join(parts) or "no signal"
        cut = f"a GPU with {SLICES} slices" if self.mig else "a whole GPU"
        log = f"kernel log: {self.kernel_log} ({LOGS_READ[self.kernel_log]})"
        return f"{seen}; {cut}; driver {self.driver}; {log}"


def sick(signal: Signal, now: datetime) -> GpuHealth:
    """Return the GPU as its node reports it at `now`."""
    happened = now - HAPPENED
    since = happened if signal.lost else now - LONG_AGO
    return GpuHealth(
        uuid=GPU,
        presence="Lost" if signal.lost else "Present",
        presence_since=since,
        pci_bus_id="0000:01:00.0",
        minor=0,
        mig_mode=mig_mode(signal.mig),
        recovery_action=RecoveryAction() if signal.lost else _action(signal, now),
        epoch_started=now - LONG_AGO,
        xids=() if signal.xid is None else (_xid(signal, signal.xid, happened),),
        memory=MemoryHealth(
            row_remap_pending=answer(signal.remap_pending),
            row_remap_failed=answer(signal.remap_failure),
            remap_observed_at=now,
            sram_threshold_exceeded=answer(signal.sram_threshold),
            page_retirement_pending=answer(signal.retired_pending),
        ),
        instances=_instances() if signal.mig else (),
    )


def read_again(gpu: GpuHealth, signal: Signal, now: datetime) -> GpuHealth:
    """Return the GPU after NVML's next reading: the driver requests what it did, or nothing."""
    action = gpu.recovery_action
    if signal.lost or not action.supported:
        return gpu
    memory = msgspec.structs.replace(gpu.memory, remap_observed_at=now)
    read = msgspec.structs.replace(action, observed_at=now)
    return msgspec.structs.replace(gpu, recovery_action=read, memory=memory)


def repaired(gpu: GpuHealth, signal: Signal, since: datetime, now: datetime) -> GpuHealth:
    """Return the same GPU after a repair at `since`: a new epoch, and no action requested."""
    supported = signal.release >= FIRST_WITH_ACTION
    return msgspec.structs.replace(
        gpu,
        presence="Present",
        presence_since=max(gpu.presence_since, since) if signal.lost else gpu.presence_since,
        epoch=gpu.epoch + 1,
        epoch_started=since,
        recovery_action=RecoveryAction(
            support="Supported" if supported else "Unsupported",
            value=0 if supported else None,
            since=since,
            observed_at=now,
        ),
        memory=MemoryHealth(
            row_remap_pending="False",
            row_remap_failed="False",
            remap_observed_at=now,
            sram_threshold_exceeded="False",
            page_retirement_pending="False",
        ),
    )


def report(gpu: GpuHealth, signal: Signal, now: datetime) -> NodeHealth:
    names = ("nvml", "kmsg", "podresources")
    return NodeHealth(
        boot_id="boot",
        driver_version=signal.driver,
        observed_at=now,
        sources=tuple(SourceHealth(name=name, state="Up", last_success=now) for name in names),
        gpus=(gpu,),
    )


def published(gpu: GpuHealth, node: str) -> tuple[SliceDevice, ...]:
    """Return what NVIDIA's driver publishes of it: the GPU, or each of its slices."""
    if not gpu.instances:
        return (_device(gpu, node, None),)
    return tuple(_device(gpu, node, part) for part in gpu.instances)


def _device(gpu: GpuHealth, node: str, part: MigInstance | None) -> SliceDevice:
    name = f"gpu-{gpu.minor}"
    name += f"-mig-1g10gb-{part.gi_profile_id}-{part.placement_start}" if part else ""
    return SliceDevice(
        device=Device(GPU_DRIVER, node, name),
        kind="mig" if part else "gpu",
        uuid=part.uuid if part else gpu.uuid,
        parent_uuid=gpu.uuid if part else None,
        profile=part.profile if part else "",
        pci_bus_id=gpu.pci_bus_id,
        node=node,
    )


def _action(signal: Signal, now: datetime) -> RecoveryAction:
    if signal.release < FIRST_WITH_ACTION:
        return RecoveryAction(support="Unsupported", observed_at=now)
    if signal.recovery_action is None:
        before = now - BEFORE
        return RecoveryAction(
            support="Supported", value=0, since=now - LONG_AGO, observed_at=before
        )
    read = now - READ
    return RecoveryAction(
        support="Supported", value=signal.recovery_action, since=read, observed_at=read
    )


def _xid(signal: Signal, code: int, happened: datetime) -> XidRecord:
    # NVML sends no event of some codes.
    # The journal and the device keep records whole; the report calls both kmsg.
    log = "syslog" if signal.kernel_log == "syslog" else "kmsg"
    log_only = signal.log_only or code in LOG_ONLY
    return XidRecord(
        code=code,
        count=1,
        first_seen=happened,
        last_seen=happened,
        gi=signal.gi,
        ci=0 if signal.gi is not None else None,
        mig_mode=mig_mode(signal.mig),
        gi_profile_id=19 if signal.gi is not None else None,
        placement=MemorySlices(signal.gi - 1, 1) if signal.gi is not None else None,
        reset_request=reset_request(
            at_once=signal.reset or None, after_drain=signal.drain_reset or None
        ),
        sources=(log,) if log_only else (log, "nvml"),
    )


def _instances() -> tuple[MigInstance, ...]:
    return tuple(
        MigInstance(
            uuid=f"MIG-00000000-0000-0000-0000-{gi:012x}",
            gi=gi,
            ci=0,
            profile="1g.10gb",
            gi_profile_id=19,
            placement_start=gi - 1,
            placement_size=1,
        )
        for gi in range(1, SLICES + 1)
    )
