"""The families that the counters file names: DCGM's fields, and what dcgm-exporter computes.

Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from exporter.metrics import fields
from exporter.metrics.counters import Counter, CounterType
from exporter.metrics.metric import Family, MetricType, Sample
from exporter.metrics.rows import Row
from exporter.metrics.view import View
from exporter.model.readings import HealthFinding
from exporter.model.xid import lookup

WATCHES = (
    "PCIE", "NVLINK", "PMU", "MCU", "MEM", "SM", "INFOROM", "THERMAL", "POWER", "DRIVER", "ALL",
)  # fmt: skip
"""Values of `health_watch`; ALL has what concerns no single subsystem, such as XID 79."""

_TYPES: Mapping[CounterType, MetricType] = {
    "gauge": "gauge",
    "counter": "counter",
    # A single number is neither, and a parser would look for buckets and quantiles.
    "histogram": "untyped",
    "summary": "untyped",
}
_P2P_STATES = (
    "OK", "ChipsetNotSupported", "GPUNotSupported", "TopologyNotSupported", "DisabledByRegKey",
    "NotSupported",
)  # fmt: skip
"""By nvmlGpuP2PStatus_t."""
_NO_ERROR = "No Error"
_NO_FINDING = (
    ("health_error_category", "NONE"),
    ("health_error_code", "DCGM_FR_OK"),
    ("health_error_severity", "NONE"),
)


def families(view: View) -> Iterator[Family]:
    """Return the families of the counters file, in its order."""
    for counter in view.snapshot.shown.counters.metrics:
        samples = _COMPUTED.get(counter.field.id)
        found = samples(view) if samples else _of_field(view, counter)
        yield Family(counter.name, _TYPES[counter.type], counter.help, dict(found))


def _of_field(view: View, counter: Counter) -> Iterator[Sample]:
    field, whole = counter.field.id, counter.field.type == "int"
    relayed = view.relayed
    of_gpus = (view.gpus, view.slices, view.links, relayed.devices, relayed.links)
    for rows in (*of_gpus, view.node_rows):
        for row in rows:
            value = row.values.get(field)
            if value is None or isinstance(value, str):
                continue
            if whole and isinstance(value, float) and value.is_integer():
                value = int(value)
            yield row.labels, value


def _last_xid(view: View) -> Iterator[Sample]:
    for row in (*view.devices, *view.silent):
        last = max(row.xids, key=lambda record: record.last_seen, default=None)
        if last is None and not _would_be_reported(view, row):
            continue
        code = last.code if last else 0
        message = lookup(code).description if last else _NO_ERROR
        yield row.with_labels(("err_code", str(code)), ("err_msg", message)), code
    for row in view.relayed.devices:
        # The last XID that DCGM itself remembers; the report may not know this GPU.
        code = row.values.get(fields.XID_ERRORS)
        if isinstance(code, int):
            message = lookup(code).description if code else _NO_ERROR
            yield row.with_labels(("err_code", str(code)), ("err_msg", message)), code


def _xid_counts(view: View) -> Iterator[Sample]:
    window = _window(view.snapshot.shown.xid_window)
    for row in (*view.devices, *view.silent, *view.relayed.devices):
        counts: dict[int, int] = {}
        for (uuid, gi, ci), by_code in view.snapshot.windows.xids.items():
            if uuid == row.gpu.uuid and row.scope.has(gi, ci):
                for code, count in by_code.items():
                    counts[code] = counts.get(code, 0) + count
        if not counts and _would_be_reported(view, row):
            yield row.with_labels(window), 0
        for code, count in sorted(counts.items()):
            yield row.with_labels(window, ("xid", str(code))), count


def _xid_totals(view: View) -> Iterator[Sample]:
    """Give what `draguard_xid_errors_total` counts, summed up for each GPU and each slice."""
    corrections = view.snapshot.xid_corrections
    for row in (*view.devices, *view.silent, *view.relayed.devices):
        counts: dict[int, int] = {}
        for record in row.xids:
            counted = (row.gpu.uuid, record.gi, record.ci), record.code
            count = record.count + corrections.get(counted, 0)
            counts[record.code] = counts.get(record.code, 0) + count
        for code, count in sorted(counts.items()):
            # Code 0 is the driver's word for no error.
            if code and count > 0:
                yield row.with_labels(("xid", str(code))), count


def _would_be_reported(view: View, row: Row) -> bool:
    """Return whether "no XID" is certain, because a source would have reported one."""
    if row.gpu.lost or row.gpu.hung_call:
        return False
    dcgm, sources = view.snapshot.dcgm, view.snapshot.report.sources
    return (
        not row.gpu.without_events
        or any(source.name == "kmsg" and source.up for source in sources)
        or (dcgm is not None and row.gpu.uuid in dcgm.gpus)
    )


def _clock_events(view: View) -> Iterator[Sample]:
    window = _window(view.snapshot.shown.clock_window)
    for row in view.gpus:
        counts = view.snapshot.windows.clocks.get(row.gpu.uuid, {})
        if not counts and row.gpu.slowdown is not None:
            yield row.with_labels(window), 0
        for name, count in counts.items():
            yield row.with_labels(window, ("clock_event", name)), count


def _clock_totals(view: View) -> Iterator[Sample]:
    for row in view.gpus:
        for name, count in view.snapshot.clock_edges.get(row.gpu.uuid, {}).items():
            yield row.with_labels(("clock_event", name)), count


def _health(view: View) -> Iterator[Sample]:
    dcgm = view.snapshot.dcgm
    findings = dcgm.health if dcgm else None
    if dcgm is None or findings is None:
        return
    seen = {*dcgm.gpus, *(finding.uuid for finding in findings)}
    by_watch: dict[tuple[str, str], list[HealthFinding]] = {}
    for finding in findings:
        watch = finding.watch if finding.watch in WATCHES else "ALL"
        by_watch.setdefault((finding.uuid, watch), []).append(finding)
    for row in (*view.gpus, *view.relayed.gpus):
        for watch in WATCHES:
            found = by_watch.get((row.gpu.uuid, watch), [])
            if not found and row.gpu.uuid in seen:
                yield row.with_labels(*_NO_FINDING, ("health_watch", watch)), 0
            for finding in sorted(found, key=lambda finding: finding.health):
                named = (
                    ("health_error_category", finding.category),
                    ("health_error_code", finding.error_code),
                    ("health_error_severity", finding.severity),
                    ("health_watch", watch),
                )
                yield row.with_labels(*named), finding.health


def _peers(view: View) -> Iterator[Sample]:
    for row in view.gpus:
        for peer in row.gpu.peers:
            known = 0 <= peer.status < len(_P2P_STATES)
            state = _P2P_STATES[peer.status] if known else "Unknown"
            named = ("link_status", state), ("peer_gpu", str(peer.peer))
            yield row.with_labels(*named), peer.status


def _window(seconds: float) -> tuple[str, str]:
    return "window_size_in_ms", str(round(seconds * 1000))


_COMPUTED: Mapping[int, Callable[[View], Iterable[Sample]]] = {
    fields.XID_ERRORS: _last_xid,
    fields.XID_COUNT: _xid_counts,
    fields.CLOCK_EVENTS: _clock_events,
    fields.XID_TOTAL: _xid_totals,
    fields.CLOCK_EVENTS_TOTAL: _clock_totals,
    fields.HEALTH_STATUS: _health,
    fields.P2P_STATUS: _peers,
}
