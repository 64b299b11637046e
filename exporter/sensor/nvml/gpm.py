"""Profiling fields through NVML's GPM, on Hopper and newer: what happened between two samples.

A value is the mean since the sample of the pass before, or a total; the first
pass has none. A MIG slice has samples of its own, by its GPU instance.
"""

import math
from collections.abc import Collection, Hashable
from functools import cache
from typing import Any

from exporter.model.readings import Values
from exporter.sensor.nvml import library as nvml
from exporter.sensor.nvml import units as unit
from exporter.sensor.nvml.engines import NVDEC, NVJPG, NVOFA, absent_of_gpu, absent_of_slice
from exporter.sensor.nvml.fields import Fields, Tally
from exporter.sensor.nvml.table import TABLE
from exporter.sensor.nvml.units import Unit

_PIPES = (
    *("GRAPHICS_UTIL", "SM_UTIL", "SM_OCCUPANCY", "ANY_TENSOR_UTIL", "DRAM_BW_UTIL"),
    *("FP64_UTIL", "FP32_UTIL", "FP16_UTIL"),
)
_TRAFFIC = (
    *("PCIE_TX_PER_SEC", "PCIE_RX_PER_SEC"),
    *("NVLINK_TOTAL_TX_PER_SEC", "NVLINK_TOTAL_RX_PER_SEC"),
)
_MORE_PIPES = ("IMMA_TENSOR_UTIL", "HMMA_TENSOR_UTIL", "DFMA_TENSOR_UTIL", "INTEGER_UTIL")
_ENGINES = (
    *(f"NVDEC_{engine}_UTIL" for engine in range(len(NVDEC))),
    *(f"NVJPG_{engine}_UTIL" for engine in range(len(NVJPG))),
    *(f"NVOFA_{engine}_UTIL" for engine in range(len(NVOFA))),
)
_LANES = tuple(f"NVLINK_L{lane}_{way}_PER_SEC" for lane in range(18) for way in ("TX", "RX"))
_C2C = ("C2C_TOTAL_TX", "C2C_DATA_TX", "C2C_TOTAL_RX", "C2C_DATA_RX")
_HITS = ("HOSTMEM_CACHE_HIT", "HOSTMEM_CACHE_MISS", "PEERMEM_CACHE_HIT", "PEERMEM_CACHE_MISS")
_TOTALS = (
    *("SM_CYCLES_ELAPSED", "SM_CYCLES_ACTIVE", "MMA_CYCLES_ACTIVE", "DMMA_CYCLES_ACTIVE"),
    *("HMMA_CYCLES_ACTIVE", "IMMA_CYCLES_ACTIVE", "DFMA_CYCLES_ACTIVE", "PCIE_TX", "PCIE_RX"),
    *("INTEGER_CYCLES_ACTIVE", "FP64_CYCLES_ACTIVE", "FP32_CYCLES_ACTIVE", "FP16_CYCLES_ACTIVE"),
)

METRICS: dict[int, tuple[str, Unit]] = {
    **{number: (name, unit.PERCENT_TO_RATIO) for number, name in enumerate(_PIPES, 1001)},
    **{number: (name, unit.MEBIBYTES_TO_BYTES) for number, name in enumerate(_TRAFFIC, 1009)},
    **{number: (name, unit.PERCENT_TO_RATIO) for number, name in enumerate(_MORE_PIPES, 1013)},
    **{number: (name, unit.PERCENT_TO_RATIO) for number, name in enumerate(_ENGINES, 1017)},
    **{number: (name, unit.MEBIBYTES_TO_BYTES) for number, name in enumerate(_LANES, 1040)},
    **{1076 + at: (f"{name}_PER_SEC", unit.MEBIBYTES_TO_BYTES) for at, name in enumerate(_C2C)},
    **{number: (name, unit.PERCENT_TO_RATIO) for number, name in enumerate(_HITS, 1080)},
    **{number: (name, unit.NUMBER) for number, name in enumerate(_TOTALS, 1084)},
}
"""DCGM field id -> NVML_GPM_METRIC_* and its unit (nvml.h: percent, and MiB a second). The last
thirteen are totals, which DCGM 4.6 passes on as they are."""
NOT_OF_SLICES = frozenset((*range(1009, 1013), *range(1040, 1080), 1091, 1092))
"""The GPU's own wires, which are nobody's slice (DCGM gives them for the GPU alone)."""


