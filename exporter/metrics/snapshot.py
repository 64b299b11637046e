"""Everything that one page shows, at one moment, and how it is to be shown. Immutable; pure."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from exporter.agent.join.claims import Holders
from exporter.metrics import counters
from exporter.metrics.counters import Counters, Reloads
from exporter.metrics.labels import Options
from exporter.metrics.windows import WindowCounts
from exporter.metrics.xid_changes import Counted
from exporter.model.given import Ignored
from exporter.model.node_health import NodeHealth, SourceHealth
from exporter.model.readings import DcgmReading, NvmlReading, Observation


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What is requested on the page, and how its labels are written."""

    counters: Counters = msgspec.field(default_factory=counters.default)
    options: Options = Options()
    """Its node name is taken from the snapshot."""
    max_series: int = 20_000
    xid_window: float = 300.0
    """Seconds of DCGM_EXP_XID_ERRORS_COUNT."""
    clock_window: float = 300.0
    """Seconds of DCGM_EXP_CLOCK_EVENTS_COUNT."""
    ignored: tuple[Ignored, ...] = ()
    """Settings that were given and change nothing."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One node at one moment."""

    node: str
    at: datetime
    report: NodeHealth
    """What is known of each GPU, seen now or not."""
    seen: Observation | None = None
    """What the sensor last sent, with the GPUs that are chosen; None while it is stale: its
    samples vanish, and so do its counts, as a counter that is 0 meanwhile jumps afterwards."""
    relayed: NvmlReading | None = None
    """GPUs as DCGM calls them, while NVML is not available (`exporter.metrics.relay`)."""
    holders: Holders = Holders()
    shown: Shown = Shown()
    windows: WindowCounts = WindowCounts()
    clock_edges: Mapping[str, Mapping[str, int]] = {}
    """By UUID: times that each clock event began since the agent did."""
    xid_corrections: Mapping[Counted, int] = {}
    """What to add to counts of XIDs so that as counters they only grow."""
    other_drivers: Mapping[str, str] = {}
    """GPUs that NVIDIA's driver has not, by bus id, with who has them ("": no driver)."""
    agent_sources: tuple[SourceHealth, ...] = ()
    """Sources of the agent itself, beside those of the sensor: the ResourceSlice watch."""
    join_misses: dict[str, int] = {}
    """Holds that could not be tied to hardware, by reason, now."""
    reloads: Reloads = Reloads()
    """Of the counters file."""
    render_seconds: float | None = None
    """What it took to render the page before this one; None: there was none."""

    @property
    def nvml(self) -> NvmlReading | None:
        """The last pass over the GPUs; None when there is no fresh one."""
        return self.seen.nvml if self.seen else None

    @property
    def dcgm(self) -> DcgmReading | None:
        """The last pass over what DCGM watches; None when there is no fresh one."""
        return self.seen.dcgm if self.seen else None
