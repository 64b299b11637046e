"""What is shown of one entity: NVML's answer first, DCGM's where NVML has none.

A value belongs to one place: on a GPU with MIG slices a field that slices have
(memory, profiling) is of the slices, and everything else is of the GPU, so that no
sum over a family counts anything twice. Pure.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from exporter.metrics import fields
from exporter.model.readings import (
    DcgmEntity,
    DcgmReading,
    GpuReading,
    MigReading,
    NvmlReading,
    Values,
)

Key = tuple[str, int | None, int | None, int | None]
"""UUID of the GPU, GPU instance, compute instance, NVLink."""


def by_entity(reading: DcgmReading | None) -> dict[Key, Values]:
    """Return what DCGM reported, by entity."""
    entities: Iterable[DcgmEntity] = reading.entities if reading else ()
    return {(entity.uuid, entity.gi, entity.ci, entity.link): entity.values for entity in entities}


def of_gpu(
    gpu: GpuReading, nvml: NvmlReading, dcgm: Mapping[Key, Values], *, known: bool
) -> Values:
    """Return the values of a GPU as a whole; `known`: its reading comes from NVML.

    Its identity fields stay while the GPU cannot be read; `values` does not have them then.
    """
    who: dict[int, int | str | None] = {}
    if known:
        who = {1: nvml.driver_version or None, 50: gpu.product or None, 52: gpu.index}
        who |= {53: gpu.serial or None, 54: gpu.uuid, 55: gpu.minor}
    return _merged(gpu.values, who, dcgm.get((gpu.uuid, None, None, None), {}))


def of_slice(
    gpu: GpuReading, part: MigReading, dcgm: Mapping[Key, Values], *, alone: bool
) -> Values:
    """Return the values of a MIG slice; `alone`: it is all there is of its GPU instance."""
    compute = dcgm.get((gpu.uuid, part.gi, part.ci, None), {})
    whole = dcgm.get((gpu.uuid, part.gi, None, None), {}) if alone else {}
    return _merged(part.values, compute, whole)


def of_instance(gpu: GpuReading, gi: int, dcgm: Mapping[Key, Values]) -> Values:
    """Return what DCGM reported for a GPU instance that has several compute instances."""
    return _merged(dcgm.get((gpu.uuid, gi, None, None), {}))


def of_link(gpu: GpuReading, link: int, values: Values, dcgm: Mapping[Key, Values]) -> Values:
    """Return the values of one NVLink: of DCGM's fields those that are a link's."""
    found = _merged(values, dcgm.get((gpu.uuid, None, None, link), {}))
    return {field: value for field, value in found.items() if _level(field) == "link"}


def divided(whole: Values, parts: Sequence[Values]) -> tuple[Values, tuple[Values, ...]]:
    """Return the values of a GPU and of its parts (slices or links), each field in one place.

    A field that is by its nature of parts stays with them, if any has it; any other
    stays with the whole, if that has it.
    """
    taken = {field for part in parts for field in part if _level(field) in ("gi", "ci", "link")}
    kept = {field: value for field, value in whole.items() if field not in taken}
    return kept, tuple(
        {field: value for field, value in part.items() if field not in kept} for part in parts
    )


def of_gpu_instance(field: int) -> bool:
    """Return whether a field is of a GPU instance rather than of one of its compute instances.

    Memory is (compute instances of one GPU instance share it), whatever DCGM's level says.
    """
    return _level(field) != "ci" or field in _MEMORY


_MEMORY = frozenset((90, 92, 93, 250, 251, 252, 253, 254))


@cache
def _level(field: int) -> str:
    known = fields.by_id(field)
    return known.level if known else "gpu"


def _merged(*sources: Mapping[int, int | float | str | None]) -> Values:
    """Return the first source's answer for each field; what is no number that counts is none."""
    merged: Values = {}
    for source in reversed(sources):
        for field, value in source.items():
            if value is not None and not (isinstance(value, float) and not math.isfinite(value)):
                merged[field] = value
    return merged
