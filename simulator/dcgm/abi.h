/* The part of DCGM's binary interface that the simulator answers: names, numbers
 * and struct layouts of DCGM 4.x (dcgm_structs.h, dcgm_fields.h, dcgm_agent.h,
 * dcgm_test_apis.h), as far as a client of 4.6.0 sees them. */
#ifndef DRAGUARD_SIMULATOR_DCGM_ABI_H
#define DRAGUARD_SIMULATOR_DCGM_ABI_H

#include <stdint.h>

#ifndef API
#define API __attribute__((visibility("default")))
#endif

/* A version word carries the struct's size below and its number above. */
#define VERSION(type, number) ((unsigned)(sizeof(type) | ((unsigned long)(number) << 24)))

typedef enum {
    DCGM_ST_OK = 0,
    DCGM_ST_BADPARAM = -1,
    DCGM_ST_GENERIC_ERROR = -3,
    DCGM_ST_MEMORY = -4,
    DCGM_ST_NOT_CONFIGURED = -5,
    DCGM_ST_NOT_SUPPORTED = -6,
    DCGM_ST_UNINITIALIZED = -10,
    DCGM_ST_TIMEOUT = -11,
    DCGM_ST_VER_MISMATCH = -12,
    DCGM_ST_UNKNOWN_FIELD = -13,
    DCGM_ST_NO_DATA = -14,
    DCGM_ST_NOT_WATCHED = -16,
    DCGM_ST_GPU_IS_LOST = -18,
    DCGM_ST_CONNECTION_NOT_VALID = -21,
    DCGM_ST_MAX_LIMIT = -24,
    DCGM_ST_DUPLICATE_KEY = -26,
    DCGM_ST_INSUFFICIENT_SIZE = -31,
    DCGM_ST_MODULE_NOT_LOADED = -33,
    DCGM_ST_GROUP_IS_EMPTY = -35,
} dcgmReturn_t;

typedef uintptr_t dcgmHandle_t;
typedef uintptr_t dcgmGpuGrp_t;
typedef uintptr_t dcgmFieldGrp_t;
typedef uintptr_t dcgmStatus_t;

/* Kinds of entities (dcgm_field_entity_group_t). */
enum { FE_NONE, FE_GPU, FE_VGPU, FE_SWITCH, FE_GPU_I, FE_GPU_CI, FE_LINK, FE_CPU, FE_CPU_CORE };

enum { LINK_NOT_SUPPORTED, LINK_DISABLED, LINK_DOWN, LINK_UP };

/* DcgmEntityStatus_t */
enum {
    ENTITY_UNKNOWN,
    ENTITY_OK,
    ENTITY_UNSUPPORTED,
    ENTITY_INACCESSIBLE,
    ENTITY_LOST,
    ENTITY_FAKE,
    ENTITY_DISABLED,
    ENTITY_DETACHED,
    ENTITY_STATUS_COUNT
};

enum { GROUP_DEFAULT, GROUP_EMPTY, GROUP_SWITCHES, GROUP_GI, GROUP_CI, GROUP_EVERYTHING };
#define GROUP_ALL_GPUS 0x7fffffff
#define GROUP_ALL_SWITCHES 0x7ffffffe
#define GROUP_ALL_GI 0x7ffffffd
#define GROUP_ALL_CI 0x7ffffffc
#define GROUP_ALL_ENTITIES 0x7ffffffb

enum { ORDER_ASCENDING = 1, ORDER_DESCENDING = 2 };
enum { MODE_AUTO = 1, MODE_MANUAL = 2 };
enum { HEALTH_PASS = 0, HEALTH_WARN = 10, HEALTH_FAIL = 20 };

#define EMBEDDED_HANDLE 0x7fffffff
/* The entity id of an NVLink (dcgm_link_t): owner's kind, link, owner. */
#define LINK_ENTITY(gpu, link) (FE_GPU | (unsigned)(link) << 8 | (unsigned)(gpu) << 24)
#define SWITCH_LINK_ENTITY(owner, link) (FE_SWITCH | (unsigned)(link) << 8 | (unsigned)(owner) << 24)
#define DEFAULT_PORT ":5555"
#define FLAG_LIVE_DATA 1u
#define FLAG_ONLY_SUPPORTED 1u

/* Blanks: the last digit says why (0 none, 1 not found, 2 not supported, 3 not permitted). */
#define INT32_BLANK 0x7ffffff0
#define INT64_BLANK 0x7ffffffffffffff0LL
#define FP64_BLANK 140737488355328.0
enum { BLANK, NOT_FOUND, NOT_SUPPORTED, NOT_PERMITTED, BLANK_COUNT };

