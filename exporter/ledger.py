"""The node's report, carried forward by what the sensor says.

The state is the report itself and nothing beside it: an agent that adopts its
own last report and takes the signals after its cursor arrives where it would
have been without a restart. Pure: time comes in as `now` or with the news.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from exporter import presence
from exporter.readings import STARTING, GpuReading, Observation
from exporter.report import SCHEMA_VERSION, Cursor, GpuHealth, NodeHealth, SourceHealth
from exporter.signals import ERRORS, Signal
from exporter.xid_counts import counted, joined

UNKNOWN_PREFIX = "unknown-"
"""Begins the `uuid` of a GPU that only the kernel log knows, followed by its bus id: its XIDs are
kept there until NVML, a ResourceSlice or the log tells the real UUID."""

MAX_UNKNOWN = 32
"""GPUs kept that only the kernel log knows."""

_Gpus = dict[str, GpuHealth]


class Published(msgspec.Struct, frozen=True):
    """What the DRA driver publishes on this node."""

    uuids: frozenset[str] = frozenset()
    """Of physical GPUs: published whole or in slices, but not as VFIO."""
    by_bus: dict[str, str] = {}
    """UUID by bus id (`device.normal_bus_id`)."""


def begin(boot_id: str, agent_version: str, at: datetime) -> NodeHealth:
    """Return the report of a node of which nothing is known yet."""
    return NodeHealth(boot_id=boot_id, agent_version=agent_version, observed_at=at)


def adopt(last: NodeHealth, boot_id: str, agent_version: str, at: datetime) -> NodeHealth:
    """Go on from this node's own last report, if it speaks of the same boot and language."""
    readable = abs(last.schema_version - SCHEMA_VERSION) <= 1
    if last.boot_id != boot_id or not readable:
        return begin(boot_id, agent_version, at)
    return msgspec.structs.replace(
        last, agent_version=agent_version, schema_version=SCHEMA_VERSION, sources=()
    )


def take(
    report: NodeHealth, signals: Iterable[Signal], *, run: str, kernel_sequence: int | None
) -> NodeHealth:
    """Return the report after signals of sensor run `run`, in order, and its new cursor.

    A signal at or below the cursor was counted before and changes nothing.
    """
    same_run = report.cursor.sensor_run == run
    done = report.cursor.signal_sequence if same_run else 0
    gpus = {gpu.uuid: gpu for gpu in report.gpus}
    dropped = report.xids_dropped
    for signal in signals:
        if signal.number > done:
            done = signal.number
            dropped += not _HOW.get(signal.kind, _nothing)(gpus, signal)
    read = [one for one in (report.cursor.kernel_sequence, kernel_sequence) if one is not None]
    cursor = Cursor(kernel_sequence=max(read, default=None), sensor_run=run, signal_sequence=done)
    return _with_gpus(report, gpus, cursor=cursor, xids_dropped=dropped)


def observe(
    report: NodeHealth,
    seen: Observation,
    *,
    published: Published | None = None,
    lost_after: timedelta = timedelta(seconds=60),
) -> NodeHealth:
    """Return the report after the sensor told what it sees; `published` None: not known."""
    gpus = {gpu.uuid: gpu for gpu in report.gpus}
    nvml = seen.nvml
    driver = report.driver_version
    if nvml is None:
        reason = next((one.reason for one in seen.sources if one.name == "nvml"), "")
        if reason == STARTING:
            # Nothing was said yet: a restarting agent must not make its GPUs unknown.
            return _with_gpus(report, gpus, sources=seen.sources, observed_at=seen.at)
        hung = seen.hang.uuid if seen.hang else None
        gpus = {
            uuid: presence.unread(gpu, presence.HUNG if uuid == hung else f"Nvml{reason}", seen.at)
            for uuid, gpu in gpus.items()
        }
    else:
        if driver and nvml.driver_version and nvml.driver_version != driver:
            gpus = _other_driver(gpus, seen.at)
        driver = nvml.driver_version or driver
        _read_all(gpus, nvml.gpus, nvml.at)
        listed = {reading.uuid for reading in nvml.gpus}
        _miss(gpus, listed, seen.at, published, lost_after)
    _name_unknown(gpus, published.by_bus if published else {})
    return _with_gpus(
        report, gpus, sources=seen.sources, driver_version=driver, observed_at=seen.at
    )


def blind(report: NodeHealth, reason: str, message: str, at: datetime) -> NodeHealth:
    """Return the report while the sensor itself cannot be heard."""
    names = [one.name for one in report.sources] or ["nvml", "kmsg", "podresources"]
    before = {one.name: one.last_success for one in report.sources}
    sources = tuple(
        SourceHealth(
            name=name, up=False, reason=reason, message=message, last_success=before.get(name)
        )
        for name in names
    )
    return observe(report, Observation(at=at, sources=sources))


