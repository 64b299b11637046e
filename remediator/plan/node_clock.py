"""What incidents keep by the clock of a node, after that clock was set back.

The agent then moves all dates of its report along, and adds up by how much
(`clock_set_back_ms`). An incident keeps the sum that its dates were copied under. In another boot
it begins at 0, and the dates stay. Pure.
"""

from datetime import datetime, timedelta

import msgspec

from exporter.model.node_health import MOST_SET_BACK, NodeHealth
from kubeapi.types import EARLIEST
from remediator.model.incident import Incident, SeenSignal
from remediator.model.intent import IntentRecord


def by_clock_of_now(incident: Incident, node: str, report: NodeHealth) -> Incident:
    """Return an incident of a node with its dates by the clock that the node has now."""
    status, now = incident.status, min(max(report.clock_set_back_ms, 0), MOST_SET_BACK)
    before = now if status.clock_set_back_ms is None else status.clock_set_back_ms
    back = timedelta(milliseconds=max(now - before, 0))
    if now == status.clock_set_back_ms or incident.node != node:
        return incident

    def moved(moment: datetime) -> datetime:
        return moment - min(back, moment - EARLIEST)

    def kept(moment: datetime | None) -> datetime | None:
        return moment and moved(moment)

    def with_seen(intent: IntentRecord) -> IntentRecord:
        return msgspec.structs.replace(intent, seen_through_time=kept(intent.seen_through_time))

    def with_first(seen: SeenSignal) -> SeenSignal:
        return msgspec.structs.replace(seen, first_seen_time=moved(seen.first_seen_time))

    status = msgspec.structs.replace(
        status,
        clock_set_back_ms=now,
        seen_through=kept(status.seen_through),
        handled_through=kept(status.handled_through),
        seen_signals=status.seen_signals and tuple(map(with_first, status.seen_signals)),
        intents=tuple(map(with_seen, status.intents)),
    )
    return msgspec.structs.replace(incident, status=status)
