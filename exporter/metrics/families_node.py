"""Families on the node, on the sources of the page and on the page itself. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import get_args

from exporter.metrics import labels, relay
from exporter.metrics.counters import RowReason
from exporter.metrics.fields import by_id
from exporter.metrics.metric import Metric, Sample
from exporter.metrics.snapshot import Snapshot
from exporter.metrics.view import View
from exporter.model.node_health import SourceHealth
from exporter.model.readings import LOST_RECORDS, Observation


def _expected(view: View) -> Iterator[Sample]:
    inventory = view.snapshot.report.inventory
    aside = inventory.set_aside or 0
    on_bus = None if inventory.on_bus is None else inventory.on_bus - aside
    for source, count in (("pci", on_bus), ("resourceslices", inventory.published)):
        if count is not None:
            yield labels.text((("source", source),)), count


def _sources_of(view: View) -> tuple[SourceHealth, ...]:
    return (*view.snapshot.report.sources, *view.snapshot.agent_sources)


def _sources(view: View) -> Iterator[Sample]:
    for source in _sources_of(view):
        reason = source.reason
        if source.name == "dcgm" and source.up and view.relayed.gpus:
            reason = reason or relay.REASON
        yield labels.text((("source", source.name), ("reason", reason))), int(source.up)


def _hangs(view: View) -> Iterator[Sample]:
    uuid = view.options.named("UUID")
    seen = view.snapshot.seen
    if seen is not None and (hang := seen.hang) is not None:
        gpu = "" if hang.gpu is None else str(hang.gpu)
        yield labels.text((("gpu", gpu), (uuid, hang.uuid), ("call", hang.call))), 1
    for reading in view.snapshot.nvml.gpus if view.snapshot.nvml else ():
        if reading.hung_call:
            named = ("gpu", str(reading.index)), (uuid, reading.uuid), ("call", reading.hung_call)
            yield labels.text(named), 1


def _unsupported(view: View) -> Iterator[Sample]:
    dcgm = view.snapshot.dcgm
    for number in sorted(dcgm.unsupported) if dcgm else ():
        field = by_id(number)
        yield labels.text((("field", field.name if field else str(number)),)), 1


def _single(value: Callable[[Snapshot], float | None]) -> Callable[[View], Iterable[Sample]]:
    """Give one sample without labels, none where the value is not known."""

    def samples(view: View) -> Iterator[Sample]:
        if (known := value(view.snapshot)) is not None:
            yield "", known

    return samples


def _of_sensor(count: Callable[[Observation], int]) -> Callable[[View], Iterable[Sample]]:
    return _single(lambda snapshot: count(snapshot.seen) if snapshot.seen else None)


def _by(label: str, counts: Mapping[str, int | float]) -> Iterator[Sample]:
    return ((labels.text(((label, value),)), count) for value, count in counts.items())


METRICS: tuple[Metric, ...] = (
    Metric(
        name="draguard_gpus_expected",
        type="gauge",
        help="GPUs that should be here: by PCI without those set aside, and by what is published.",
        labels=("source",),
        source="sysfs, ResourceSlices",
        kept=True,
        samples=_expected,
    ),
    Metric(
        name="draguard_gpus_seen",
        type="gauge",
        help="GPUs that NVML lists, hung ones too; not those that it calls lost, and not released "
        "ones. No sample while NVML is down.",
        source="NVML",
        kept=True,
        samples=_single(lambda snapshot: snapshot.report.inventory.seen),
    ),
    Metric(
        name="draguard_gpu_missing",
        type="gauge",
        help="GPUs that should be here and are not seen: bus id, or UUID where none is known.",
        labels=("device",),
        source="sysfs, ResourceSlices, NVML",
        kept=True,
        samples=lambda view: _by(
            "device", dict.fromkeys(view.snapshot.report.inventory.missing, 1)
        ),
    ),
    Metric(
        name="draguard_gpu_other_driver",
        type="gauge",
        help="1 for each GPU on PCI that NVIDIA's driver does not have, by bus id and by the "
        "driver that has it (nouveau, vfio-pci, ...; none). Not those published for virtual "
        "machines, nor those let go on request.",
        labels=("device", "driver"),
        source="sysfs",
        kept=True,
        samples=lambda view: (
            (labels.text((("device", device), ("driver", driver or "none"))), 1)
            for device, driver in sorted(view.snapshot.other_drivers.items())
        ),
    ),
    Metric(
        name="draguard_source_up",
        type="gauge",
        help="1 if a source of this page works; otherwise the label has the reason.",
        labels=("source", "reason"),
        source="the exporter",
        kept=True,
        samples=_sources,
    ),
    Metric(
        name="draguard_kernel_log_info",
        type="gauge",
        help="How the kernel log is read while it is: Device (/dev/kmsg), Journal (systemd's "
        "journal) or Syslog (syslog(2)). By Syslog a fault that only the log reports is not "
        "tainted.",
        labels=("via",),
        source="the exporter",
        kept=True,
        samples=lambda view: _by(
            "via",
            dict.fromkeys((source.via for source in _sources_of(view) if source.via), 1),
        ),
    ),
    Metric(
        name="draguard_source_last_success_timestamp_seconds",
        type="gauge",
        help="When a source last saw something.",
        labels=("source",),
        source="the exporter",
        kept=True,
        samples=lambda view: _by(
            "source",
            {
                source.name: source.last_success.timestamp()
                for source in _sources_of(view)
                if source.last_success is not None
            },
        ),
    ),
    Metric(
        name="draguard_source_hang_info",
        type="gauge",
        help="A vendor call that did not come back: the GPU (NVML index; absent when the call is "
        "of no GPU) and the call. Stays while the GPU is left out because of it.",
        labels=("gpu", "UUID", "call"),
        source="the exporter",
        kept=True,
        samples=_hangs,
    ),
    Metric(
        name="draguard_dcgm_field_unsupported",
        type="gauge",
        help="Requested fields that DCGM cannot watch here.",
        labels=("field",),
        source="DCGM",
        needs="DCGM",
        samples=_unsupported,
    ),
    Metric(
        name="draguard_kernel_log_rejected_total",
        type="counter",
        help="Kernel-log records refused or lost, by reason. malformed and too_long: as named. "
        "user_space: an XID line that the kernel did not print. continuation: a line within "
        "another record. quoted: a user's text in another kernel message. contradicted: a driver "
        "load while NVML uses the driver. compressed and unreadable (by file): of systemd's "
        "journal. overwritten, missed (by journald), cleared (of what syslog(2) returns): counted "
        "once at each look, however many records that cost.",
        labels=("reason",),
        source="kernel log",
        needs="kernel log",
        kept=True,
        # From 0 where an alert reads the growth, which has to see the first one.
        samples=lambda view: _by(
            "reason",
            dict.fromkeys(LOST_RECORDS, 0) | view.snapshot.seen.rejected
            if view.snapshot.seen
            else {},
        ),
    ),
    Metric(
        name="draguard_sensor_frames_refused_total",
        type="counter",
        help="Frames on the sensor's socket that could not be read.",
        source="the exporter",
        kept=True,
        samples=_of_sensor(lambda seen: seen.refused),
    ),
    Metric(
        name="draguard_observations_cut_total",
        type="counter",
        help="Observations of the sensor truncated at the frame limit; the truncated source has a "
        "message.",
        source="the exporter",
        kept=True,
        samples=_of_sensor(lambda seen: seen.cut),
    ),
    Metric(
        name="draguard_signals_dropped_total",
        type="counter",
        help="Signals lost because no agent took them from the sensor in time.",
        source="the exporter",
        kept=True,
        samples=_of_sensor(lambda seen: seen.signals_dropped),
    ),
    Metric(
        name="draguard_nvml_answers_refused_total",
        type="counter",
        help="Answers of NVML that make no sense and are not shown.",
        source="NVML",
        kept=True,
        samples=_single(lambda snapshot: snapshot.nvml and snapshot.nvml.refused),
    ),
    Metric(
        name="draguard_nvml_restarts_total",
        type="counter",
        help="Times the process that holds the NVML library was started again.",
        source="the exporter",
        kept=True,
        samples=_of_sensor(lambda seen: seen.restarts),
    ),
    Metric(
        name="draguard_dcgm_restarts_total",
        type="counter",
        help="Times the process that holds the DCGM library was started again.",
        source="the exporter",
        kept=True,
        samples=_of_sensor(lambda seen: seen.dcgm_restarts),
    ),
    Metric(
        name="draguard_join_misses",
        type="gauge",
        help="Holds that could not be tied to hardware now, by reason.",
        labels=("reason",),
        source="the exporter",
        kept=True,
        samples=lambda view: _by("reason", view.snapshot.join_misses),
    ),
    Metric(
        name="draguard_counters_reload_failures_total",
        type="counter",
        help="Counters files that were refused since the start; the one before stays in force.",
        source="the exporter",
        kept=True,
        samples=_single(lambda snapshot: snapshot.reloads.failures),
    ),
    Metric(
        name="draguard_counters_last_reload_success",
        type="gauge",
        help="1: the counters file on disk is in force. 0: it was refused.",
        source="the exporter",
        kept=True,
        samples=_single(lambda snapshot: int(snapshot.reloads.last_ok)),
    ),
    Metric(
        name="draguard_counters_rows_left_out",
        type="gauge",
        help="Rows of the counters file in force that cannot be shown, by reason; the log names "
        "each with its line.",
        labels=("reason",),
        source="the exporter",
        kept=True,
        samples=lambda view: _by(
            "reason",
            {
                reason: view.snapshot.shown.counters.left_out.get(reason, 0)
                for reason in get_args(RowReason)
            },
        ),
    ),
    Metric(
        name="draguard_setting_ignored",
        type="gauge",
        help="1 for each flag, variable and key of a file that was given and changes nothing, with "
        "the reason: NeedsDcgm, NotSupported, OneInterval or Unknown. The log names what to use "
        "instead.",
        labels=("source", "name", "reason"),
        source="the exporter",
        kept=True,
        samples=lambda view: (
            (labels.text((("source", source), ("name", name), ("reason", reason))), 1)
            for source, name, reason in sorted(
                {(row.source, row.name, row.reason) for row in view.snapshot.shown.ignored}
            )
        ),
    ),
    Metric(
        name="draguard_sample_duration_seconds",
        type="gauge",
        help="What the last pass over the GPUs took, by source.",
        labels=("source",),
        source="NVML, DCGM",
        kept=True,
        samples=lambda view: _by(
            "source",
            {
                source: reading.took
                for source, reading in (("nvml", view.snapshot.nvml), ("dcgm", view.snapshot.dcgm))
                if reading is not None and reading.took is not None
            },
        ),
    ),
    Metric(
        name="draguard_render_duration_seconds",
        type="gauge",
        help="What it took to render the page before this one.",
        source="the exporter",
        kept=True,
        samples=_single(lambda snapshot: snapshot.render_seconds),
    ),
    Metric(
        name="draguard_snapshot_timestamp_seconds",
        type="gauge",
        help="When the sensor last sent a snapshot; time() minus this is the snapshot's age.",
        source="the exporter",
        kept=True,
        samples=_single(lambda snapshot: snapshot.at.timestamp()),
    ),
)
