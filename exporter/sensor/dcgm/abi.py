"""What libdcgm.so.4 looks like from outside: its numbers, its structs and their versions.

Names, numbers and layouts as in the public headers of DCGM 4.x (dcgm_structs.h,
dcgm_fields.h, dcgm_agent.h, dcgm_test_structs.h). Only what this project asks
for. Nothing is called here; `library` does that.
"""

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    Union,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_longlong,
    c_size_t,
    c_uint,
    c_ushort,
    c_void_p,
    sizeof,
)
from enum import IntEnum
from typing import Final

SONAME: Final = "libdcgm.so.4"


class Status(IntEnum):
    """dcgmReturn_t; also the status of a single value. -59 to -66 are not known to this table."""

    OK = 0
    BADPARAM = -1
    GENERIC_ERROR = -3
    MEMORY = -4
    NOT_CONFIGURED = -5
    NOT_SUPPORTED = -6
    INIT_ERROR = -7
    NVML_ERROR = -8
    PENDING = -9
    UNINITIALIZED = -10
    TIMEOUT = -11
    VER_MISMATCH = -12
    UNKNOWN_FIELD = -13
    NO_DATA = -14
    STALE_DATA = -15
    NOT_WATCHED = -16
    NO_PERMISSION = -17
    GPU_IS_LOST = -18
    RESET_REQUIRED = -19
    FUNCTION_NOT_FOUND = -20
    CONNECTION_NOT_VALID = -21
    GPU_NOT_SUPPORTED = -22
    GROUP_INCOMPATIBLE = -23
    MAX_LIMIT = -24
    LIBRARY_NOT_FOUND = -25
    DUPLICATE_KEY = -26
    GPU_IN_SYNC_BOOST_GROUP = -27
    GPU_NOT_IN_SYNC_BOOST_GROUP = -28
    REQUIRES_ROOT = -29
    NVVS_ERROR = -30
    INSUFFICIENT_SIZE = -31
    FIELD_UNSUPPORTED_BY_API = -32
    MODULE_NOT_LOADED = -33
    IN_USE = -34
    GROUP_IS_EMPTY = -35
    PROFILING_NOT_SUPPORTED = -36
    PROFILING_LIBRARY_ERROR = -37
    PROFILING_MULTI_PASS = -38
    DIAG_ALREADY_RUNNING = -39
    DIAG_BAD_JSON = -40
    DIAG_BAD_LAUNCH = -41
    DIAG_UNUSED = -42
    DIAG_THRESHOLD_EXCEEDED = -43
    INSUFFICIENT_DRIVER_VERSION = -44
    INSTANCE_NOT_FOUND = -45
    COMPUTE_INSTANCE_NOT_FOUND = -46
    CHILD_NOT_KILLED = -47
    THIRD_PARTY_LIBRARY_ERROR = -48
    INSUFFICIENT_RESOURCES = -49
    PLUGIN_EXCEPTION = -50
    NVVS_ISOLATE_ERROR = -51
    NVVS_BINARY_NOT_FOUND = -52
    NVVS_KILLED = -53
    PAUSED = -54
    ALREADY_INITIALIZED = -55
    NVML_NOT_LOADED = -56
    NVML_DRIVER_TIMEOUT = -57
    NVVS_NO_AVAILABLE_TEST = -58
    GPUS_DETACHED = -67


class Kind(IntEnum):
    """dcgm_field_entity_group_t."""

    GPU = 1
    SWITCH = 3
    GPU_INSTANCE = 4
    COMPUTE_INSTANCE = 5
    LINK = 6
    CPU = 7
    CPU_CORE = 8


class EntityStatus(IntEnum):
    """DcgmEntityStatus_t."""

    UNKNOWN = 0
    OK = 1
    UNSUPPORTED = 2
    INACCESSIBLE = 3
    LOST = 4
    FAKE = 5
    """Made by a test through dcgmCreateFakeEntities."""
    DISABLED = 6
    DETACHED = 7
    """The driver let it go (unbind); its watches are gone."""


INT64, DOUBLE, STRING, TIMESTAMP, BINARY = "i", "d", "s", "t", "b"
"""DCGM_FT_*: the letter in `fieldType` that says which member of a value holds it."""

INT32_BLANK: Final = 0x7FFFFFF0
INT64_BLANK: Final = 0x7FFFFFFFFFFFFFF0
FP64_BLANK: Final = 140737488355328.0
"""2 to the 47. From each of these up there is no value: +1 not found, +2 not supported, +3 not
permitted. A blank text is `<<<...>>>`."""

NO_INSTANCE: Final = 0xFFFFFFFF
"""In dcgmMigEntityInfo_t, of an entity that is no instance."""

