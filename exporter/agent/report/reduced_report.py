"""Smaller reports, for an API server that refuses the whole one as invalid (422).

The invalid field is not looked for: first everything is left out that is not needed to see which
GPU has which fault, then all GPUs. What is left out is named in `omitted`, so that a reader takes
it for unknown and never for healthy. Pure.
"""

from typing import Literal

import msgspec

from exporter.model.node_health import (
    FabricHealth,
    GpuHealth,
    Inventory,
    MemoryHealth,
    NodeHealth,
    NvlinkHealth,
    SourceHealth,
)

Size = Literal["Whole", "Essential", "Bare"]
SIZES: tuple[Size, ...] = ("Whole", "Essential", "Bare")
"""From the largest to the smallest."""

ESSENTIAL_OMITS = ("fabric", "memory", "nvlink", "product", "serial", "slowdowns")
"""Of each GPU. Of XIDs, texts go too; of the node, switches and what sources say."""
BARE_OMITS = ("cursor", "gpus", "inventory", "sources", "switches")
"""Of the node. Without the cursor, an agent that adopts this reads the kernel log anew."""


def reduced(report: NodeHealth, size: Size) -> NodeHealth:
    if size == "Essential":
        return _essential(report)
    return _bare(report) if size == "Bare" else report


def _essential(report: NodeHealth) -> NodeHealth:
    return msgspec.structs.replace(
        report,
        sources=tuple(
            SourceHealth(name=source.name, state=source.state, via=source.via)
            for source in report.sources
        ),
        gpus=tuple(_essential_gpu(gpu) for gpu in report.gpus),
        switches=(),
        inventory=msgspec.structs.replace(report.inventory, missing=()),
        omitted=("inventory.missing", "switches"),
    )


def _essential_gpu(gpu: GpuHealth) -> GpuHealth:
    return msgspec.structs.replace(
        gpu,
        serial="",
        product="",
        memory=MemoryHealth(),
        fabric=FabricHealth(),
        nvlink=NvlinkHealth(),
        slowdowns=(),
        xids=tuple(
            msgspec.structs.replace(record, pid=None, process="", message="") for record in gpu.xids
        ),
        omitted=ESSENTIAL_OMITS,
    )


def _bare(report: NodeHealth) -> NodeHealth:
    return NodeHealth(
        schema_version=report.schema_version,
        boot_id=report.boot_id,
        observed_at=report.observed_at,
        report_interval_seconds=report.report_interval_seconds,
        inventory=Inventory(),
        omitted=BARE_OMITS,
    )


class Sizing:
    """Which size is written now; after `retry` seconds the whole report is tried again."""

    def __init__(self, retry: float) -> None:
        self._retry = retry
        self._until = 0.0
        self.size: Size = "Whole"

    def refused(self, now: float) -> bool:
        """Take note of a 422; False where there is nothing smaller."""
        place = SIZES.index(self.size)
        if place + 1 == len(SIZES):
            return False
        self.size, self._until = SIZES[place + 1], now + self._retry
        return True

    def look(self, now: float) -> None:
        """Go back to the whole report once it is time."""
        if self.size != "Whole" and now >= self._until:
            self.size = "Whole"