C2C = frozenset(range(1076, 1080))
C2C_LINKS = 285
"""Field of how many a GPU has."""
_FIRST_LANE = 1040


class Gpm:
    """Keeps the last sample of each GPU and slice."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._last: dict[Hashable, Any] = {}
        self._spare: list[Any] = []
        self._seen: set[Hashable] = set()

    def of_gpu(
        self, key: Hashable, fields: Fields, gpu: Any, desired: Collection[int], *, links: int
    ) -> Values:
        """Return the requested fields of a GPU with so many NVLinks."""
        if not _supported(fields):
            return {}
        # Of wires and engines that the GPU lacks: GPM answers 0 for them.
        absent = set(range(_FIRST_LANE + 2 * links, _FIRST_LANE + len(_LANES)))
        if not C2C.isdisjoint(desired) and not fields.whole(TABLE[C2C_LINKS]):
            absent |= C2C
        absent |= absent_of_gpu(fields, desired)
        numbers = [number for number in METRICS if number in desired and number not in absent]
        return self._read(key, fields, numbers, "nvmlGpmSampleGet", gpu)

    def of_slice(
        self,
        key: Hashable,
        of_gpu: Fields,
        part: Fields,
        where: tuple[Any, int],
        desired: Collection[int],
    ) -> Values:
        """Return the requested fields of a GPU instance; `where` is its GPU's handle and its id."""
        if not _supported(of_gpu):
            return {}
        absent = NOT_OF_SLICES | absent_of_slice(part, desired)
        numbers = [number for number in METRICS if number in desired and number not in absent]
        return self._read(key, part, numbers, "nvmlGpmMigSampleGet", *where)

    def end_pass(self) -> None:
        """Let go of the samples of what was not read in this pass."""
        for key in [key for key in self._last if key not in self._seen]:
            self._spare.append(self._last.pop(key))
        self._seen.clear()

    def _read(
        self, key: Hashable, fields: Fields, numbers: list[int], name: str, *where: Any
    ) -> Values:
        if not numbers:
            return {}
        sample = self._spare.pop() if self._spare else fields.ask("nvmlGpmSampleAlloc")
        if sample is None:
            return {}
        if fields.ask(name, *where, sample) is None:
            self._spare.append(sample)
            return {}
        before = self._last.get(key)
        self._last[key] = sample
        self._seen.add(key)
        if before is None:
            return {}
        self._spare.append(before)
        return self._between(fields, before, sample, numbers)

    def _between(self, fields: Fields, before: Any, now: Any, numbers: list[int]) -> Values:
        metrics = {number: metric_number(METRICS[number][0]) for number in numbers}
        requested = sorted({metric for metric in metrics.values() if metric is not None})
        answered: dict[int, float] = fields.ask("nvmlGpmMetricsGet", before, now, requested) or {}
        found: Values = {}
        for number, metric in metrics.items():
            if metric is None or metric not in answered:
                continue
            raw = answered[metric]
            if isinstance(raw, float) and math.isnan(raw):
                # 0 by 0: nothing was counted yet between two samples that are very close.
                continue
            value = METRICS[number][1].take(raw)
            self._tally.refused += value is None
            if value is not None:
                found[number] = value
        return found


def _supported(fields: Fields) -> bool:
    return fields.get("nvmlGpmQueryDeviceSupport") == 1


@cache
def metric_number(name: str) -> int | None:
    """Return the number of an NVML_GPM_METRIC_*, None when this nvidia-ml-py lacks it."""
    return nvml.number_of(f"NVML_GPM_METRIC_{name}")
