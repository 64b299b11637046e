"""Which field is read from where, and what is left to DCGM beside NVML. Pure."""

from collections.abc import Iterable, Sequence

from exporter.model.readings import NvmlReading
from exporter.sensor.dcgm.abi import MAX_FIELDS, Kind

NAME = 50
"""DCGM_FI_DEV_NAME; of a GPU instance its profile, as dcgm-exporter reads it."""
XID = 230
"""DCGM_FI_DEV_XID_ERRORS; reported for a GPU and for an instance apart, each with its own."""
PROFILING = frozenset((*range(1001, 1100), 1532, 1533))
"""DCGM_FI_PROF_*: read by a module of its own, or by GPM; the last two are of an NVLink."""
ALWAYS_THERE = (150, 190)
"""Temperature and performance state, which every GPU tells: with them blank on all GPUs, it is the
engine."""

_WIRES = frozenset((*range(1009, 1013), *range(1040, 1080)))
"""Traffic on PCIe and NVLink, which is the GPU's own and nobody's instance."""
LINK_FIELDS = frozenset((*range(580, 600), *range(1529, 1534)))
"""DCGM_FI_DEV_NVLINK_PPRM_*, PPCNT_* and bytes *_PER_LINK: reported for a link only. The errors of
a link, 1525 to 1528, are of every page: where NVML has none, four watches on each link would go on
for nothing."""
SWITCH_FIELDS = frozenset((*range(701, 708), *range(856, 865), *range(866, 870), 1524))
"""DCGM_FI_DEV_NVSWITCH_* of a switch."""
SWITCH_LINK_FIELDS = frozenset((*range(780, 825), 865, *range(870, 879)))
"""DCGM_FI_DEV_NVSWITCH_LINK_* and so on, of a link of a switch."""
CPU_FIELDS = frozenset((*range(1110, 1113), *range(1130, 1134), 1140, 1141))
CORE_FIELDS = frozenset((*range(1100, 1105), 1120))
"""Reported for a core, and for its CPU as a whole."""
CONNECTX_FIELDS = frozenset(range(1300, 1311))
"""Reported for a ConnectX card. dcgm-exporter 4.8.4 does not show them: its renderer refuses."""
NODE_FIELDS = SWITCH_FIELDS | SWITCH_LINK_FIELDS | CPU_FIELDS | CORE_FIELDS
"""Read by modules of the engine, of no GPU."""
_PARTS = {
    Kind.SWITCH: SWITCH_FIELDS,
    Kind.LINK: SWITCH_LINK_FIELDS,
    Kind.CPU: CPU_FIELDS | CORE_FIELDS,
    Kind.CPU_CORE: CORE_FIELDS,
}
INSTANCE_FIELDS = frozenset((*range(250, 255), *PROFILING)) - _WIRES - LINK_FIELDS
"""Reported for a GPU instance itself (memory, profiling); the rest is of the whole GPU."""


def left_to_dcgm(desired: Iterable[int], nvml: NvmlReading | None) -> tuple[int, ...]:
    """Return the requested fields that NVML does not tell of every GPU and instance it reads.

    All of them while NVML tells nothing: what one library cannot say the other may.
    """
    requested = sorted(set(desired) - {XID})
    if nvml is None:
        return tuple(requested)
    return tuple(field for field in requested if not _read_by_nvml(field, nvml))


def _read_by_nvml(field: int, nvml: NvmlReading) -> bool:
    there: list[bool] = []
    for gpu in nvml.gpus:
        # A GPU that is silent as a whole says nothing about what NVML knows.
        if not gpu.values:
            continue
        if field in LINK_FIELDS:
            there += [field in link.values for link in gpu.links]
            continue
        there.append(field in gpu.values)
        if field in INSTANCE_FIELDS:
            there += [field in part.values for part in gpu.instances or ()]
    return bool(there) and all(there)


def fields_for(kind: Kind, desired: Iterable[int]) -> list[int]:
    """Return which requested fields are read of a kind of entity, in order; `XID` is apart."""
    requested = sorted(set(desired) - {XID})
    if kind == Kind.GPU:
        return sorted({*requested, *ALWAYS_THERE} - LINK_FIELDS - NODE_FIELDS - CONNECTX_FIELDS)
    own = {Kind.GPU_INSTANCE: INSTANCE_FIELDS, Kind.LINK: LINK_FIELDS}.get(kind, frozenset())
    named = {NAME} if kind == Kind.GPU_INSTANCE else set[int]()
    return sorted({field for field in requested if field in own} | named)


def fields_for_part(kind: Kind, desired: Iterable[int]) -> list[int]:
    """Return which of the requested fields are read of what is no GPU's."""
    return sorted(_PARTS[kind].intersection(desired))


def batches(fields: Sequence[int]) -> list[Sequence[int]]:
    """Cut fields into groups that DCGM takes, profiling fields apart."""
    parts = ([f for f in fields if f not in PROFILING], [f for f in fields if f in PROFILING])
    return [part[at : at + MAX_FIELDS] for part in parts for at in range(0, len(part), MAX_FIELDS)]
