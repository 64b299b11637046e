"""What a verdict on one GPU must know beside its own entry of the report. Pure."""

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from exporter.model.node_health import GpuHealth, Inventory, NodeHealth, SourceHealth, SwitchHealth
from remediator.diagnose.fault import Record

NEAR = timedelta(minutes=1)
"""Two signals this close together may have one cause: drivers log one failure in several lines, and
NVML is read in between."""


Confirmed = Callable[[datetime, Record | None], datetime | None]
"""Takes when a signal was last seen, and its record. Returns when a user confirmed after it that
the GPU is repaired, None where no user has."""


def unconfirmed(last_seen: datetime, record: Record | None) -> None:
    del last_seen, record


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The report around one GPU, and its users. What is not known is empty."""

    reported_at: datetime | None = None
    """The report's own time, by the node's clock."""
    driver_version: str = ""
    sources: tuple[SourceHealth, ...] = ()
    switches: tuple[SwitchHealth, ...] = ()
    inventory: Inventory = Inventory()
    gpus: tuple[GpuHealth, ...] = ()
    """Every GPU of the report, the diagnosed one too."""
    confirmed: Confirmed = unconfirmed
    """Of the diagnosed GPU."""

    def up(self, source: str) -> bool | None:
        """Return whether a source works, None when the report does not name it."""
        return next((state.up for state in self.sources if state.name == source), None)

    def peers(self, gpu: GpuHealth) -> tuple[GpuHealth, ...]:
        return tuple(peer for peer in self.gpus if peer.uuid != gpu.uuid)


ALONE = Surroundings()


def surroundings(report: NodeHealth | None) -> Surroundings:
    """Return the content of a report beside its GPUs; nothing is known without one."""
    if report is None:
        return ALONE
    return Surroundings(
        reported_at=report.observed_at,
        driver_version=report.driver_version,
        sources=report.sources,
        switches=report.switches,
        inventory=report.inventory,
        gpus=report.gpus,
    )


def near(moment: datetime, other: datetime) -> bool:
    return abs(moment - other) <= NEAR
