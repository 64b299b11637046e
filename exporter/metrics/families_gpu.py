"""Families on the health of GPUs, which name and outlive them. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from exporter.metrics import labels
from exporter.metrics.metric import Metric, Sample
from exporter.metrics.rows import Row
from exporter.metrics.view import View

GPU = ("UUID", "pci_bus_id", "model_name", "Hostname")
_THROTTLES: Mapping[int, str] = {
    1420: "sw_power_cap",
    1421: "sync_boost",
    1422: "sw_thermal",
    1423: "hw_thermal",
    1424: "hw_power_brake",
}
"""DCGM fields of time in nanoseconds, by NVML's reason."""
_REMAPPED: Mapping[int, str] = {394: "correctable", 393: "uncorrectable"}
NEEDED: tuple[int, ...] = tuple(sorted((*_THROTTLES, *_REMAPPED)))
"""DCGM fields that these families read, whatever the counters file says."""

_NANO = 1_000_000_000


def of_gpus(value: Callable[[Row], float | bool | None]) -> Callable[[View], Iterable[Sample]]:
    """Samples of whole GPUs; what could not be read is left out."""

    def samples(view: View) -> Iterator[Sample]:
        names = view.names
        for row in view.gpus:
            read = value(row)
            if read is not None and row.gpu.uuid in names:
                yield names[row.gpu.uuid], int(read) if isinstance(read, bool) else read

    return samples


def _by_field(
    label: str, labelled: Mapping[int, str], scale: int = 1
) -> Callable[[View], Iterable[Sample]]:
    """Samples of whole GPUs from several fields, told apart by a label."""

    def samples(view: View) -> Iterator[Sample]:
        names = view.names
        for row in view.gpus:
            for field, name in labelled.items():
                read = row.values.get(field)
                if isinstance(read, int | float) and row.gpu.uuid in names:
                    value = read if scale == 1 else read / scale
                    yield labels.joined(names[row.gpu.uuid], labels.text(((label, name),))), value

    return samples


def _ecc(
    corrected: Callable[[Row], int | None], uncorrected: Callable[[Row], int | None]
) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterator[Sample]:
        names = view.names
        for row in view.gpus:
            for severity, read in (("corrected", corrected), ("uncorrected", uncorrected)):
                value = read(row)
                if value is not None and row.gpu.uuid in names:
                    named = labels.text((("severity", severity),))
                    yield labels.joined(names[row.gpu.uuid], named), value

    return samples


def _up(view: View) -> Iterator[Sample]:
    for row in view.known:
        if row.gpu.presence == "Present":
            yield row.labels, 1
        elif row.gpu.presence == "Lost" or row.gpu.presence_reason == "Hung":
            reason = labels.text((("reason", row.gpu.presence_reason or row.gpu.presence),))
            yield labels.joined(row.labels, reason), 0


def _info(view: View) -> Iterator[Sample]:
    read = {row.gpu.uuid: row for row in view.gpus}
    for row in view.known:
        gpu, seen = row.gpu, read.get(row.gpu.uuid)
        more = labels.text(
            (
                ("gpu", str(seen.gpu.index) if seen else ""),
                ("presence", gpu.presence),
                ("reason", gpu.presence_reason),
                ("mig", "" if gpu.mig is None else str(gpu.mig).lower()),
                ("minor", "" if gpu.minor is None else str(gpu.minor)),
                ("serial", gpu.serial),
                ("driver_version", view.snapshot.report.driver_version),
            )
        )
        yield labels.joined(row.labels, more), 1


def _slice_info(view: View) -> Iterator[Sample]:
    for row in view.known:
        # The report keeps the last slices of a GPU that nobody can read; they may be gone.
        for part in row.gpu.instances if row.gpu.presence == "Present" else ():
            more = labels.text(
                (
                    ("GPU_I_PROFILE", part.profile),
                    ("GPU_I_ID", str(part.gi)),
                    ("ci", str(part.ci)),
                    ("dra_mig_device_uuid", part.uuid),
                    ("placement_start", number(part.placement_start)),
                    ("placement_size", number(part.placement_size)),
                )
            )
            yield labels.joined(row.labels, more), 1


def number(value: int | None) -> str:
    return "" if value is None else str(value)


