"""The node's report, carried forward by what the sensor says.

The state is the report itself and nothing beside it: an agent that adopts its
own last report and takes the signals after its cursor arrives where it would
have been without a restart. Pure: time comes in as `now` or with the news.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from exporter.agent.report import (
    config_space,
    gpu_state,
    inventory,
    listed_gpus,
    naming,
    switches,
    xid_counts,
)
from exporter.agent.report.inventory import Published
from exporter.agent.report.naming import MAX_UNKNOWN, UNKNOWN_PREFIX, Gpus
from exporter.model.node_health import (
    SCHEMA_VERSION,
    Cursor,
    GpuHealth,
    NodeHealth,
    SourceHealth,
    SwitchHealth,
    VersionSince,
)
from exporter.model.readings import STARTING, Observation
from exporter.model.signals import ERRORS, Signal
from kubeapi.types import LATEST

__all__ = [
    "MAX_UNKNOWN",
    "UNKNOWN_PREFIX",
    "Published",
    "adopt",
    "begin",
    "blind",
    "observe",
    "take",
    "with_versions",
]

_UNREAD_SAMPLES = 3
"""Samples after which a recovery action that none of them could read counts as unread."""
_XID_OF_ACTION = 154
"""The XID whose line tells that the recovery action changed."""


class _Node(msgspec.Struct):
    """What signals change, while they are taken."""

    gpus: Gpus
    switches: tuple[SwitchHealth, ...]
    now: datetime
    dropped: int = 0


def begin(boot_id: str, agent_version: str, at: datetime) -> NodeHealth:
    """Return the report of a node of which nothing is known yet."""
    return NodeHealth(
        boot_id=boot_id,
        agent_version=agent_version,
        agent_since=VersionSince(version=agent_version),
        observed_at=at,
    )


def adopt(last: NodeHealth, boot_id: str, agent_version: str, at: datetime) -> NodeHealth:
    """Go on from this node's own last report, if it speaks of the same boot and language.

    Of another boot only the versions are of use: a new driver often comes with a reboot.
    """
    if not _readable(last):
        return begin(boot_id, agent_version, at)
    if last.boot_id != boot_id:
        return with_versions(begin(boot_id, agent_version, at), last, at)
    report = msgspec.structs.replace(
        last,
        agent_version=agent_version,
        schema_version=SCHEMA_VERSION,
        sources=(),
        truncated=(),
        omitted=(),
    )
    return with_versions(report, last, at)


def with_versions(report: NodeHealth, last: NodeHealth, at: datetime) -> NodeHealth:
    """Return the report with since when its versions are there, as far as `last` knew others."""
    if not _readable(last):
        return report
    agent = (
        last.agent_since.seen(last.agent_version, at) if _without_since(last) else last.agent_since
    )
    driver = (
        last.driver_since.seen(last.driver_version, at)
        if _without_since(last)
        else last.driver_since
    )
    return msgspec.structs.replace(
        report,
        agent_since=agent.seen(report.agent_version, at),
        driver_since=driver.seen(report.driver_version, at),
    )


def _readable(last: NodeHealth) -> bool:
    return abs(last.schema_version - SCHEMA_VERSION) <= 1


def _without_since(last: NodeHealth) -> bool:
    """Whether the agent that wrote the report did not record since when versions are there."""
    return last.agent_since == VersionSince()


def take(
    report: NodeHealth,
    signals: Iterable[Signal],
    *,
    run: str,
    kernel_sequence: int | None,
    now: datetime = LATEST,
) -> NodeHealth:
    """Return the report after signals of sensor run `run`, in order, and its new cursor.

    A signal at or below the cursor was counted before and changes nothing. None happened
    after `now`.
    """
    same_run = report.cursor.sensor_run == run
    done = report.cursor.signal_sequence if same_run else 0
    node = _Node({gpu.uuid: gpu for gpu in report.gpus}, report.switches, now, report.xids_dropped)
    before = _dropped(node.gpus)
    for signal in signals:
        if signal.number > done:
            done = signal.number
            _apply(node, signal)
    read = [
        sequence
        for sequence in (report.cursor.kernel_sequence, kernel_sequence)
        if sequence is not None
    ]
    return _with_gpus(
        report,
        node.gpus,
        switches=node.switches,
        cursor=Cursor(
            kernel_sequence=max(read, default=None), sensor_run=run, signal_sequence=done
        ),
        xids_dropped=node.dropped + _dropped(node.gpus) - before,
    )


def observe(
    report: NodeHealth,
    seen: Observation,
    *,
    published: Published | None = None,
    lost_after: timedelta = timedelta(seconds=60),
    interval: timedelta = timedelta(seconds=30),
) -> NodeHealth:
    """Return the report after the sensor sent what it sees; `published` None: not known.

    `interval` is that of its samples: one of them without an answer proves nothing.
    """
    gpus = {gpu.uuid: gpu for gpu in report.gpus}
    nvml, driver = seen.nvml, report.driver_version
    reason = next((source.reason for source in seen.sources if source.name == "nvml"), "")
    if nvml is None and reason == STARTING:
        # Nothing was said yet: a restarting agent must not make its GPUs unknown.
        return _with_gpus(report, gpus, sources=seen.sources, observed_at=seen.at)
    before = _dropped(gpus)
    bus = inventory.bus_of(seen, gpus.values(), published)
    found = nvml.driver_version if nvml else ""
    reloaded = bool(driver and found and found != driver)
    driver = found or driver
    before -= listed_gpus.take_in(
        gpus,
        seen,
        reason,
        published,
        bus,
        lost_after,
        unread_after=_UNREAD_SAMPLES * interval,
        reloaded=reloaded,
    )
    before -= listed_gpus.forget_phantoms(gpus, bus)
    naming.name_by_bus(gpus, published.by_bus if published else {})
    on_pci = {uuid: config_space.updated(gpu, seen, bus) for uuid, gpu in gpus.items()}
    return _with_gpus(
        msgspec.structs.replace(report, driver_since=report.driver_since.seen(driver, seen.at)),
        on_pci,
        sources=seen.sources,
        driver_version=driver,
        observed_at=seen.at,
        inventory=inventory.taken(bus, seen, published),
        xids_dropped=report.xids_dropped + _dropped(gpus) - before,
    )


def blind(report: NodeHealth, reason: str, message: str, at: datetime) -> NodeHealth:
    """Return the report while the sensor itself is stale."""
    names = [source.name for source in report.sources] or ["nvml", "kmsg", "podresources"]
    before = {source.name: source.last_success for source in report.sources}
    sources = tuple(
        SourceHealth(
            name=name, state="Down", reason=reason, message=message, last_success=before.get(name)
        )
        for name in names
    )
    return observe(report, Observation(at=at, sources=sources))


def _apply(node: _Node, signal: Signal) -> None:
    """Apply a signal by its kind.

    "recovery" and "topology" change nothing here: they make the sensor read the GPUs again, and
    that reading has the change.
    """
    if signal.kind in ERRORS:
        _count(node, signal)
    elif signal.kind == "rate-limit":
        gpu = node.gpus.get(naming.uuid_of(node.gpus, signal))
        if gpu is not None:
            records = xid_counts.rate_limited(gpu.xids, signal.code)
            node.gpus[gpu.uuid] = msgspec.structs.replace(gpu, xids=records)
    elif signal.kind == "sxid":
        node.switches, dropped = switches.counted(node.switches, signal)
        node.dropped += dropped
    elif signal.kind == "driver-load":
        for uuid, gpu in node.gpus.items():
            # Programs can forge what syslog(2) reads, and a new epoch ends faults: NVML must agree.
            if signal.source != "syslog" or gpu_state.let_go_of(gpu):
                node.gpus[uuid] = gpu_state.driver_loaded(gpu, signal.at)
    elif signal.kind == "identity":
        naming.rename(node.gpus, signal.bus_id, signal.uuid)
        # The driver says it before a GPU's first XID, NVML may not have listed it yet.
        node.dropped += not naming.admit(node.gpus, signal.uuid, signal)


def _count(node: _Node, signal: Signal) -> None:
    uuid = naming.uuid_of(node.gpus, signal)
    if not naming.admit(node.gpus, uuid, signal):
        node.dropped += 1
        return
    gpu = node.gpus[uuid]
    epoch = gpu_state.epoch_at(gpu, signal.at, node.now)
    layout = xid_counts.Layout.of(gpu)
    none_at = gpu.recovery_action.last_none_at
    records = xid_counts.counted(gpu.xids, signal, epoch=epoch, layout=layout, none_at=none_at)
    gpu = xid_counts.with_records(gpu, records)
    if signal.code == _XID_OF_ACTION and signal.recovery_to is not None:
        source = "syslog" if signal.source == "syslog" else "kmsg"
        gpu = gpu_state.action_logged(gpu, signal.recovery_to, signal.at, node.now, source)
    node.gpus[uuid] = gpu


def _dropped(gpus: Gpus) -> int:
    """Count what was left out: a GPU known under two names may have more than there is room for."""
    return sum(gpu.xids_dropped for gpu in gpus.values())


def _with_gpus(report: NodeHealth, gpus: dict[str, GpuHealth], **fields: object) -> NodeHealth:
    ordered = tuple(gpus[uuid] for uuid in sorted(gpus))
    return msgspec.structs.replace(report, gpus=ordered, **fields)
