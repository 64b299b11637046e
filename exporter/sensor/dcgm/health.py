"""DCGM's health watches and incidents by name. Pure.

Names of the watches as dcgm-exporter shows them, names of codes, severities
and categories as in dcgm_errors.h of DCGM 4 without what stands before each.
A code keeps its oldest name, which dashboards have.
"""

from collections.abc import Iterable, Sequence

from exporter.model.readings import HealthFinding
from exporter.sensor.dcgm.abi import HEALTH_WATCH_ALL
from exporter.sensor.dcgm.entities import Place
from exporter.sensor.dcgm.groups import IncidentInfo
from exporter.sensor.dcgm.values import Entity

WATCHES = {
    0x1: "PCIE",
    0x2: "NVLINK",
    0x4: "PMU",
    0x8: "MCU",
    0x10: "MEM",
    0x20: "SM",
    0x40: "INFOROM",
    0x80: "THERMAL",
    0x100: "POWER",
    0x200: "DRIVER",
    HEALTH_WATCH_ALL: "ALL",
}
"""dcgmHealthSystems_t, as far as it is about GPUs. An incident with every bit is of the GPU as a
whole, such as XID 79."""

ABOUT_GPUS = sum(WATCHES) - HEALTH_WATCH_ALL
"""The bits of the watches that are about GPUs."""

SEVERITIES = ("NONE", "MONITOR", "ISOLATE", "UNKNOWN", "TRIAGE", "CONFIG", "RESET")
"""dcgmErrorSeverity_t: what is to be done."""
CATEGORIES = (
    *("NONE", "PERF_THRESHOLD", "PERF_VIOLATION", "SOFTWARE_CONFIG", "SOFTWARE_LIBRARY"),
    *("SOFTWARE_XID", "SOFTWARE_CUDA", "SOFTWARE_EUD", "SOFTWARE_OTHER", "HARDWARE_THERMAL"),
    *("HARDWARE_MEMORY", "HARDWARE_NVLINK", "HARDWARE_NVSWITCH", "HARDWARE_PCIE"),
    *("HARDWARE_POWER", "HARDWARE_OTHER", "INTERNAL_OTHER"),
)
"""dcgmErrorCategory_t: what it is about."""
_UNKNOWN = "UNKNOWN"