#define MAX_DEVICES 32
#define STR_LENGTH 256
#define BLOB_LENGTH 4096
#define MAX_ENTITIES_V1 64
#define MAX_ENTITIES 1024
#define MAX_GROUPS 64
#define MAX_FIELD_GROUPS 64
#define MAX_FIELDS_PER_GROUP 128
#define MAX_HIERARCHY (MAX_DEVICES * 14)
#define INSTANCES_PER_GPU 8
#define MAX_CLOCKS 256
#define LINKS_PER_GPU 18
#define LINKS_PER_SWITCH 256
#define MAX_SWITCHES 12
#define MAX_CPUS 8
#define CORE_WORDS 16
#define MAX_CORES (64 * CORE_WORDS)

typedef struct {
    unsigned version, persistAfterDisconnect;
} dcgmConnectV2Params_v1;

typedef struct {
    unsigned version, persistAfterDisconnect, timeoutMs, addressIsUnixSocket;
} dcgmConnectV2Params_v2;

typedef struct {
    unsigned version, persistAfterDisconnect, timeoutMs;
} dcgmConnectV3Params_v1;

/* Version 1 ends with denyList[10] in place of serviceAccount. */
typedef struct {
    unsigned version, opMode;
    dcgmHandle_t dcgmHandle;
    const char *logFile;
    int severity;
    unsigned denyListCount, denyList[10];
} dcgmStartEmbeddedV2Params_v1;

typedef struct {
    unsigned version, opMode;
    dcgmHandle_t dcgmHandle;
    const char *logFile;
    int severity;
    unsigned denyListCount;
    const char *serviceAccount;
    unsigned denyList[10];
} dcgmStartEmbeddedV2Params_v2;

typedef struct {
    unsigned version, opMode;
    dcgmHandle_t dcgmHandle;
    const char *logFile;
    int severity;
    unsigned denyListCount;
    const char *serviceAccount;
    unsigned denyList[16];
} dcgmStartEmbeddedV2Params_v3;

typedef struct {
    unsigned version;
    char rawBuildInfoString[2 * STR_LENGTH];
} dcgmVersionInfo_v2;

typedef struct {
    unsigned version, overallHealth;
} dcgmHostengineHealth_v1;

typedef struct {
    unsigned entityGroupId, entityId;
} dcgmGroupEntityPair_t;

typedef struct {
    unsigned version, count;
    char groupName[STR_LENGTH];
    dcgmGroupEntityPair_t entityList[MAX_ENTITIES_V1];
} dcgmGroupInfo_v2;

typedef struct {
    unsigned version, count;
    char groupName[STR_LENGTH];
    dcgmGroupEntityPair_t entityList[MAX_ENTITIES];
} dcgmGroupInfo_v3;

typedef struct {
    unsigned version, numFieldIds;
    dcgmFieldGrp_t fieldGroupId;
    char fieldGroupName[STR_LENGTH];
    unsigned short fieldIds[MAX_FIELDS_PER_GROUP];
} dcgmFieldGroupInfo_v1;

typedef struct {
    char gpuUuid[128];
    unsigned nvmlGpuIndex, nvmlInstanceId, nvmlComputeInstanceId, nvmlMigProfileId,
        nvmlProfileSlices;
} dcgmMigEntityInfo_t;

typedef struct {
    dcgmGroupEntityPair_t entity, parent;
    dcgmMigEntityInfo_t info;
} dcgmMigHierarchyInfo_v2;

typedef struct {
    unsigned entityId, linkState[LINKS_PER_GPU];
} dcgmNvLinkGpuLinkStatus_v3;

typedef struct {
    unsigned entityId, linkState[LINKS_PER_SWITCH];
} dcgmNvLinkNvSwitchLinkStatus_t;

/* Version 3 has 64 links per switch. */
typedef struct {
    unsigned version, numGpus;
    dcgmNvLinkGpuLinkStatus_v3 gpus[MAX_DEVICES];
    unsigned numNvSwitches;
    dcgmNvLinkNvSwitchLinkStatus_t nvSwitches[MAX_SWITCHES];
} dcgmNvLinkStatus_v4;

typedef struct {
    unsigned version, count;
    dcgmMigHierarchyInfo_v2 entityList[MAX_HIERARCHY];
} dcgmMigHierarchy_v2;

typedef struct {
    unsigned version;
    uint64_t bitmask[CORE_WORDS];
} dcgmCpuHierarchyOwnedCores_v1;

typedef struct {
    unsigned cpuId;
    dcgmCpuHierarchyOwnedCores_v1 ownedCores;
} dcgmCpuHierarchyCpu_v1;

typedef struct {
    unsigned cpuId;
    dcgmCpuHierarchyOwnedCores_v1 ownedCores;
    char serial[STR_LENGTH];
} dcgmCpuHierarchyCpu_v2;

