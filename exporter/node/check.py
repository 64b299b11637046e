"""`--check`: says what would be collected here, and what is missing for the rest.

Opens the libraries the way the sensor does, in a process of their own.
"""

import threading
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from exporter.metrics.counters import Counters
from exporter.metrics.counters_file import CountersFile
from exporter.metrics.fields import (
    CLOCK_EVENTS,
    CLOCK_EVENTS_TOTAL,
    HEALTH_STATUS,
    P2P_STATUS,
    XID_COUNT,
    XID_ERRORS,
    XID_TOTAL,
)
from exporter.model.node_health import SourceHealth
from exporter.model.readings import STARTING, DcgmReading, NvmlReading
from exporter.node import surroundings
from exporter.node.capabilities import CAPABILITIES
from exporter.sensor.dcgm.vendor import OFF, DcgmVendor
from exporter.sensor.nvml.vendor import NvmlVendor
from exporter.sensor.supervisor.child import Vendor, VendorChild, VendorState
from exporter.settings import Settings

_SAMPLES = 2
_BETWEEN = 1.0
"""Seconds from one sample to the next."""
R = TypeVar("R", NvmlReading, DcgmReading)


def check(settings: Settings) -> tuple[bool, str]:
    """Return whether GPUs can be seen at all, and the text for a person.

    Raises CountersError for a counters file that cannot be used.
    """
    name = str(settings.config_file)
    counters = CountersFile(settings.collectors, settings.counter_rows, name).current
    nvml = _read(NvmlVendor(settings, lambda: counters.requested), settings)
    dcgm = None
    if settings.dcgm != OFF:
        dcgm = _read(DcgmVendor(settings, lambda: counters.requested), settings)
    lines = ["settings: valid", *_nvml_lines(nvml)]
    if dcgm is None:
        lines.append("DCGM: off (--dcgm)")
    elif dcgm.reading is None:
        lines.append(f"DCGM: {dcgm.source.reason}: {dcgm.source.message}")
    else:
        lines.append(f"DCGM: {dcgm.reading.version}")
        lines += [f"  {remark}" for remark in dcgm.reading.remarks]
    lines.append(_kernel_log_line(settings))
    lines += [
        *_field_lines(counters, nvml.reading, dcgm.reading if dcgm else None),
        "",
        "what is needed here:",
        *_needs(settings),
    ]
    return nvml.reading is not None, "\n".join(lines) + "\n"


def _read(vendor: Vendor[R], settings: Settings) -> VendorState[R]:
    """Take two samples, as shares of time need two, or learn why there are none."""
    answered = threading.Event()
    states: list[VendorState[R]] = []

    def take(state: VendorState[R]) -> None:
        if state.source.reason != STARTING:
            states.append(state)
            if state.reading is None or len(states) == _SAMPLES:
                answered.set()

    quick = msgspec.structs.replace(settings, interval=_BETWEEN)
    child = VendorChild[R](vendor, quick, take, lambda _: None)
    child.start()
    answered.wait(settings.start_deadline + settings.sample_deadline + _SAMPLES * _BETWEEN)
    message = "gave no answer within --start-deadline and --sample-deadline"
    unanswered = SourceHealth(name=vendor.name, state="Down", reason="Silent", message=message)
    last = states[-1] if states else VendorState[R](source=unanswered)
    child.stop()
    return last


def _nvml_lines(state: VendorState[NvmlReading]) -> Iterator[str]:
    reading = state.reading
    if reading is None:
        yield f"NVML: {state.source.reason}: {state.source.message}"
        return
    yield f"NVML: {len(reading.gpus)} GPUs, driver {reading.driver_version}"
    for gpu in reading.gpus:
        slices = f", {len(gpu.instances)} MIG slices" if gpu.instances else ""
        wrong = f", {gpu.error}" if gpu.error else ""
        yield f"  GPU {gpu.index} {gpu.uuid} {gpu.product}{slices}{wrong}"


def _kernel_log_line(settings: Settings) -> str:
    if settings.role == "agent":
        return "kernel log: check it in the container sensor"
    health = surroundings.kernel_log_mode(settings)
    how = f"{health.via or health.state} {health.reason}".rstrip()
    return f"kernel log: {how}: {health.message or f'read from {settings.kernel_log}'}"


def _field_lines(
    counters: Counters, nvml: NvmlReading | None, dcgm: DcgmReading | None
) -> Iterator[str]:
    answered: set[int] = set()
    for gpu in nvml.gpus if nvml else ():
        answered.update(gpu.values, *(part.values for part in (*(gpu.instances or ()), *gpu.links)))
    answered |= {field for entity in (dcgm.entities if dcgm else ()) for field in entity.values}
    answered |= {field for part in (dcgm.node_parts if dcgm else ()) for field in part.values}
    rows = (*counters.metrics, *counters.labels)
    # What the exporter works out itself, where it has what it needs.
    if nvml is not None:
        answered |= {XID_ERRORS, XID_COUNT, XID_TOTAL, CLOCK_EVENTS, CLOCK_EVENTS_TOTAL}
        if any(gpu.peers for gpu in nvml.gpus):
            answered.add(P2P_STATUS)
    if dcgm is not None and dcgm.health is not None:
        answered.add(HEALTH_STATUS)
    unanswered = [row.name for row in rows if row.field.id not in answered]
    yield f"counters: {len(rows)} rows, {len(rows) - len(unanswered)} answered here and now"
    yield from (f"  {note}" for note in counters.notes)
    for name in unanswered:
        yield f"  no answer: {name}"


def _needs(settings: Settings) -> Iterator[str]:
    for row in CAPABILITIES:
        if settings.role not in {"run", row.of}:
            yield f"  not here {row.need} ({row.of}): check it in the container {row.of}"
            continue
        lacking = surroundings.missing(row.need, settings)
        if lacking:
            yield f"  missing  {row.need} ({row.of}): {lacking}"
            yield f"           without it there is no: {row.shows}"
            yield f"           {row.remedy}"
        else:
            yield f"  there    {row.need} ({row.of})"