GROUP_EMPTY: Final = 1
"""dcgmGroupType_t: to be filled with entities."""
MODE_MANUAL: Final = 2
"""dcgmOperationMode_t: the engine reads fields in dcgmUpdateAllFields only."""
HEALTH_WATCH_ALL: Final = 0xFFFFFFFF
"""dcgmHealthSystems_t: every system; of an incident, the device as a whole (an XID)."""

MAX_FIELDS: Final = 128
"""DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP; also of one dcgmEntitiesGetLatestValues."""
MAX_ENTITIES: Final = 1024
"""DCGM_GROUP_MAX_ENTITIES_V2."""
_MAX_HIERARCHY: Final = 32 * 14
_TEXT: Final = 256
_BLOB: Final = 4096


def version_word(struct: type[Structure], number: int) -> int:
    """Return what `version` must hold: the struct's size below, its number in the top byte."""
    return sizeof(struct) | number << 24


class EntityPair(Structure):
    """dcgmGroupEntityPair_t."""

    _fields_ = [("kind", c_uint), ("id", c_uint)]


class ConnectParams(Structure):
    """dcgmConnectV2Params_v2. `timeout_ms` is for the connect alone."""

    _fields_ = [
        ("version", c_uint),
        ("persist_after_disconnect", c_uint),
        ("timeout_ms", c_uint),
        ("address_is_unix_socket", c_uint),
    ]


class VersionInfo(Structure):
    """dcgmVersionInfo_v2: `version:4.6.0;arch:x86_64;...`."""

    _fields_ = [("version", c_uint), ("build", c_char * (2 * _TEXT))]


class MigEntityInfo(Structure):
    """dcgmMigEntityInfo_t: what NVML calls the entity."""

    _fields_ = [
        ("gpu_uuid", c_char * 128),
        ("nvml_gpu_index", c_uint),
        ("nvml_instance_id", c_uint),
        ("nvml_compute_instance_id", c_uint),
        ("nvml_mig_profile_id", c_uint),
        ("nvml_profile_slices", c_uint),
    ]


class MigHierarchyEntry(Structure):
    """dcgmMigHierarchyInfo_v2."""

    _fields_ = [("entity", EntityPair), ("parent", EntityPair), ("info", MigEntityInfo)]


class MigHierarchy(Structure):
    """dcgmMigHierarchy_v2."""

    _fields_ = [
        ("version", c_uint),
        ("count", c_uint),
        ("entities", MigHierarchyEntry * _MAX_HIERARCHY),
    ]


class DeviceIdentifiers(Structure):
    """dcgmDeviceIdentifiers_v1."""

    _fields_ = [
        ("version", c_uint),
        ("brand", c_char * _TEXT),
        ("name", c_char * _TEXT),
        ("pci_bus_id", c_char * _TEXT),
        ("serial", c_char * _TEXT),
        ("uuid", c_char * _TEXT),
        ("vbios", c_char * _TEXT),
        ("inforom", c_char * _TEXT),
        ("pci_device_id", c_uint),
        ("pci_subsystem_id", c_uint),
        ("driver_version", c_char * _TEXT),
        ("virtualization_mode", c_uint),
    ]


class DeviceAttributes(Structure):
    """dcgmDeviceAttributes_v3; of its parts only the identifiers are looked at.

    Before them stand 256 supported clocks (three words each, and a head of two),
    the thermal limits (three words) and the power limits (six); after them the
    memory (five) and the settings (four).
    """

    _fields_ = [
        ("version", c_uint),
        ("clocks", c_uint * (2 + 3 * 256)),
        ("thermals", c_uint * 3),
        ("power_limits", c_uint * 6),
        ("identifiers", DeviceIdentifiers),
        ("memory", c_uint * 5),
        ("settings", c_uint * 4),
    ]


class Value(Union):
    """The union in dcgmFieldValue_v1 and _v2."""

    _fields_ = [
        ("i64", c_int64),
        ("dbl", c_double),
        ("str", c_char * _TEXT),
        ("blob", c_char * _BLOB),
    ]


class FieldValueV1(Structure):
    """dcgmFieldValue_v1, of the history. `ts` is microseconds since 1970."""

    _fields_ = [
        ("version", c_uint),
        ("field_id", c_ushort),
        ("field_type", c_ushort),
        ("status", c_int),
        ("ts", c_int64),
        ("value", Value),
    ]


class FieldValueV2(Structure):
    """dcgmFieldValue_v2, of the latest values. `ts` is microseconds since 1970."""

    _fields_ = [
        ("version", c_uint),
        ("kind", c_uint),
        ("entity_id", c_uint),
        ("field_id", c_ushort),
        ("field_type", c_ushort),
        ("status", c_int),
        ("unused", c_uint),
        ("ts", c_int64),
        ("value", Value),
    ]