typedef struct {
    unsigned version, numCpus;
    dcgmCpuHierarchyCpu_v1 cpus[MAX_CPUS];
} dcgmCpuHierarchy_v1;

typedef struct {
    unsigned version, numCpus;
    dcgmCpuHierarchyCpu_v2 cpus[MAX_CPUS];
} dcgmCpuHierarchy_v2;

typedef struct {
    int version;
    unsigned memClock, smClock;
} dcgmClockSet_v1;

typedef struct {
    unsigned version, count;
    dcgmClockSet_v1 clockSet[MAX_CLOCKS];
} dcgmDeviceSupportedClockSets_v1;

typedef struct {
    unsigned version, slowdownTemp, shutdownTemp;
} dcgmDeviceThermals_v1;

typedef struct {
    unsigned version, curPowerLimit, defaultPowerLimit, enforcedPowerLimit, minPowerLimit,
        maxPowerLimit;
} dcgmDevicePowerLimits_v1;

typedef struct {
    unsigned version;
    char brandName[STR_LENGTH], deviceName[STR_LENGTH], pciBusId[STR_LENGTH], serial[STR_LENGTH],
        uuid[STR_LENGTH], vbios[STR_LENGTH], inforomImageVersion[STR_LENGTH];
    unsigned pciDeviceId, pciSubSystemId;
    char driverVersion[STR_LENGTH];
    unsigned virtualizationMode;
} dcgmDeviceIdentifiers_v1;

typedef struct {
    unsigned version, bar1Total, fbTotal, fbUsed, fbFree;
} dcgmDeviceMemoryUsage_v1;

typedef struct {
    unsigned version, persistenceModeEnabled, migModeEnabled, confidentialComputeMode;
} dcgmDeviceSettings_v2;

typedef struct {
    unsigned version;
    dcgmDeviceSupportedClockSets_v1 clockSets;
    dcgmDeviceThermals_v1 thermalSettings;
    dcgmDevicePowerLimits_v1 powerLimits;
    dcgmDeviceIdentifiers_v1 identifiers;
    dcgmDeviceMemoryUsage_v1 memoryUsage;
    dcgmDeviceSettings_v2 settings;
} dcgmDeviceAttributes_v3;

typedef union {
    int64_t i64;
    double dbl;
    char str[STR_LENGTH];
    char blob[BLOB_LENGTH];
} dcgmValue_t;

typedef struct {
    unsigned version;
    unsigned short fieldId, fieldType;
    int status;
    int64_t ts;
    dcgmValue_t value;
} dcgmFieldValue_v1;

typedef struct {
    unsigned version, entityGroupId, entityId;
    unsigned short fieldId, fieldType;
    int status;
    unsigned unused;
    int64_t ts;
    dcgmValue_t value;
} dcgmFieldValue_v2;

typedef int (*dcgmFieldValueEnumeration_f)(unsigned gpuId, dcgmFieldValue_v1 *values, int count,
                                           void *userData);
typedef int (*dcgmFieldValueEntityEnumeration_f)(unsigned entityGroupId, unsigned entityId,
                                                 dcgmFieldValue_v1 *values, int count,
                                                 void *userData);

typedef struct {
    unsigned version;
    dcgmGpuGrp_t groupId;
    unsigned systems;
    long long updateInterval; /* usec */
    double maxKeepAge;        /* seconds */
} dcgmHealthSetParams_v2;

typedef struct {
    char msg[1024];
    unsigned code;
} dcgmDiagErrorDetail_t;

typedef struct {
    unsigned system, health;
    dcgmDiagErrorDetail_t error;
    dcgmGroupEntityPair_t entityInfo;
} dcgmIncidentInfo_t;

typedef struct {
    unsigned version, overallHealth, incidentCount;
    dcgmIncidentInfo_t incidents[MAX_ENTITIES];
} dcgmHealthResponse_v5;

typedef struct {
    unsigned short majorId, minorId;
    unsigned numFieldIds;
    unsigned short fieldIds[64];
} dcgmProfMetricGroupInfo_v2;

typedef struct {
    unsigned version, unused, gpuId, numMetricGroups;
    dcgmProfMetricGroupInfo_v2 metricGroups[10];
} dcgmProfGetMetricGroups_v3;

typedef struct {
    char shortName[10], unit[4];
    short width;
} dcgm_field_output_format_t;

typedef struct {
    unsigned short fieldId;
    char fieldType; /* 'i' int64, 'd' double, 's' string, 't' time, 'b' binary */
    unsigned char size;
    char tag[48];
    int scope; /* 0 global, 1 entity */
    int nvmlFieldId;
    unsigned entityLevel;
    const dcgm_field_output_format_t *valueFormat;
} dcgm_field_meta_t;

#endif
