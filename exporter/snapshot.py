"""Everything that one page shows, at one moment. Immutable; pure."""

from datetime import datetime

import msgspec

from exporter.claims import Holders
from exporter.readings import Hang, NvmlReading
from exporter.report import NodeHealth, SourceHealth


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One node at one moment."""

    node: str
    at: datetime
    report: NodeHealth
    """What is known of each GPU, seen now or not."""
    nvml: NvmlReading | None = None
    """The last pass over the GPUs; None when there is no fresh one, so its samples vanish."""
    hang: Hang | None = None
    holders: Holders = Holders()
    agent_sources: tuple[SourceHealth, ...] = ()
    """Sources of the agent itself, beside those of the sensor: the ResourceSlice watch."""
    rejected: dict[str, int] = {}
    refused: int = 0
    join_misses: dict[str, int] = {}
    """Holds that could not be tied to hardware, by reason, now."""
    signals_dropped: int = 0
    restarts: int = 0