_FROM_0 = (
    *("OK", "UNKNOWN", "UNRECOGNIZED", "PCI_REPLAY_RATE", "VOLATILE_DBE_DETECTED"),
    *("VOLATILE_SBE_DETECTED", "PENDING_PAGE_RETIREMENTS", "RETIRED_PAGES_LIMIT"),
    *("RETIRED_PAGES_DBE_LIMIT", "CORRUPT_INFOROM", "CLOCK_THROTTLE_THERMAL", "POWER_UNREADABLE"),
    *("CLOCK_THROTTLE_POWER", "NVLINK_ERROR_THRESHOLD", "NVLINK_DOWN", "NVSWITCH_FATAL_ERROR"),
    *("NVSWITCH_NON_FATAL_ERROR", "NVSWITCH_DOWN", "NO_ACCESS_TO_FILE", "NVML_API"),
    *("DEVICE_COUNT_MISMATCH", "BAD_PARAMETER", "CANNOT_OPEN_LIB", "DENYLISTED_DRIVER"),
    *("NVML_LIB_BAD", "GRAPHICS_PROCESSES", "HOSTENGINE_CONN", "FIELD_QUERY", "BAD_CUDA_ENV"),
    *("PERSISTENCE_MODE", "LOW_BANDWIDTH", "HIGH_LATENCY", "CANNOT_GET_FIELD_TAG"),
    *("FIELD_VIOLATION", "FIELD_THRESHOLD", "FIELD_VIOLATION_DBL", "FIELD_THRESHOLD_DBL"),
    *("UNSUPPORTED_FIELD_TYPE", "FIELD_THRESHOLD_TS", "FIELD_THRESHOLD_TS_DBL"),
    *("THERMAL_VIOLATIONS", "THERMAL_VIOLATIONS_TS", "TEMP_VIOLATION", "THROTTLING_VIOLATION"),
    *("INTERNAL", "PCIE_GENERATION", "PCIE_WIDTH", "ABORTED", "TEST_DISABLED", "CANNOT_GET_STAT"),
    *("STRESS_LEVEL", "CUDA_API", "FAULTY_MEMORY", "CANNOT_SET_WATCHES", "CUDA_UNBOUND"),
    *("ECC_DISABLED", "MEMORY_ALLOC", "CUDA_DBE", "MEMORY_MISMATCH", "CUDA_DEVICE"),
    *("ECC_UNSUPPORTED", "ECC_PENDING", "MEMORY_BANDWIDTH", "TARGET_POWER", "API_FAIL"),
    *("API_FAIL_GPU", "CUDA_CONTEXT", "DCGM_API", "CONCURRENT_GPUS", "TOO_MANY_ERRORS"),
    *("NVLINK_CRC_ERROR_THRESHOLD", "NVLINK_ERROR_CRITICAL", "ENFORCED_POWER_LIMIT"),
    *("MEMORY_ALLOC_HOST", "GPU_OP_MODE", "NO_MEMORY_CLOCKS", "NO_GRAPHICS_CLOCKS"),
    *("HAD_TO_RESTORE_STATE", "L1TAG_UNSUPPORTED", "L1TAG_MISCOMPARE", "ROW_REMAP_FAILURE"),
    *("UNCONTAINED_ERROR", "EMPTY_GPU_LIST", "DBE_PENDING_PAGE_RETIREMENTS"),
    *("UNCORRECTABLE_ROW_REMAP", "PENDING_ROW_REMAP", "BROKEN_P2P_MEMORY_DEVICE"),
    *("BROKEN_P2P_WRITER_DEVICE", "NVSWITCH_NVLINK_DOWN", "EUD_BINARY_PERMISSIONS"),
    *("EUD_NON_ROOT_USER", "EUD_SPAWN_FAILURE", "EUD_TIMEOUT", "EUD_ZOMBIE"),
    *("EUD_NON_ZERO_EXIT_CODE", "EUD_TEST_FAILED", "FILE_CREATE_PERMISSIONS"),
    *("PAUSE_RESUME_FAILED", "PCIE_H_REPLAY_VIOLATION", "GPU_EXPECTED_NVLINKS_UP"),
    *("NVSWITCH_EXPECTED_NVLINKS_UP", "XID_ERROR", "SBE_VIOLATION", "DBE_VIOLATION"),
    *("PCIE_REPLAY_VIOLATION", "SBE_THRESHOLD_VIOLATION", "DBE_THRESHOLD_VIOLATION"),
    *("PCIE_REPLAY_THRESHOLD_VIOLATION", "CUDA_FM_NOT_INITIALIZED", "SXID_ERROR"),
    *("GFLOPS_THRESHOLD_VIOLATION", "NAN_VALUE", "FABRIC_MANAGER_TRAINING_ERROR"),
    *("BROKEN_P2P_PCIE_MEMORY_DEVICE", "BROKEN_P2P_PCIE_WRITER_DEVICE"),
    *("BROKEN_P2P_NVLINK_MEMORY_DEVICE", "BROKEN_P2P_NVLINK_WRITER_DEVICE", "TEST_SKIPPED"),
)
_LATER = {
    118: "SRAM_THRESHOLD",
    119: "NVLINK_EFFECTIVE_BER_THRESHOLD",
    120: "FALLEN_OFF_BUS",
    121: "NVLINK_SYMBOL_BER_THRESHOLD",
    122: "IMEX_UNHEALTHY",
    123: "FABRIC_PROBE_STATE",
    124: "BINARY_PERMISSIONS",
    125: "GPU_RECOVERY_RESET",
    126: "GPU_RECOVERY_REBOOT",
    127: "GPU_RECOVERY_DRAIN_P2P",
    128: "GPU_RECOVERY_DRAIN_RESET",
    129: "NCCL_ERROR",
    130: "RETEST_REQUESTED",
    131: "CONTAINED_ERROR",
    132: "UNCORRECTABLE_ROW_REMAP_LIMIT",
}
CODES = {number: f"DCGM_FR_{name}" for number, name in (*enumerate(_FROM_0), *_LATER.items())}
"""dcgmError_t. Newer DCGM adds codes at the end; one that is not here is shown by its number."""


def code_name(code: int) -> str:
    return CODES.get(code, f"DCGM_FR_UNKNOWN({code})")


def name_in(names: Sequence[str], number: int | None) -> str:
    """Return the name of a number of an enumeration; UNKNOWN for one that is newer."""
    return names[number] if number is not None and 0 <= number < len(names) else _UNKNOWN


def findings(
    incidents: Iterable[IncidentInfo], places: dict[Entity, Place]
) -> tuple[HealthFinding, ...]:
    """Return what incidents say of GPUs; one of an instance is reported for its GPU.

    Incidents of what is no GPU, and of watches that are not about one, are left out.
    """
    return tuple(
        HealthFinding(
            uuid=places[incident.entity].uuid,
            watch=WATCHES[incident.system],
            health=incident.health,
            error_code=code_name(incident.code),
            severity=name_in(SEVERITIES, incident.severity),
            category=name_in(CATEGORIES, incident.category),
            message=incident.message,
        )
        for incident in incidents
        if incident.entity in places and incident.system in WATCHES
    )
