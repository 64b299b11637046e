"""The one table of what `/metrics` shows of the node's devices.

A metric is a row: name, type, help (with the NVML field and, for the DCGM_*
names, DCGM's field id) and where its samples come from. Dashboards and alerts
may use only names found here or in `self_metrics`. Pure.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from exporter import labels
from exporter.report import XidRecord
from exporter.view import GpuRow, SliceRow, View
from exporter.xid import lookup

Sample = tuple[str, int | float]
"""(label text, value)."""

_MIB = 1 << 20
_NO_ERROR = "No Error"


class Metric(msgspec.Struct, frozen=True):
    """One family. A counter's name ends in `_total`."""

    name: str
    type: Literal["gauge", "counter"]
    help: str
    samples: Callable[[View], Iterable[Sample]]


def _of_gpus(value: Callable[[GpuRow], int | float | None]) -> Callable[[View], Iterable[Sample]]:
    """Samples of whole GPUs; what could not be read is left out."""

    def samples(view: View) -> Iterator[Sample]:
        for row in view.gpus:
            if (read := value(row)) is not None:
                yield row.labels, read

    return samples


def _memory(
    of_gpu: Callable[[GpuRow], int | None], of_slice: Callable[[SliceRow], int | None]
) -> Callable[[View], Iterable[Sample]]:
    """Bytes as MiB, of slices on a GPU that has any, so that no sum counts memory twice."""

    def samples(view: View) -> Iterator[Sample]:
        for row in view.gpus:
            if not row.reading.instances and (read := of_gpu(row)) is not None:
                yield row.labels, read // _MIB
        for part in view.slices:
            if (read := of_slice(part)) is not None:
                yield part.labels, read // _MIB

    return samples


def _watts(row: GpuRow) -> float | None:
    return None if row.reading.power is None else row.reading.power / 1000


def _flag(value: bool | None) -> int | None:  # noqa: FBT001 - the value itself
    return None if value is None else int(value)


def _last_xid(view: View) -> Iterator[Sample]:
    for row in (*view.gpus, *view.slices):
        last = max(row.xids, key=lambda one: one.last_seen, default=None)
        code = last.code if last else 0
        said = labels.text(
            (("err_code", str(code)), ("err_msg", lookup(code).description if last else _NO_ERROR))
        )
        yield labels.joined(row.identity, said, row.holder), code


def _xid_counts(view: View) -> Iterator[Sample]:
    for row in view.known:
        for record in row.gpu.xids:
            yield labels.joined(row.labels, _xid_labels(record)), record.count


def _xid_labels(record: XidRecord) -> str:
    gi = "" if record.gi is None else str(record.gi)
    ci = "" if record.ci is None else str(record.ci)
    return labels.text((("code", str(record.code)), ("gi", gi), ("ci", ci)))


def _recovery_actions(view: View) -> Iterator[Sample]:
    known = {row.gpu.uuid: row.labels for row in view.known}
    for row in view.gpus:
        if row.reading.recovery_action is not None and row.reading.uuid in known:
            yield known[row.reading.uuid], row.reading.recovery_action


def _up(view: View) -> Iterator[Sample]:
    for row in view.known:
        if row.gpu.presence == "Present":
            yield row.labels, 1
        elif row.gpu.presence == "Lost" or row.gpu.presence_reason == "Hung":
            yield row.labels, 0


def _info(view: View) -> Iterator[Sample]:
    for row in view.known:
        gpu = row.gpu
        more = labels.text(
            (
                ("presence", gpu.presence),
                ("reason", gpu.presence_reason),
                ("mig", "" if gpu.mig is None else str(gpu.mig).lower()),
                ("minor", "" if gpu.minor is None else str(gpu.minor)),
                ("serial", gpu.serial),
                ("driver_version", view.snapshot.report.driver_version),
            )
        )
        yield labels.joined(row.labels, more), 1


def _allocations(view: View) -> Iterator[Sample]:
    return ((row.labels, 1) for row in view.allocations)


def _sources(view: View) -> Iterator[Sample]:
    for source in (*view.snapshot.report.sources, *view.snapshot.agent_sources):
        yield labels.text((("source", source.name), ("reason", source.reason))), int(source.up)


def _hangs(view: View) -> Iterator[Sample]:
    if (hang := view.snapshot.hang) is not None:
        gpu = "" if hang.gpu is None else str(hang.gpu)
        yield labels.text((("gpu", gpu), ("UUID", hang.uuid), ("call", hang.call))), 1
    for reading in view.snapshot.nvml.gpus if view.snapshot.nvml else ():
        if reading.hung_call:
            named = (
                ("gpu", str(reading.index)),
                ("UUID", reading.uuid),
                ("call", reading.hung_call),
            )
            yield labels.text(named), 1


def _by_reason(counts: dict[str, int]) -> Iterator[Sample]:
    return ((labels.text((("reason", reason),)), count) for reason, count in counts.items())