class HealthSetParams(Structure):
    """dcgmHealthSetParams_v2. The interval is microseconds, the age to keep seconds."""

    _fields_ = [
        ("version", c_uint),
        ("group", c_void_p),
        ("systems", c_uint),
        ("update_interval", c_longlong),
        ("max_keep_age", c_double),
    ]


class DiagErrorDetail(Structure):
    """dcgmDiagErrorDetail_t. `code` is a DCGM_FR_*."""

    _fields_ = [("message", c_char * 1024), ("code", c_uint)]


class Incident(Structure):
    """dcgmIncidentInfo_t. `health` is 10 for a warning and 20 for a failure."""

    _fields_ = [
        ("system", c_uint),
        ("health", c_uint),
        ("error", DiagErrorDetail),
        ("entity", EntityPair),
    ]


class HealthResponse(Structure):
    """dcgmHealthResponse_v5."""

    _fields_ = [
        ("version", c_uint),
        ("overall", c_uint),
        ("count", c_uint),
        ("incidents", Incident * MAX_ENTITIES),
    ]


CONNECT_PARAMS_VERSION: Final = version_word(ConnectParams, 2)
VERSION_INFO_VERSION: Final = version_word(VersionInfo, 2)
MIG_HIERARCHY_VERSION: Final = version_word(MigHierarchy, 2)
DEVICE_ATTRIBUTES_VERSION: Final = version_word(DeviceAttributes, 3)
FIELD_VALUE_VERSION: Final = version_word(FieldValueV2, 2)
HEALTH_SET_VERSION: Final = version_word(HealthSetParams, 2)
HEALTH_RESPONSE_VERSION: Final = version_word(HealthResponse, 5)

HISTORY_CALLBACK = CFUNCTYPE(c_int, c_uint, c_uint, POINTER(FieldValueV1), c_int, c_void_p)
"""dcgmFieldValueEntityEnumeration_f: (kind, entity, values, count, user data); 0 goes on."""

_HANDLE, _GROUP, _POINTER = c_size_t, c_size_t, c_void_p

SIGNATURES: Final[dict[str, tuple[type, ...]]] = {
    "dcgmInit": (),
    "dcgmStartEmbedded": (c_int, _POINTER),
    "dcgmConnect_v2": (c_char_p, _POINTER, _POINTER),
    "dcgmHostengineVersionInfo": (_HANDLE, _POINTER),
    "dcgmGetEntityGroupEntities": (_HANDLE, c_uint, _POINTER, _POINTER, c_uint),
    "dcgmGetGpuStatus": (_HANDLE, c_uint, _POINTER),
    "dcgmGetDeviceAttributes": (_HANDLE, c_uint, _POINTER),
    "dcgmGetGpuInstanceHierarchy": (_HANDLE, _POINTER),
    "dcgmGetNvLinkLinkStatus": (_HANDLE, _POINTER),
    "dcgmGetCpuHierarchy": (_HANDLE, _POINTER),
    "dcgmGetCpuHierarchy_v2": (_HANDLE, _POINTER),
    "dcgmGroupCreate": (_HANDLE, c_int, c_char_p, _POINTER),
    "dcgmGroupAddEntity": (_HANDLE, _GROUP, c_uint, c_uint),
    "dcgmGroupDestroy": (_HANDLE, _GROUP),
    "dcgmFieldGroupCreate": (_HANDLE, c_int, _POINTER, c_char_p, _POINTER),
    "dcgmFieldGroupDestroy": (_HANDLE, _GROUP),
    "dcgmWatchFields": (_HANDLE, _GROUP, _GROUP, c_longlong, c_double, c_int),
    "dcgmUnwatchFields": (_HANDLE, _GROUP, _GROUP),
    "dcgmUpdateAllFields": (_HANDLE, c_int),
    "dcgmEntitiesGetLatestValues": (
        *(_HANDLE, _POINTER, c_uint, _POINTER, c_uint),
        *(c_uint, _POINTER),
    ),
    "dcgmGetValuesSince_v2": (
        *(_HANDLE, _GROUP, _GROUP, c_longlong),
        *(_POINTER, HISTORY_CALLBACK, _POINTER),
    ),
    "dcgmHealthSet_v2": (_HANDLE, _POINTER),
    "dcgmHealthGet": (_HANDLE, _GROUP, _POINTER),
    "dcgmHealthCheck": (_HANDLE, _GROUP, _POINTER),
    "dcgmErrorGetPriorityByCode": (c_uint,),
    "dcgmErrorGetCategoryByCode": (c_uint,),
}
"""What each call takes (dcgm_agent.h; dcgmGetGpuStatus from dcgm_test_apis.h). All answer with a
dcgmReturn_t, but for those of dcgm_errors.h, which look up a table of the library. dcgmHandle_t,
dcgmGpuGrp_t and dcgmFieldGrp_t are as wide as a pointer."""
