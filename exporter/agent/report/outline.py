"""The report as it is written: summed up in a line, kept within its size, compared.

Pure.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from itertools import chain

import msgspec

from exporter.agent.report import limits, severity, switches, xid_counts
from exporter.model.node_health import GpuHealth, NodeHealth, Summary, XidRecord
from exporter.model.node_health_words import (
    FABRIC_STATES,
    FABRIC_SUMMARIES,
    RECOVERY_ACTIONS,
    name_of,
)

MAX_BYTES = 256 << 10
"""Of the report's JSON; etcd refuses objects of 1.5 MB, and every watcher gets each copy."""

_MENTIONED = 3
_FEW_WORDS = 24
"""Characters kept of an XID line when there is no room for all records."""
_KEPT_FOR_DROPPED = 40
"""Bytes that the counts of what was left out may take, per GPU."""

_Name = tuple[str, xid_counts.Key]
"""Of an XID record in the whole report: the GPU's UUID, and what it is about."""


def finished(report: NodeHealth, limit: int = MAX_BYTES) -> NodeHealth:
    """Return the report with its summary, and small enough to be written."""
    fitting = limits.within(report)
    gpus = tuple(_named(gpu) for gpu in fitting.gpus)
    whole = msgspec.structs.replace(fitting, gpus=gpus, summary=summary(fitting))
    return capped(whole, limit)


def _named(gpu: GpuHealth) -> GpuHealth:
    """Return the entry with the names of NVML's codes, for people."""
    action, fabric = gpu.recovery_action, gpu.fabric
    return msgspec.structs.replace(
        gpu,
        recovery_action=msgspec.structs.replace(
            action, action=name_of(action.value, RECOVERY_ACTIONS)
        ),
        fabric=msgspec.structs.replace(
            fabric,
            state_name=name_of(fabric.state, FABRIC_STATES),
            summary_name=name_of(fabric.health_summary, FABRIC_SUMMARIES),
        ),
    )


def summary(report: NodeHealth) -> Summary:
    findings = [*chain.from_iterable(map(_findings, report.gpus))]
    if report.inventory.missing:
        findings.append(f"{len(report.inventory.missing)} GPUs missing")
    findings += [
        f"switch {switch.pci_bus_id}: SXid {record.code}"
        for switch in report.switches
        if (record := switches.worst(switch))
    ]
    more = len(findings) - _MENTIONED
    attention = ", ".join(findings[:_MENTIONED]) + (f" and {more} more" if more > 0 else "")
    down = ", ".join(source.name for source in report.sources if not source.up)
    return Summary(
        gpus=len(report.gpus),
        present=sum(gpu.presence == "Present" for gpu in report.gpus),
        attention=attention[: limits.MAX_ATTENTION],
        sources_down=down[: limits.MAX_SOURCES_DOWN],
    )


def change_key(report: NodeHealth) -> object:
    """Return a value that differs when something that a policy can act on differs.

    Times of mere looking are left out, but not whether the recovery action was
    read after the last XID: that reading is evidence.
    """
    sources = tuple(msgspec.structs.replace(source, last_success=None) for source in report.sources)
    looked = tuple(
        gpu.recovery_action.observed_at >= max(record.last_seen for record in gpu.xids)
        if gpu.xids and gpu.recovery_action.observed_at is not None
        else None
        for gpu in report.gpus
    )
    settled = msgspec.structs.replace(
        report,
        gpus=tuple(_without_times_of_looking(gpu) for gpu in report.gpus),
        sources=sources,
        observed_at=None,
        cursor=type(report.cursor)(),
        content_hash="",
    )
    return settled, looked


def content_hash(report: NodeHealth) -> str:
    """Return a name for what a policy can act on: equal for reports with one `change_key`."""
    return hashlib.sha256(msgspec.json.encode(change_key(report))).hexdigest()[:16]


def capped(report: NodeHealth, limit: int) -> NodeHealth:
    """Cut texts, then leave out XID records, least severe first, until the JSON fits `limit` bytes.

    A text can be read in the node's log; that there was such an error must not be lost.
    """
    if len(msgspec.json.encode(report)) <= limit:
        return report
    report = msgspec.structs.replace(
        report,
        gpus=tuple(
            msgspec.structs.replace(
                gpu,
                xids=tuple(
                    msgspec.structs.replace(record, message=record.message[:_FEW_WORDS])
                    for record in gpu.xids
                ),
            )
            for gpu in report.gpus
        ),
        truncated=tuple(sorted({*report.truncated, "gpus.xids.message"})),
    )
    size = len(msgspec.json.encode(report))
    if size <= limit:
        return report
    size += _KEPT_FOR_DROPPED * (len(report.gpus) + 1)
    everything = ((gpu.uuid, record) for gpu in report.gpus for record in gpu.xids)
    gone: set[_Name] = set()
    for uuid, record in sorted(everything, key=lambda entry: severity.keep_last(entry[1])):
        if size <= limit:
            break
        size -= len(msgspec.json.encode(record)) + 1
        gone.add(_name(uuid, record))
    counts = Counter(name[0] for name in gone)
    return msgspec.structs.replace(
        report,
        gpus=tuple(
            msgspec.structs.replace(
                gpu,
                xids=tuple(record for record in gpu.xids if _name(gpu.uuid, record) not in gone),
                xids_dropped=gpu.xids_dropped + counts[gpu.uuid],
            )
            if counts[gpu.uuid]
            else gpu
            for gpu in report.gpus
        ),
        xids_dropped=report.xids_dropped + len(gone),
    )


def _name(uuid: str, record: XidRecord) -> _Name:
    return uuid, xid_counts.key_of(record)


def _without_times_of_looking(gpu: GpuHealth) -> GpuHealth:
    return msgspec.structs.replace(
        gpu,
        recovery_action=msgspec.structs.replace(gpu.recovery_action, observed_at=None),
        memory=msgspec.structs.replace(gpu.memory, remap_observed_at=None),
        config_space=msgspec.structs.replace(gpu.config_space, answered_at=None),
        slowdowns=tuple(
            msgspec.structs.replace(slowdown, last_seen=slowdown.since)
            for slowdown in gpu.slowdowns
        ),
    )


def _findings(gpu: GpuHealth) -> Iterator[str]:
    name = gpu.uuid[:12]
    if gpu.presence == "Lost":
        yield f"{name}: lost"
    if gpu.config_space.off_bus:
        yield f"{name}: off the bus"
    action = gpu.recovery_action.value or 0
    if action > 0:
        yield f"{name}: recovery action {action}"
    if gpu.memory.remap_failure:
        yield f"{name}: row remap failed"
    severe = {
        record.code
        for record in gpu.xids
        if record.epoch == gpu.epoch and severity.worth_attention(record.code)
    }
    for code in sorted(severe, key=lambda code: (severity.rank(code), code)):
        yield f"{name}: XID {code}"
    if gpu.nvlink.failed:
        yield f"{name}: {len(gpu.nvlink.failed)} NVLinks down"
