"""How NVML tells each DCGM field: DCGM field id -> where to look, the best place first.

A `Field` is a number of nvmlDeviceGetFieldValues, of which one call reads all; a
`Call` is a call of its own, whose answer may serve several ids. What is not in
the table is DCGM's to tell; 230 (the last XID) comes from events. Profiling and
per-link fields have tables of their own (`gpm`, `link_table`). Meanings
and units: dcgm_fields.h and DcgmCacheManager of DCGM 4.x, nvml.h of API 13. Pure.
"""

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from exporter.sensor.nvml import picks
from exporter.sensor.nvml import units as unit
from exporter.sensor.nvml.units import Unit


def _whole(answer: Any) -> Any:
    return answer


class Field(msgspec.Struct, frozen=True):
    """A field value by the name of its NVML_FI_* constant."""

    name: str
    unit: Unit = unit.NUMBER
    scope: int = 0


class Call(msgspec.Struct, frozen=True):
    """A call on the device's handle, or, with `node`, one about the whole node."""

    name: str
    arguments: tuple[int, ...] = ()
    unit: Unit | None = unit.NUMBER
    """None: text."""
    pick: Callable[[Any], Any] = _whole
    node: bool = False


Source = Field | Call
Table = dict[int, tuple[Source, ...]]

_CORRECTED, _UNCORRECTED, _VOLATILE, _AGGREGATE = 0, 1, 0, 1


def _memory(pick: Callable[[Any], Any], kind: Unit = unit.MEBIBYTES) -> tuple[Source, ...]:
    # Version 2 keeps the driver's own memory out of "used".
    second = Call("nvmlDeviceGetMemoryInfo", (), kind, pick)
    return (Call("nvmlDeviceGetMemoryInfo_v2", (), kind, pick), second)


def _errors(name: str, kind: int, counter: int) -> tuple[Source, ...]:
    return (Field(name), Call("nvmlDeviceGetTotalEccErrors", (kind, counter)))


def _throttled(name: str, policy: int) -> tuple[Source, ...]:
    field = Field(f"NVML_FI_DEV_PERF_POLICY_{name}", unit.NANOSECONDS)
    pick = attrgetter("violationTime")
    return (field, Call("nvmlDeviceGetViolationStatus", (policy,), unit.NANOSECONDS, pick))


def _remapped(name: str, position: int, kind: Unit) -> tuple[Source, ...]:
    call = Call("nvmlDeviceGetRemappedRows", (), kind, itemgetter(position))
    return (Field(f"NVML_FI_DEV_REMAPPED_{name}", kind), call)


def _row(name: str, kind: Unit | None, *arguments: int, pick: Any = _whole) -> tuple[Source, ...]:
    return (Call(name, arguments, kind, pick),)


def _node(name: str, kind: Unit | None) -> tuple[Source, ...]:
    return (Call(name, (), kind, node=True),)


def _limits(position: int) -> tuple[Source, ...]:
    name = "nvmlDeviceGetPowerManagementLimitConstraints"
    return _row(name, unit.WATTS, pick=itemgetter(position))


def _fabric(kind: Unit | None, pick: Callable[[Any], Any]) -> tuple[Source, ...]:
    return _row("nvmlDeviceGetGpuFabricInfoV", kind, pick=pick)


RETIREMENT_PENDING = _row("nvmlDeviceGetRetiredPagesPendingStatus", unit.SWITCH)
_REASONS = "nvmlDeviceGetCurrentClocks{}Reasons"
_LOCATIONS = {0: 314, 1: 316, 2: 318, 3: 320, 4: 322, 5: 334, 6: 336, 7: 342}
"""NVML_MEMORY_LOCATION_* to the DCGM id of its volatile corrected errors."""
_AGGREGATES = {0: 324, 1: 326, 2: 328, 3: 330, 4: 332, 5: 338, 6: 340, 7: 344}

