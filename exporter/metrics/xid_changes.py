"""What one report counts of XIDs and the one before it did not. Pure."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from exporter.agent.report.xid_counts import by_instance
from exporter.model.node_health import NodeHealth

Place = tuple[str, int | None, int | None]
"""UUID of the GPU, GPU instance, compute instance; None where the error named none."""
Counted = tuple[Place, int]
"""Where, and the XID code."""


class Change(msgspec.Struct, frozen=True):
    counted: Counted
    more: int
    """Below 0 when a count moved to the slice that a better source named."""
    at: datetime
    """When the code was last seen there."""
    may_move: bool
    """Whether a better source could still name the slice."""


def between(before: NodeHealth, after: NodeHealth) -> tuple[Change, ...]:
    """Return what changed; both reports must be of one boot."""
    old, new = dict(_counts(before)), dict(_counts(after))
    found: list[Change] = []
    for counted in {**old, **new}:
        was, now = old.get(counted), new.get(counted)
        more = (now[0] if now else 0) - (was[0] if was else 0)
        latest = now or was
        if more and latest:
            found.append(Change(counted, more, *latest[1:]))
    return tuple(found)


def _counts(report: NodeHealth) -> Iterator[tuple[Counted, tuple[int, datetime, bool]]]:
    for gpu in report.gpus:
        for record in by_instance(gpu.xids):
            may_move = record.ci is None and gpu.mig is not False
            yield (
                ((gpu.uuid, record.gi, record.ci), record.code),
                (record.count, record.last_seen, may_move),
            )