METRICS: tuple[Metric, ...] = (
    Metric(
        name="draguard_gpu_up",
        type="gauge",
        help="1: the GPU answers. 0: it is lost, or NVML hangs on it; see the label. No "
        "sample: unknown, see draguard_gpu_info and draguard_source_up for why.",
        labels=(*GPU, "reason"),
        source="NVML, ResourceSlices",
        kept=True,
        samples=_up,
    ),
    Metric(
        name="draguard_gpu_info",
        type="gauge",
        help="Every GPU seen in this boot, whatever became of it: presence (Present, Lost, "
        "Unknown) and its reason.",
        labels=(*GPU, "gpu", "presence", "reason", "mig", "minor", "serial", "driver_version"),
        source="NVML, ResourceSlices, kernel log",
        kept=True,
        samples=_info,
    ),
    Metric(
        name="draguard_gpu_recovery_action",
        type="gauge",
        help="Recovery action that the driver requests: 0 none, 1 GPU reset, 2 node reboot, "
        "3 drain P2P, 4 drain and reset, 5 recover IMEX domain, 6 bus reset, 7 system reboot.",
        labels=GPU,
        source="NVML field 230 (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, from R565)",
        kept=True,
        samples=of_gpus(lambda row: row.gpu.recovery_action),
    ),
    Metric(
        name="draguard_gpu_ecc_volatile_errors_total",
        type="counter",
        help="ECC errors since the driver was loaded, corrected (single bit) and uncorrected "
        "(double bit).",
        labels=(*GPU, "severity"),
        source="nvmlDeviceGetTotalEccErrors (DCGM 310, 311)",
        samples=_ecc(lambda row: row.gpu.sbe_volatile, lambda row: row.gpu.dbe_volatile),
    ),
    Metric(
        name="draguard_gpu_ecc_aggregate_errors_total",
        type="counter",
        help="ECC errors in the GPU's life, corrected and uncorrected.",
        labels=(*GPU, "severity"),
        source="nvmlDeviceGetTotalEccErrors (DCGM 312, 313)",
        samples=_ecc(lambda row: row.gpu.sbe_aggregate, lambda row: row.gpu.dbe_aggregate),
    ),
    Metric(
        name="draguard_gpu_remapped_rows_total",
        type="counter",
        help="Memory rows remapped in the GPU's life, by what made it necessary. Not available for "
        "GPUs with MIG slices.",
        labels=(*GPU, "cause"),
        source="nvmlDeviceGetRemappedRows (DCGM 393, 394)",
        samples=_by_field("cause", _REMAPPED),
    ),
    Metric(
        name="draguard_gpu_row_remap_pending",
        type="gauge",
        help="1: a row is remapped at the next reset. Not available for GPUs with MIG slices.",
        labels=GPU,
        source="nvmlDeviceGetRemappedRows (DCGM 396)",
        samples=of_gpus(lambda row: row.gpu.remap_pending),
    ),
    Metric(
        name="draguard_gpu_row_remap_failure",
        type="gauge",
        help="1: a row could not be remapped: replace the GPU. Not available for "
        "GPUs with MIG slices.",
        labels=GPU,
        source="nvmlDeviceGetRemappedRows (DCGM 395)",
        samples=of_gpus(lambda row: row.gpu.remap_failure),
    ),
    Metric(
        name="draguard_gpu_sram_threshold_exceeded",
        type="gauge",
        help="1: more SRAM errors than allowed: run field diagnostics.",
        labels=GPU,
        source="nvmlDeviceGetSramEccErrorStatus (DCGM 346)",
        needs="SYS_ADMIN",
        samples=of_gpus(lambda row: row.gpu.sram_threshold),
    ),
    Metric(
        name="draguard_gpu_retired_pages_pending",
        type="gauge",
        help="1: memory pages are retired at the next reset (GPUs before Ampere).",
        labels=GPU,
        source="nvmlDeviceGetRetiredPagesPendingStatus (DCGM 392)",
        samples=of_gpus(lambda row: row.gpu.retired_pending),
    ),
    Metric(
        name="draguard_gpu_clocks_event_seconds_total",
        type="counter",
        help="Time for which the clocks were throttled, by reason.",
        labels=(*GPU, "reason"),
        source="NVML_FI_DEV_CLOCKS_EVENT_REASON_* (DCGM 1420 to 1424)",
        samples=_by_field("reason", _THROTTLES, _NANO),
    ),
    Metric(
        name="draguard_mig_slice_info",
        type="gauge",
        help="Every live MIG slice and its place on its GPU.",
        labels=(
            *GPU,
            "GPU_I_PROFILE",
            "GPU_I_ID",
            "ci",
            "dra_mig_device_uuid",
            "placement_start",
            "placement_size",
        ),
        source="NVML MIG device handles",
        samples=_slice_info,
    ),
)