METRICS: tuple[Metric, ...] = (
    Metric(
        "DCGM_FI_DEV_GPU_UTIL",
        "gauge",
        "GPU utilization in percent (DCGM 203; nvmlDeviceGetUtilizationRates.gpu). "
        "NVML has none for a GPU in MIG mode.",
        _of_gpus(lambda row: row.reading.gpu_util),
    ),
    Metric(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "gauge",
        "Memory utilization in percent of time (DCGM 204; nvmlDeviceGetUtilizationRates.memory).",
        _of_gpus(lambda row: row.reading.mem_util),
    ),
    Metric(
        "DCGM_FI_DEV_FB_USED",
        "gauge",
        "Framebuffer memory used in MiB (DCGM 252; nvmlDeviceGetMemoryInfo.used). "
        "On a GPU with MIG slices: of each slice.",
        _memory(lambda row: row.reading.fb_used, lambda row: row.reading.fb_used),
    ),
    Metric(
        "DCGM_FI_DEV_FB_FREE",
        "gauge",
        "Framebuffer memory free in MiB (DCGM 251; nvmlDeviceGetMemoryInfo.free). "
        "On a GPU with MIG slices: of each slice.",
        _memory(lambda row: row.reading.fb_free, lambda row: row.reading.fb_free),
    ),
    Metric(
        "DCGM_FI_DEV_GPU_TEMP",
        "gauge",
        "GPU temperature in degrees Celsius (DCGM 150; nvmlDeviceGetTemperature).",
        _of_gpus(lambda row: row.reading.temperature),
    ),
    Metric(
        "DCGM_FI_DEV_POWER_USAGE",
        "gauge",
        "Power draw in watts (DCGM 155; nvmlDeviceGetPowerUsage).",
        _of_gpus(_watts),
    ),
    Metric(
        "DCGM_FI_DEV_XID_ERRORS",
        "gauge",
        "Code of the last XID in this boot, 0 for none (DCGM 230; kernel log and NVML events). "
        "For counts use draguard_xid_errors_total.",
        _last_xid,
    ),
    Metric(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "gauge",
        "Whether remapping of rows has failed (DCGM 395; nvmlDeviceGetRemappedRows). "
        "NVML has none for a GPU with MIG slices.",
        _of_gpus(lambda row: _flag(row.reading.remap_failure)),
    ),
    Metric(
        "draguard_xid_errors_total",
        "counter",
        "XIDs in this boot by code and MIG instance (gi, ci: NVML ids; absent when no witness "
        "named one). One error told by the kernel log and by NVML is one.",
        _xid_counts,
    ),
    Metric(
        "draguard_gpu_recovery_action",
        "gauge",
        "What the driver wants done (NVML field 230): 0 none, 1 GPU reset, 2 node reboot, "
        "3 drain P2P, 4 drain and reset, 5 recover IMEX domain, 6 bus reset, 7 system reboot.",
        _recovery_actions,
    ),
    Metric(
        "draguard_gpu_up",
        "gauge",
        "1: the GPU answers. 0: it is lost, or NVML hangs on it. No sample: not known, see "
        "draguard_gpu_info and draguard_source_up for why.",
        _up,
    ),
    Metric(
        "draguard_gpu_info",
        "gauge",
        "Every GPU seen in this boot, whatever became of it: presence (Present, Lost, Unknown) "
        "and its reason.",
        _info,
    ),
    Metric(
        "draguard_device_allocation_info",
        "gauge",
        "One row per container and device that it holds (kubelet PodResources, ResourceSlices).",
        _allocations,
    ),
    Metric(
        "draguard_source_up",
        "gauge",
        "Whether a source of this page sees anything; the reason says why not.",
        _sources,
    ),
    Metric(
        "draguard_source_hang_info",
        "gauge",
        "A vendor call that did not come back: the GPU (NVML index; absent when the call is of "
        "no GPU) and the call. Stays while the GPU is left out because of it.",
        _hangs,
    ),
    Metric(
        "draguard_kernel_log_rejected_total",
        "counter",
        "Kernel-log records refused: malformed, too_long, or user_space (an XID line that the "
        "kernel did not print).",
        lambda view: _by_reason(view.snapshot.rejected),
    ),
    Metric(
        "draguard_sensor_frames_refused_total",
        "counter",
        "Frames on the sensor's socket that could not be read.",
        lambda view: (("", view.snapshot.refused),),
    ),
    Metric(
        "draguard_signals_dropped_total",
        "counter",
        "Signals lost because no agent took them from the sensor in time.",
        lambda view: (("", view.snapshot.signals_dropped),),
    ),
    Metric(
        "draguard_nvml_restarts_total",
        "counter",
        "Times the process that holds the NVML library was started again.",
        lambda view: (("", view.snapshot.restarts),),
    ),
    Metric(
        "draguard_join_misses",
        "gauge",
        "Holds that could not be tied to hardware now: not_published, no_uuid, unknown_id.",
        lambda view: _by_reason(view.snapshot.join_misses),
    ),
    Metric(
        "draguard_snapshot_timestamp_seconds",
        "gauge",
        "When the sensor last told what it sees; time() minus this is the snapshot's age.",
        lambda view: (("", view.snapshot.at.timestamp()),),
    ),
)
