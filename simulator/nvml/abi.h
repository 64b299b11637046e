/* The part of NVML's binary interface that the simulator answers: names,
 * numbers and struct layouts as nvidia-ml-py's ctypes classes state them. */
#ifndef DRAGUARD_SIMULATOR_ABI_H
#define DRAGUARD_SIMULATOR_ABI_H

#define API __attribute__((visibility("default")))

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

typedef struct handle *nvmlDevice_t;
typedef struct handle *nvmlGpuInstance_t;
typedef struct handle *nvmlComputeInstance_t;
typedef struct event_set *nvmlEventSet_t;

#define NVML_BRAND_NVIDIA 14
#define NVML_GPU_VIRTUALIZATION_MODE_NONE 0 /* a machine of its own, no guest */
#define NVML_MEMORY_V2 0x02000028u
#define NVML_TEMPERATURE_V1 0x0100000Cu
#define NVML_GPU_INSTANCE_PROFILE_INFO_V2 0x02000098u
#define NVML_COMPUTE_INSTANCE_PROFILE_INFO_V2 0x02000088u
#define NVML_MARGIN_TEMPERATURE_V1 0x01000008u
#define NVML_ECC_SRAM_ERROR_STATUS_V1 0x01000068u
#define NVML_GPU_FABRIC_INFO_V2 0x02000024u
#define NVML_GPU_FABRIC_INFO_V3 0x03000028u
#define NVML_UNREPAIRABLE_MEMORY_V1 0x01000008u
#define NVML_ADDRESSING_MODE_V1 0x01000008u
#define NVML_REPAIR_STATUS_V1 0x0100000Cu
#define NVML_GPM_METRICS_GET_V1 1u
#define NVML_SYSTEM_EVENT_SET_V1 0x01000010u
#define NVML_SYSTEM_REGISTER_EVENT_V1 0x01000018u
#define NVML_SYSTEM_EVENT_WAIT_V1 0x01000020u
#define NVML_DEVICE_ARCH_HOPPER 9
#define NVML_DEVICE_ARCH_BLACKWELL 10
#define NVML_UUID_SIZE 96
#define NVML_NAME_SIZE 96

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned gpu, memory;
} nvmlUtilization_t;

typedef struct {
    unsigned version, sensorType;
    int temperature;
} nvmlTemperature_t;

typedef union {
    double dVal;
    unsigned uiVal;
    unsigned long ulVal;
    unsigned long long ullVal;
    long long sllVal;
    int siVal;
} nvmlValue_t;

enum {
    VALUE_TYPE_DOUBLE = 0,
    VALUE_TYPE_UNSIGNED_INT = 1,
    VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
    VALUE_TYPE_SIGNED_INT = 5,
};

typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned valueType, nvmlReturn;
    nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct {
    unsigned multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount,
        sharedJpegCount, sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
    unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

typedef struct {
    unsigned id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount,
        decoderCount, encoderCount, jpegCount, ofaCount;
    unsigned long long memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;

typedef struct {
    unsigned version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount,
        copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
    unsigned long long memorySizeMB;
    char name[NVML_NAME_SIZE];
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct {
    unsigned start, size;
} nvmlPlacement_t;

typedef struct {
    nvmlDevice_t device;
    unsigned id, profileId;
    nvmlPlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct {
    nvmlDevice_t device;
    nvmlGpuInstance_t gpuInstance;
    unsigned id, profileId;
    nvmlPlacement_t placement;
} nvmlComputeInstanceInfo_t;

typedef struct {
    unsigned id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount,
        sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;

typedef struct {
    unsigned version, id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount,
        sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
    char name[NVML_NAME_SIZE];
} nvmlComputeInstanceProfileInfo_v2_t;

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
} nvmlEventData_v1_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct {
    unsigned timeoutMs, dataType;
    char uuid[NVML_UUID_SIZE];
    char sourceModule[16];
    unsigned long long eventType, eventData, groupCursor, instanceId, timestampUsec, traceId;
    unsigned gpuInstanceId, computeInstanceId, severity, categoryId, moduleEventCode, scope,
        originator, moduleInstance, chipletId, logLevel, attributes, groupCperSize,
        groupAttributes;
    unsigned char groupSize, groupIndex;
} nvmlEventSetWait_v3_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlBAR1Memory_t;

typedef struct {
    unsigned long long referenceTime, violationTime;
} nvmlViolationTime_t;

typedef struct {
    unsigned version;
    int marginTemperature;
} nvmlMarginTemperature_t;

typedef struct {
    unsigned max, high, partial, low, none;
} nvmlRowRemapperHistogramValues_t;

typedef struct {
    unsigned version;
    unsigned long long aggregateUncParity, aggregateUncSecDed, aggregateCor, volatileUncParity,
        volatileUncSecDed, volatileCor, aggregateUncBucketL2, aggregateUncBucketSm,
        aggregateUncBucketPcie, aggregateUncBucketMcu, aggregateUncBucketOther;
    unsigned bThresholdExceeded;
} nvmlEccSramErrorStatus_t;

typedef struct {
    unsigned version, bChannelRepairPending, bTpcRepairPending;
} nvmlRepairStatus_t;

typedef struct {
    unsigned version, unrepairableMemory;
} nvmlUnrepairableMemory_t;

typedef struct {
    unsigned version, value;
} nvmlDeviceAddressingMode_t;

typedef struct {
    unsigned char clusterUuid[16];
    unsigned status, cliqueId;
    unsigned char state;
} nvmlGpuFabricInfo_t;

typedef struct {
    unsigned version;
    unsigned char clusterUuid[16];
    unsigned status, cliqueId;
    unsigned char state;
    unsigned healthMask;
    unsigned char healthSummary; /* version 3 */
} nvmlGpuFabricInfoV_t;

typedef struct {
    unsigned pid;
    unsigned long long timeStamp;
    unsigned smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
    int isGridLicenseSupported;
    unsigned licensableFeaturesCount; /* the features follow; the simulator has none */
} nvmlGridLicensableFeatures_t;

typedef struct gpm_sample *nvmlGpmSample_t;

typedef struct {
    unsigned metricId, nvmlReturn;
    double value;
    struct {
        const char *shortName, *longName, *unit;
    } metricInfo;
} nvmlGpmMetric_t;

typedef struct {
    unsigned version, numMetrics;
    nvmlGpmSample_t sample1, sample2;
    nvmlGpmMetric_t metrics[]; /* numMetrics of them are looked at */
} nvmlGpmMetricsGet_t;

typedef struct {
    unsigned version, isSupportedDevice;
} nvmlGpmSupport_t;

typedef struct system_event_set *nvmlSystemEventSet_t;

typedef struct {
    unsigned version;
    nvmlSystemEventSet_t set;
} nvmlSystemEventSetRequest_t; /* to create, to free */

typedef struct {
    unsigned version;
    unsigned long long eventTypes;
    nvmlSystemEventSet_t set;
} nvmlSystemRegisterEventRequest_t;

typedef struct {
    unsigned long long eventType;
    unsigned gpuId;
} nvmlSystemEventData_t;

typedef struct {
    unsigned version, timeoutms;
    nvmlSystemEventSet_t set;
    nvmlSystemEventData_t *data;
    unsigned dataSize, numEvent;
} nvmlSystemEventSetWaitRequest_t;

#endif