def _count(gpus: _Gpus, signal: Signal) -> bool:
    uuid = _uuid_of(gpus, signal)
    if not _admit(gpus, uuid, signal):
        return False
    gpu = gpus[uuid]
    epoch = presence.epoch_at(gpu, signal.at)
    xids = counted(gpu.xids, signal, epoch=epoch, mig=gpu.mig)
    gpus[uuid] = msgspec.structs.replace(gpu, xids=xids)
    return True


def _reload(gpus: _Gpus, signal: Signal) -> bool:
    for uuid, gpu in gpus.items():
        gpus[uuid] = presence.driver_loaded(gpu, signal.at)
    return True


def _identify(gpus: _Gpus, signal: Signal) -> bool:
    _rename(gpus, signal.bus_id, signal.uuid)
    # The driver says it before a GPU's first XID, NVML may not have listed it yet.
    return _admit(gpus, signal.uuid, signal)


def _nothing(_gpus: _Gpus, _signal: Signal) -> bool:
    return True


_HOW: dict[str, Callable[[_Gpus, Signal], bool]] = {
    **dict.fromkeys(ERRORS, _count),
    "driver-load": _reload,
    "identity": _identify,
}
"""What a signal of a kind does; False when it had to be dropped."""


def _uuid_of(gpus: _Gpus, signal: Signal) -> str:
    if signal.uuid in gpus:
        return signal.uuid
    on_bus = (uuid for uuid, gpu in gpus.items() if gpu.pci_bus_id == signal.bus_id)
    return signal.uuid or next(on_bus, UNKNOWN_PREFIX + signal.bus_id)


def _admit(gpus: _Gpus, uuid: str, signal: Signal) -> bool:
    """Make an entry for a GPU that only the log speaks of; False when there are too many."""
    if uuid in gpus:
        return True
    by_log_only = sum(gpu.presence_reason == presence.NEVER_LISTED for gpu in gpus.values())
    if by_log_only >= MAX_UNKNOWN:
        return False
    gpus[uuid] = GpuHealth(
        uuid=uuid,
        presence="Unknown",
        presence_since=signal.at,
        presence_reason=presence.NEVER_LISTED,
        pci_bus_id=signal.bus_id,
    )
    return True


def _read_all(gpus: _Gpus, readings: Iterable[GpuReading], at: datetime) -> None:
    for reading in readings:
        _rename(gpus, reading.bus_id, reading.uuid)
        old = gpus.get(reading.uuid)
        gpus[reading.uuid] = (
            presence.read(old, reading, at) if old else presence.newly_read(reading, at)
        )


def _miss(
    gpus: _Gpus,
    listed: set[str],
    at: datetime,
    published: Published | None,
    lost_after: timedelta,
) -> None:
    for uuid, gpu in gpus.items():
        if uuid not in listed:
            offered = None if published is None else uuid in published.uuids
            gpus[uuid] = presence.absent(gpu, at, published=offered, lost_after=lost_after)


def _other_driver(gpus: _Gpus, at: datetime) -> _Gpus:
    # The kernel's own line about the load may have been counted already.
    return {
        uuid: gpu
        if gpu.presence_reason == presence.DRIVER_RELOADED
        else presence.next_epoch(gpu, at)
        for uuid, gpu in gpus.items()
    }


def _name_unknown(gpus: _Gpus, by_bus: Mapping[str, str]) -> None:
    for gpu in [one for one in gpus.values() if one.uuid.startswith(UNKNOWN_PREFIX)]:
        if gpu.pci_bus_id in by_bus:
            _rename(gpus, gpu.pci_bus_id, by_bus[gpu.pci_bus_id])


def _rename(gpus: _Gpus, bus_id: str, uuid: str) -> None:
    """Give a GPU that only the log knew its UUID, and with it its records."""
    unknown = gpus.pop(UNKNOWN_PREFIX + bus_id, None)
    if unknown is None:
        return
    known = gpus.get(uuid)
    if known is None:
        gpus[uuid] = msgspec.structs.replace(unknown, uuid=uuid)
    else:
        gpus[uuid] = msgspec.structs.replace(known, xids=joined(known.xids, unknown.xids))


def _with_gpus(report: NodeHealth, gpus: _Gpus, **fields: object) -> NodeHealth:
    ordered = tuple(gpus[uuid] for uuid in sorted(gpus))
    return msgspec.structs.replace(report, gpus=ordered, **fields)
