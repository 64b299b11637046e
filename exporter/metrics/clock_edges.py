"""How often each clock event began on each GPU: what DCGM_EXP_CLOCK_EVENTS_TOTAL counts.

A reason counts when it is set and was not in the reading before. The first reading of a GPU
counts nothing: a reason set in it began before that reading. A reading without a mask does not
end a clock event. Pure; one thread.
"""

from collections.abc import Mapping
from datetime import datetime

from exporter.metrics.windows import CLOCK_EVENTS
from exporter.model.readings import NvmlReading

MOST_GPUS = 512
"""GPUs that are remembered, lost ones too; beyond, the one that was first seen longest ago goes."""


class ClockEdges:
    """Counts since the agent began; a counter starts at 0 with the first reading of a GPU."""

    def __init__(self) -> None:
        self._masks: dict[str, int] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._sampled: datetime | None = None

    def sampled(self, nvml: NvmlReading) -> None:
        """Count what began since the pass before; the same pass again changes nothing."""
        if nvml.at == self._sampled:
            return
        self._sampled = nvml.at
        for gpu in nvml.gpus:
            if gpu.slowdown is not None:
                self._count(gpu.uuid, gpu.slowdown)

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return by UUID how often each clock event began."""
        return {uuid: dict(counts) for uuid, counts in self._counts.items()}

    def _count(self, uuid: str, mask: int) -> None:
        began = mask & ~self._masks.get(uuid, mask)
        self._masks[uuid] = mask
        counts = self._counts.setdefault(uuid, dict.fromkeys(CLOCK_EVENTS.values(), 0))
        for bit, name in CLOCK_EVENTS.items():
            counts[name] += bool(began & bit)
        if len(self._masks) > MOST_GPUS:
            first = next(iter(self._masks))
            del self._masks[first], self._counts[first]
