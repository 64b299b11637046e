"""The report as it is written: summed up in a line, kept within its size, compared.

Pure.
"""

from collections.abc import Iterator

import msgspec

from exporter.report import GpuHealth, NodeHealth, RecoveryAction, Summary, XidRecord
from exporter.xid import XidClass, lookup

MAX_BYTES = 256 << 10
"""Of the report's JSON; etcd refuses objects of 1.5 MB, and every watcher gets each copy."""

_RANK: dict[XidClass, int] = {
    "lost": 0,
    "gpu": 1,
    "node": 1,
    "fabric": 2,
    "contained": 3,
    "unknown": 4,
    "bus": 5,
    "information": 6,
    "application": 7,
}
"""What is worth keeping first."""

_WORTH_ATTENTION = 3
_MENTIONED = 3


def finished(report: NodeHealth, limit: int = MAX_BYTES) -> NodeHealth:
    """Return the report with its summary, and small enough to be written."""
    return capped(msgspec.structs.replace(report, summary=summary(report)), limit)


def summary(report: NodeHealth) -> Summary:
    findings = [text for gpu in report.gpus for text in _findings(gpu)]
    more = len(findings) - _MENTIONED
    return Summary(
        gpus=len(report.gpus),
        present=sum(gpu.presence == "Present" for gpu in report.gpus),
        attention=", ".join(findings[:_MENTIONED]) + (f" and {more} more" if more > 0 else ""),
        sources_down=", ".join(one.name for one in report.sources if not one.up),
    )


def change_key(report: NodeHealth) -> object:
    """Return a value that differs when something that a policy can act on differs.

    Times of mere looking are left out, but not whether the recovery action was
    read after the last XID: that reading is evidence.
    """
    gpus = tuple(
        msgspec.structs.replace(
            gpu,
            recovery_action=msgspec.structs.replace(gpu.recovery_action, observed_at=None),
        )
        for gpu in report.gpus
    )
    sources = tuple(msgspec.structs.replace(one, last_success=None) for one in report.sources)
    looked = tuple(_looked_after_last_xid(gpu) for gpu in report.gpus)
    settled = msgspec.structs.replace(
        report, gpus=gpus, sources=sources, observed_at=None, cursor=type(report.cursor)()
    )
    return settled, looked


def capped(report: NodeHealth, limit: int) -> NodeHealth:
    """Leave out XID records, least severe and oldest first, until the JSON fits `limit` bytes."""
    size = len(msgspec.json.encode(report))
    if size <= limit:
        return report
    going = sorted(
        ((gpu.uuid, record) for gpu in report.gpus for record in gpu.xids), key=_least_first
    )
    gone: set[tuple[str, int, int | None, int | None]] = set()
    for uuid, record in going:
        if size <= limit:
            break
        size -= len(msgspec.json.encode(record)) + 1
        gone.add((uuid, record.code, record.gi, record.ci))
    gpus = tuple(msgspec.structs.replace(gpu, xids=tuple(_kept(gpu, gone))) for gpu in report.gpus)
    return msgspec.structs.replace(report, gpus=gpus, xids_dropped=report.xids_dropped + len(gone))


def _kept(
    gpu: GpuHealth, gone: set[tuple[str, int, int | None, int | None]]
) -> Iterator[XidRecord]:
    for one in gpu.xids:
        if (gpu.uuid, one.code, one.gi, one.ci) not in gone:
            yield one


def _least_first(entry: tuple[str, XidRecord]) -> tuple[int, float]:
    record = entry[1]
    return -_RANK[lookup(record.code).xid_class], record.last_seen.timestamp()


def _findings(gpu: GpuHealth) -> Iterator[str]:
    name = gpu.uuid[:12]
    if gpu.presence == "Lost":
        yield f"{name}: lost"
    action = gpu.recovery_action.value or 0
    if action > 0:
        yield f"{name}: recovery action {action}"
    severe = [
        record
        for record in gpu.xids
        if record.epoch == gpu.epoch and _RANK[lookup(record.code).xid_class] <= _WORTH_ATTENTION
    ]
    for record in sorted(severe, key=lambda one: (_RANK[lookup(one.code).xid_class], one.code)):
        yield f"{name}: XID {record.code}"


def _looked_after_last_xid(gpu: GpuHealth) -> bool | None:
    action: RecoveryAction = gpu.recovery_action
    if not gpu.xids or action.observed_at is None:
        return None
    return action.observed_at >= max(record.last_seen for record in gpu.xids)