TABLE: Table = {
    1: _node("nvmlSystemGetDriverVersion", None),
    2: _node("nvmlSystemGetNVMLVersion", None),
    4: _node("nvmlDeviceGetCount", unit.SMALL),
    5: _node("nvmlSystemGetCudaDriverVersion", unit.NUMBER),
    50: _row("nvmlDeviceGetName", None),
    51: _row("nvmlDeviceGetBrand", None, pick=picks.brand),
    52: _row("nvmlDeviceGetIndex", unit.SMALL),
    53: _row("nvmlDeviceGetSerial", None),
    54: _row("nvmlDeviceGetUUID", None),
    55: _row("nvmlDeviceGetMinorNumber", unit.SMALL),
    56: _row("nvmlDeviceGetInforomVersion", None, 0),
    57: _row("nvmlDeviceGetPciInfo", None, pick=attrgetter("busId")),
    58: _row("nvmlDeviceGetPciInfo", unit.WORD, pick=attrgetter("pciDeviceId")),
    59: _row("nvmlDeviceGetPciInfo", unit.WORD, pick=attrgetter("pciSubSystemId")),
    63: _row("nvmlDeviceGetCudaComputeCapability", unit.NUMBER, pick=picks.capability),
    65: _row("nvmlDeviceGetComputeMode", unit.SMALL, pick=picks.compute_mode),
    66: _row("nvmlDeviceGetPersistenceMode", unit.SWITCH),
    67: _row("nvmlDeviceGetMigMode", unit.SWITCH, pick=itemgetter(0)),
    80: _row("nvmlDeviceGetInforomVersion", None, 1),
    81: _row("nvmlDeviceGetInforomVersion", None, 2),
    82: _row("nvmlDeviceGetInforomImageVersion", None),
    83: _row("nvmlDeviceGetInforomConfigurationChecksum", unit.WORD),
    85: _row("nvmlDeviceGetVbiosVersion", None),
    90: _row("nvmlDeviceGetBAR1MemoryInfo", unit.MEBIBYTES, pick=attrgetter("bar1Total")),
    92: _row("nvmlDeviceGetBAR1MemoryInfo", unit.MEBIBYTES, pick=attrgetter("bar1Used")),
    93: _row("nvmlDeviceGetBAR1MemoryInfo", unit.MEBIBYTES, pick=attrgetter("bar1Free")),
    94: _row("nvmlGpmQueryDeviceSupport", unit.SWITCH),
    100: _row("nvmlDeviceGetClockInfo", unit.MEGAHERTZ, 1),
    101: _row("nvmlDeviceGetClockInfo", unit.MEGAHERTZ, 2),
    102: _row("nvmlDeviceGetClockInfo", unit.MEGAHERTZ, 3),
    110: _row("nvmlDeviceGetApplicationsClock", unit.MEGAHERTZ, 0),
    111: _row("nvmlDeviceGetApplicationsClock", unit.MEGAHERTZ, 2),
    112: tuple(Call(_REASONS.format(word), (), unit.MASK) for word in ("Event", "Throttle")),
    113: _row("nvmlDeviceGetMaxClockInfo", unit.MEGAHERTZ, 1),
    114: _row("nvmlDeviceGetMaxClockInfo", unit.MEGAHERTZ, 2),
    115: _row("nvmlDeviceGetMaxClockInfo", unit.MEGAHERTZ, 3),
    120: _row("nvmlDeviceGetAutoBoostedClocksEnabled", unit.SWITCH, pick=itemgetter(0)),
    140: (Field("NVML_FI_DEV_MEMORY_TEMP", unit.CELSIUS),),
    150: _row("nvmlDeviceGetTemperature", unit.CELSIUS, 0),
    151: _row("nvmlDeviceGetTemperatureThreshold", unit.CELSIUS, 2),
    152: _row("nvmlDeviceGetTemperatureThreshold", unit.CELSIUS, 3),
    153: _row("nvmlDeviceGetMarginTemperature", unit.CELSIUS),
    155: _row("nvmlDeviceGetPowerUsage", unit.WATTS),
    156: (
        Field("NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION", unit.MILLIJOULES),
        Call("nvmlDeviceGetTotalEnergyConsumption", (), unit.MILLIJOULES),
    ),
    157: (Field("NVML_FI_DEV_POWER_INSTANT", unit.WATTS),),
    158: _row("nvmlDeviceGetTemperatureThreshold", unit.CELSIUS, 1),
    159: _row("nvmlDeviceGetTemperatureThreshold", unit.CELSIUS, 0),
    160: _row("nvmlDeviceGetPowerManagementLimit", unit.WATTS),
    161: _limits(0),
    162: _limits(1),
    163: _row("nvmlDeviceGetPowerManagementDefaultLimit", unit.WATTS),
    164: _row("nvmlDeviceGetEnforcedPowerLimit", unit.WATTS),
    170: _fabric(unit.SMALL, picks.fabric_status),
    171: _fabric(unit.SMALL, picks.fabric_error),
    172: _fabric(None, picks.cluster_uuid),
    173: _fabric(unit.WORD, picks.of_fabric("clique")),
    174: _fabric(unit.WORD, picks.of_fabric("health_mask")),
    175: _fabric(unit.SMALL, picks.of_fabric("health_summary")),
    190: _row("nvmlDeviceGetPerformanceState", unit.PSTATE),
    191: _row("nvmlDeviceGetFanSpeed", unit.FAN),
    200: _row("nvmlDeviceGetPcieThroughput", unit.KILOBYTES_PER_SECOND, 0),
    201: _row("nvmlDeviceGetPcieThroughput", unit.KILOBYTES_PER_SECOND, 1),
    202: (Field("NVML_FI_DEV_PCIE_REPLAY_COUNTER"), Call("nvmlDeviceGetPcieReplayCounter")),
    203: _row("nvmlDeviceGetUtilizationRates", unit.PERCENT, pick=attrgetter("gpu")),
    204: _row("nvmlDeviceGetUtilizationRates", unit.PERCENT, pick=attrgetter("memory")),
    206: _row("nvmlDeviceGetEncoderUtilization", unit.PERCENT, pick=itemgetter(0)),
    207: _row("nvmlDeviceGetDecoderUtilization", unit.PERCENT, pick=itemgetter(0)),
    235: _row("nvmlDeviceGetMaxPcieLinkGeneration", unit.SMALL),
    236: _row("nvmlDeviceGetMaxPcieLinkWidth", unit.SMALL),
    237: _row("nvmlDeviceGetCurrPcieLinkGeneration", unit.SMALL),
    238: _row("nvmlDeviceGetCurrPcieLinkWidth", unit.SMALL),
    240: _throttled("POWER", 0),
    241: _throttled("THERMAL", 1),
    242: _throttled("SYNC_BOOST", 2),
    243: _throttled("BOARD_LIMIT", 3),
    244: _throttled("LOW_UTILIZATION", 4),
    245: _throttled("RELIABILITY", 5),
    246: _throttled("TOTAL_APP_CLOCKS", 10),
    247: _throttled("TOTAL_BASE_CLOCKS", 11),
    250: _memory(attrgetter("total")),
    251: _memory(attrgetter("free")),
    252: _memory(attrgetter("used")),
    253: _memory(attrgetter("reserved"))[:1],
    254: _memory(picks.used_share, unit.RATIO),
    285: (Field("NVML_FI_DEV_C2C_LINK_COUNT", unit.SMALL),),
    286: (Field("NVML_FI_DEV_C2C_LINK_GET_STATUS", unit.SMALL),),
    287: (Field("NVML_FI_DEV_C2C_LINK_GET_MAX_BW"),),
    300: (
        Field("NVML_FI_DEV_ECC_CURRENT", unit.SWITCH),
        Call("nvmlDeviceGetEccMode", (), unit.SWITCH, itemgetter(0)),
    ),
    301: (
        Field("NVML_FI_DEV_ECC_PENDING", unit.SWITCH),
        Call("nvmlDeviceGetEccMode", (), unit.SWITCH, itemgetter(1)),
    ),
    310: _errors("NVML_FI_DEV_ECC_SBE_VOL_TOTAL", _CORRECTED, _VOLATILE),
    311: _errors("NVML_FI_DEV_ECC_DBE_VOL_TOTAL", _UNCORRECTED, _VOLATILE),
    312: _errors("NVML_FI_DEV_ECC_SBE_AGG_TOTAL", _CORRECTED, _AGGREGATE),
    313: _errors("NVML_FI_DEV_ECC_DBE_AGG_TOTAL", _UNCORRECTED, _AGGREGATE),
    **{
        first + kind: (Call("nvmlDeviceGetMemoryErrorCounter", (kind, counter, location)),)
        for counter, firsts in ((_VOLATILE, _LOCATIONS), (_AGGREGATE, _AGGREGATES))
        for location, first in firsts.items()
        for kind in (_CORRECTED, _UNCORRECTED)
    },
    346: _row(
        "nvmlDeviceGetSramEccErrorStatus", unit.SWITCH, pick=attrgetter("bThresholdExceeded")
    ),
    **{
        number: _row("nvmlDeviceGetRowRemapperHistogram", unit.WORD, pick=attrgetter(name))
        for number, name in enumerate(("max", "high", "partial", "low", "none"), 385)
    },
    390: (Field("NVML_FI_DEV_RETIRED_SBE"),),
    391: (Field("NVML_FI_DEV_RETIRED_DBE"),),
    392: (Field("NVML_FI_DEV_RETIRED_PENDING", unit.SWITCH), *RETIREMENT_PENDING),
    393: _remapped("UNC", 1, unit.NUMBER),
    394: _remapped("COR", 0, unit.NUMBER),
    395: _remapped("FAILURE", 3, unit.SWITCH),
    396: _remapped("PENDING", 2, unit.SWITCH),
    409: (Field("NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"),),
    419: (Field("NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"),),
    429: (Field("NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"),),
    439: (Field("NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"),),
    526: _row("nvmlDeviceGetGridLicensableFeatures", unit.SWITCH, pick=picks.licensed),
    1220: (Field("NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL"),),
    1400: (Field("NVML_FI_DEV_C2C_LINK_ERROR_INTR"),),
    1401: (Field("NVML_FI_DEV_C2C_LINK_ERROR_REPLAY"),),
    1402: (Field("NVML_FI_DEV_C2C_LINK_ERROR_REPLAY_B2B"),),
    1403: (Field("NVML_FI_DEV_C2C_LINK_POWER_STATE", unit.SMALL),),
    **{
        1420 + number: (Field(f"NVML_FI_DEV_CLOCKS_EVENT_REASON_{name}", unit.NANOSECONDS),)
        for number, name in enumerate(
            (
                *("SW_POWER_CAP", "SYNC_BOOST", "SW_THERM_SLOWDOWN", "HW_THERM_SLOWDOWN"),
                "HW_POWER_BRAKE_SLOWDOWN",
            )
        )
    },
    1501: (Field("NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS"),),
    1507: _row("nvmlDeviceGetUnrepairableMemoryFlag_v1", unit.SWITCH),
    1523: (Field("NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", unit.WORD),),
}

OF_SLICES = frozenset((50, 54, 90, 92, 93, *range(250, 255), *range(310, 346)))
"""What NVML tells of a MIG device by itself; the rest it refuses there."""
