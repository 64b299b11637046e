"""DCGM's structs as its headers have them, for the tests' plain ctypes client.

Written apart from the simulator's C and from the exporter's binding, so that the
three can be compared.
"""

import ctypes
from ctypes import c_char, c_double, c_int, c_int64, c_uint, c_uint64, c_ushort, c_void_p
from typing import Any

_U, _TEXT = c_uint, c_char * 256
_EMBEDDED = [
    *(("version", _U), ("opMode", _U), ("dcgmHandle", c_void_p), ("logFile", c_void_p)),
    *(("severity", c_int), ("denyListCount", _U)),
]


def _words(text: str) -> list[tuple[str, Any]]:
    """Fields that are all unsigned int."""
    return [(name, _U) for name in text.split()]


# (struct, its version or 0, its fields); later ones may name earlier ones, with a length.
_ROWS: list[tuple[str, int, list[tuple[str, Any]]]] = [
    ("dcgmConnectV2Params_v1", 1, _words("version persistAfterDisconnect")),
    (
        "dcgmConnectV2Params_v2",
        2,
        _words("version persistAfterDisconnect timeoutMs addressIsUnixSocket"),
    ),
    ("dcgmConnectV3Params_v1", 1, _words("version persistAfterDisconnect timeoutMs")),
    ("dcgmStartEmbeddedV2Params_v1", 1, [*_EMBEDDED, ("denyList", _U * 10)]),
    (
        "dcgmStartEmbeddedV2Params_v2",
        2,
        [*_EMBEDDED, ("serviceAccount", c_void_p), ("denyList", _U * 10)],
    ),
    (
        "dcgmStartEmbeddedV2Params_v3",
        3,
        [*_EMBEDDED, ("serviceAccount", c_void_p), ("denyList", _U * 16)],
    ),
    ("dcgmVersionInfo_v2", 2, [("version", _U), ("rawBuildInfoString", c_char * 512)]),
    ("dcgmHostengineHealth_v1", 1, _words("version overallHealth")),
    ("dcgmGroupEntityPair_t", 0, _words("entityGroupId entityId")),
    (
        "dcgmGroupInfo_v2",
        2,
        [
            *(("version", _U), ("count", _U), ("groupName", _TEXT)),
            ("entityList", ("dcgmGroupEntityPair_t", 64)),
        ],
    ),
    (
        "dcgmGroupInfo_v3",
        3,
        [
            *(("version", _U), ("count", _U), ("groupName", _TEXT)),
            ("entityList", ("dcgmGroupEntityPair_t", 1024)),
        ],
    ),
    (
        "dcgmFieldGroupInfo_v1",
        1,
        [
            *(("version", _U), ("numFieldIds", _U), ("fieldGroupId", c_void_p)),
            *(("fieldGroupName", _TEXT), ("fieldIds", c_ushort * 128)),
        ],
    ),
    (
        "dcgmMigEntityInfo_t",
        0,
        [
            ("gpuUuid", c_char * 128),
            *_words("nvmlGpuIndex nvmlInstanceId nvmlComputeInstanceId nvmlMigProfileId"),
            ("nvmlProfileSlices", _U),
        ],
    ),
    (
        "dcgmMigHierarchyInfo_v2",
        0,
        [
            ("entity", ("dcgmGroupEntityPair_t", 0)),
            ("parent", ("dcgmGroupEntityPair_t", 0)),
            ("info", ("dcgmMigEntityInfo_t", 0)),
        ],
    ),
    (
        "dcgmMigHierarchy_v2",
        2,
        [("version", _U), ("count", _U), ("entityList", ("dcgmMigHierarchyInfo_v2", 448))],
    ),
    ("dcgmCpuHierarchyOwnedCores_v1", 1, [("version", _U), ("bitmask", c_uint64 * 16)]),
    (
        "dcgmCpuHierarchyCpu_v1",
        0,
        [("cpuId", _U), ("ownedCores", ("dcgmCpuHierarchyOwnedCores_v1", 0))],
    ),
    (
        "dcgmCpuHierarchyCpu_v2",
        0,
        [
            *(("cpuId", _U), ("ownedCores", ("dcgmCpuHierarchyOwnedCores_v1", 0))),
            ("serial", _TEXT),
        ],
    ),
    (
        "dcgmCpuHierarchy_v1",
        1,
        [("version", _U), ("numCpus", _U), ("cpus", ("dcgmCpuHierarchyCpu_v1", 8))],
    ),
    (
        "dcgmCpuHierarchy_v2",
        2,
        [("version", _U), ("numCpus", _U), ("cpus", ("dcgmCpuHierarchyCpu_v2", 8))],
    ),
    ("dcgmNvLinkGpuLinkStatus_v3", 0, [("entityId", _U), ("linkState", _U * 18)]),
    ("dcgmNvLinkNvSwitchLinkStatus_t", 0, [("entityId", _U), ("linkState", _U * 256)]),
    (
        "dcgmNvLinkStatus_v4",
        4,
        [
            *(("version", _U), ("numGpus", _U), ("gpus", ("dcgmNvLinkGpuLinkStatus_v3", 32))),
            *(("numNvSwitches", _U), ("nvSwitches", ("dcgmNvLinkNvSwitchLinkStatus_t", 12))),
        ],
    ),
    ("dcgmClockSet_v1", 1, [("version", c_int), ("memClock", _U), ("smClock", _U)]),
    (
        "dcgmDeviceSupportedClockSets_v1",
        1,
        [("version", _U), ("count", _U), ("clockSet", ("dcgmClockSet_v1", 256))],
    ),
    ("dcgmDeviceThermals_v1", 1, _words("version slowdownTemp shutdownTemp")),
    (
        "dcgmDevicePowerLimits_v1",
        1,
        _words(
            "version curPowerLimit defaultPowerLimit enforcedPowerLimit minPowerLimit maxPowerLimit"
        ),
    ),
    (
        "dcgmDeviceIdentifiers_v1",
        1,
        [
            *(("version", _U), ("brandName", _TEXT), ("deviceName", _TEXT), ("pciBusId", _TEXT)),
            *(("serial", _TEXT), ("uuid", _TEXT), ("vbios", _TEXT)),
            *(("inforomImageVersion", _TEXT), ("pciDeviceId", _U), ("pciSubSystemId", _U)),
            *(("driverVersion", _TEXT), ("virtualizationMode", _U)),
        ],
    ),
    ("dcgmDeviceMemoryUsage_v1", 1, _words("version bar1Total fbTotal fbUsed fbFree")),
    (
        "dcgmDeviceSettings_v2",
        2,
        _words("version persistenceModeEnabled migModeEnabled confidentialComputeMode"),
    ),
    (
        "dcgmDeviceAttributes_v3",
        3,
        [
            ("version", _U),
            ("clockSets", ("dcgmDeviceSupportedClockSets_v1", 0)),
            ("thermalSettings", ("dcgmDeviceThermals_v1", 0)),
            ("powerLimits", ("dcgmDevicePowerLimits_v1", 0)),
            ("identifiers", ("dcgmDeviceIdentifiers_v1", 0)),
            ("memoryUsage", ("dcgmDeviceMemoryUsage_v1", 0)),
            ("settings", ("dcgmDeviceSettings_v2", 0)),
        ],
    ),
    (
        "dcgmFieldValue_v1",
        1,
        [
            *(("version", _U), ("fieldId", c_ushort), ("fieldType", c_ushort)),
            *(("status", c_int), ("ts", c_int64), ("value", ("dcgmValue_t", 0))),
        ],
    ),
    (
        "dcgmFieldValue_v2",
        2,
        [
            *_words("version entityGroupId entityId"),
            *(("fieldId", c_ushort), ("fieldType", c_ushort), ("status", c_int)),
            *(("unused", _U), ("ts", c_int64), ("value", ("dcgmValue_t", 0))),
        ],
    ),
    (
        "dcgmHealthSetParams_v2",
        2,
        [
            *(("version", _U), ("groupId", c_void_p), ("systems", _U)),
            *(("updateInterval", c_int64), ("maxKeepAge", c_double)),
        ],
    ),
    ("dcgmDiagErrorDetail_t", 0, [("msg", c_char * 1024), ("code", _U)]),
    (
        "dcgmIncidentInfo_t",
        0,
        [
            *(("system", _U), ("health", _U), ("error", ("dcgmDiagErrorDetail_t", 0))),
            ("entityInfo", ("dcgmGroupEntityPair_t", 0)),
        ],
    ),
    (
        "dcgmHealthResponse_v5",
        5,
        [
            *_words("version overallHealth incidentCount"),
            ("incidents", ("dcgmIncidentInfo_t", 1024)),
        ],
    ),
    (
        "dcgmProfMetricGroupInfo_v2",
        0,
        [
            *(("majorId", c_ushort), ("minorId", c_ushort), ("numFieldIds", _U)),
            ("fieldIds", c_ushort * 64),
        ],
    ),
    (
        "dcgmProfGetMetricGroups_v3",
        3,
        [
            *_words("version unused gpuId numMetricGroups"),
            ("metricGroups", ("dcgmProfMetricGroupInfo_v2", 10)),
        ],
    ),
    (
        "dcgm_field_meta_t",
        0,
        [
            *(("fieldId", c_ushort), ("fieldType", c_char), ("size", ctypes.c_ubyte)),
            *(("tag", c_char * 48), ("scope", c_int), ("nvmlFieldId", c_int)),
            *(("entityLevel", _U), ("valueFormat", c_void_p)),
        ],
    ),
]


class Value(ctypes.Union):
    """The value of a field, which the type letter tells apart."""

    _fields_ = [("i64", c_int64), ("dbl", c_double), ("str", _TEXT), ("blob", c_char * 4096)]


STRUCTS: dict[str, Any] = {"dcgmValue_t": Value}
VERSIONS: dict[str, int] = {}
"""Version words: size of the struct, and its number above bit 24."""


def _resolved(kind: Any) -> Any:
    if not isinstance(kind, tuple):
        return kind
    named: tuple[str, int] = kind  # pyright: ignore[reportUnknownVariableType] - only rows above
    struct = STRUCTS[named[0]]
    return struct * named[1] if named[1] else struct


for _name, _number, _fields in _ROWS:
    _layout = {"_fields_": [(field, _resolved(kind)) for field, kind in _fields]}
    STRUCTS[_name] = type(_name, (ctypes.Structure,), _layout)
    if _number:
        VERSIONS[_name] = ctypes.sizeof(STRUCTS[_name]) | _number << 24


def new(name: str, **values: Any) -> Any:
    """Return a zeroed struct with its version word and these fields set."""
    made = STRUCTS[name](**values)
    if name in VERSIONS:
        made.version = VERSIONS[name]
    return made
