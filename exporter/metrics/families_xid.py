"""Families on XIDs and SXids since the node booted. Pure."""

from collections.abc import Callable, Iterable, Iterator

from exporter.agent.report.xid_counts import by_instance
from exporter.metrics import labels
from exporter.metrics.families_gpu import GPU, number
from exporter.metrics.metric import Metric, Sample
from exporter.metrics.view import View
from exporter.model.node_health import SxidRecord, XidRecord

_XID = ("code", "gi", "ci")
_SXID = ("pci_bus_id", "code", "fatal", "Hostname")


def _of_xids(value: Callable[[XidRecord], float | None]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterator[Sample]:
        for row in view.known:
            for record in by_instance(row.gpu.xids):
                read = value(record)
                if read is not None:
                    yield labels.joined(row.labels, _xid_labels(record)), read

    return samples


def _xid_counts(view: View) -> Iterator[Sample]:
    corrections = view.snapshot.xid_corrections
    for row in view.known:
        for record in by_instance(row.gpu.xids):
            counted = (row.gpu.uuid, record.gi, record.ci), record.code
            count = record.count + corrections.get(counted, 0)
            if count > 0:
                yield labels.joined(row.labels, _xid_labels(record)), count


def _xid_sources(view: View) -> Iterator[Sample]:
    for row in view.known:
        for record in by_instance(row.gpu.xids):
            for source in record.sources:
                named = labels.text((("source", source),))
                yield labels.joined(row.labels, _xid_labels(record), named), 1


def _xid_labels(record: XidRecord) -> str:
    named = ("code", str(record.code)), ("gi", number(record.gi)), ("ci", number(record.ci))
    return labels.text(named)


def _of_sxids(value: Callable[[SxidRecord], float]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterator[Sample]:
        for switch in view.snapshot.report.switches:
            for record in switch.sxids:
                named = (
                    ("pci_bus_id", labels.nvml_bus_id(switch.pci_bus_id)),
                    ("code", str(record.code)),
                    ("fatal", "" if record.fatal is None else str(record.fatal).lower()),
                    view.options.host,
                )
                yield labels.text(named), value(record)

    return samples


METRICS: tuple[Metric, ...] = (
    Metric(
        name="draguard_xid_errors_total",
        type="counter",
        help="XIDs in this boot by code and MIG instance (gi, ci: NVML ids; absent when no source "
        "named one). One error in the kernel log and from NVML is one.",
        labels=(*GPU, *_XID),
        source="kernel log, NVML events",
        kept=True,
        samples=_xid_counts,
    ),
    Metric(
        name="draguard_xid_last_seen_timestamp_seconds",
        type="gauge",
        help="When an XID was last seen.",
        labels=(*GPU, *_XID),
        source="kernel log, NVML events",
        samples=_of_xids(lambda record: record.last_seen.timestamp()),
    ),
    Metric(
        name="draguard_xid_source_info",
        type="gauge",
        help="Source of an XID: kmsg, syslog (the same log, read by syslog(2)), nvml or dcgm.",
        labels=(*GPU, *_XID, "source"),
        source="kernel log, NVML events, DCGM",
        samples=_xid_sources,
    ),
    Metric(
        name="draguard_xid_rate_limited",
        type="gauge",
        help="1: the driver left out lines of this XID, so that its count is a lower bound.",
        labels=(*GPU, *_XID),
        source="kernel log",
        needs="kernel log",
        samples=_of_xids(lambda record: 1 if record.rate_limited else None),
    ),
    Metric(
        name="draguard_sxid_errors_total",
        type="counter",
        help="SXids (errors of an NVSwitch) in this boot by code.",
        labels=_SXID,
        source="kernel log",
        needs="kernel log",
        kept=True,
        samples=_of_sxids(lambda record: record.count),
    ),
    Metric(
        name="draguard_sxid_last_seen_timestamp_seconds",
        type="gauge",
        help="When an SXid was last seen.",
        labels=_SXID,
        source="kernel log",
        needs="kernel log",
        samples=_of_sxids(lambda record: record.last_seen.timestamp()),
    ),
)
