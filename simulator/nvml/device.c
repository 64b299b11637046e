/* NVML calls that read one GPU: who it is and how it does. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

#define MIB 1048576ULL

API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
    struct subject subject;
    char text[2 * TEXT_SIZE];
    nvmlReturn_t answer = enter_device(device, __func__, &subject);
    if (answer != NVML_SUCCESS) return answer;
    const struct instance *instance = subject.instance;
    snprintf(text, sizeof text, "%s%s%s", subject.gpu.product->name, instance ? " MIG " : "",
             instance ? instance->profile->name : "");
    return copy_text(name, length, text);
}

API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    struct subject subject;
    nvmlReturn_t answer = enter_device(device, __func__, &subject);
    if (answer != NVML_SUCCESS) return answer;
    return copy_text(uuid, length, subject.instance ? subject.instance->uuid : subject.gpu.uuid);
}

API nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned length) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    return answer ? answer : copy_text(serial, length, subject.gpu.serial);
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer != NVML_SUCCESS || pci == NULL) return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    const struct gpu *gpu = &subject.gpu;
    memset(pci, 0, sizeof *pci);
    pci->domain = gpu->pci_domain;
    pci->bus = gpu->pci_bus;
    pci->device = gpu->pci_device;
    pci->pciDeviceId = gpu->product->pci_device_id;
    pci->pciSubSystemId = gpu->product->pci_subsystem_id;
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", gpu->pci_domain, gpu->pci_bus,
             gpu->pci_device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0",
             gpu->pci_domain & 0xFFFF, gpu->pci_bus & 0xFF, gpu->pci_device & 0xFF);
    return NVML_SUCCESS;
}

/* Reads that are one fixed number of the GPU or its product. */
#define FIXED(function, type, expression)                                       \
    API nvmlReturn_t function(nvmlDevice_t device, type *into) {                \
        struct subject subject;                                                 \
        nvmlReturn_t answer = enter_gpu(device, __func__, &subject);            \
        if (answer != NVML_SUCCESS || into == NULL)                             \
            return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;               \
        *into = (type)(expression);                                             \
        return NVML_SUCCESS;                                                    \
    }

FIXED(nvmlDeviceGetMinorNumber, unsigned, subject.gpu.minor)
FIXED(nvmlDeviceGetBrand, unsigned, NVML_BRAND_NVIDIA)
FIXED(nvmlDeviceGetArchitecture, unsigned, subject.gpu.product->architecture)
FIXED(nvmlDeviceGetPersistenceMode, unsigned, 1)

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    struct subject subject;
    nvmlReturn_t answer = enter_device(device, __func__, &subject);
    if (answer != NVML_SUCCESS || major == NULL || minor == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *major = subject.gpu.product->cuda_major;
    *minor = subject.gpu.product->cuda_minor;
    return NVML_SUCCESS;
}

/* Reads that are one number of the scenario. */
#define READING(function, value)                                       \
    API nvmlReturn_t function(nvmlDevice_t device, unsigned *into) {   \
        struct subject subject;                                        \
        nvmlReturn_t answer = enter_gpu(device, __func__, &subject);   \
        return answer ? answer : value_into(&subject.gpu, value, into); \
    }

READING(nvmlDeviceGetPowerUsage, VALUE_POWER_MW)
READING(nvmlDeviceGetEnforcedPowerLimit, VALUE_POWER_LIMIT_MW)
READING(nvmlDeviceGetPowerManagementLimit, VALUE_POWER_LIMIT_MW)
READING(nvmlDeviceGetPerformanceState, VALUE_PERFORMANCE_STATE)
READING(nvmlDeviceGetPcieReplayCounter, VALUE_PCIE_REPLAYS)

#define LONG_READING(function, value)                                          \
    API nvmlReturn_t function(nvmlDevice_t device, unsigned long long *into) { \
        struct subject subject;                                                \
        nvmlReturn_t answer = enter_gpu(device, __func__, &subject);           \
        return answer ? answer : value_of(&subject.gpu, value, into);          \
    }

LONG_READING(nvmlDeviceGetTotalEnergyConsumption, VALUE_ENERGY_MJ)
LONG_READING(nvmlDeviceGetCurrentClocksEventReasons, VALUE_CLOCKS_EVENT_REASONS)
LONG_READING(nvmlDeviceGetCurrentClocksThrottleReasons, VALUE_CLOCKS_EVENT_REASONS)

/* A MIG GPU does not tell its utilisation (nvml.h, nvmlDeviceGetUtilizationRates). */
API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer != NVML_SUCCESS || into == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    if (subject.gpu.mig) return NVML_ERROR_NOT_SUPPORTED;
    answer = value_into(&subject.gpu, VALUE_UTILIZATION, &into->gpu);
    return answer ? answer : value_into(&subject.gpu, VALUE_MEMORY_UTILIZATION, &into->memory);
}

API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && sensor != 0) answer = NVML_ERROR_INVALID_ARGUMENT;
    return answer ? answer : value_into(&subject.gpu, VALUE_TEMPERATURE_C, into);
}

API nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *into) {
    struct subject subject;
    unsigned celsius = 0;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (into->version != NVML_TEMPERATURE_V1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (into->sensorType != 0) return NVML_ERROR_INVALID_ARGUMENT;
    answer = value_into(&subject.gpu, VALUE_TEMPERATURE_C, &celsius);
    if (answer == NVML_SUCCESS) into->temperature = (int)celsius;
    return answer;
}

API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned type, unsigned *into) {
    static const enum value clocks[] = {VALUE_SM_CLOCK_MHZ, VALUE_SM_CLOCK_MHZ,
                                        VALUE_MEMORY_CLOCK_MHZ, VALUE_VIDEO_CLOCK_MHZ};
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && type >= 4) answer = NVML_ERROR_INVALID_ARGUMENT;
    return answer ? answer : value_into(&subject.gpu, clocks[type], into);
}

API nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned type, unsigned *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && (type >= 4 || into == NULL)) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    const struct product *product = subject.gpu.product;
    unsigned largest[] = {product->sm_clock_mhz, product->sm_clock_mhz, product->memory_clock_mhz,
                          product->video_clock_mhz};
    *into = largest[type];
    return NVML_SUCCESS;
}

/* The memory of a GPU, or of a slice with the processes that run in it. */
static nvmlReturn_t memory_of(const struct subject *subject, nvmlMemory_v2_t *into) {
    const struct gpu *gpu = &subject->gpu;
    unsigned long long used = 0;
    if (subject->instance == NULL) {
        into->total = gpu->product->memory_mib * MIB;
        into->reserved = gpu->product->reserved_mib * MIB;
        nvmlReturn_t answer = value_of(gpu, VALUE_MEMORY_USED_MIB, &used);
        if (answer != NVML_SUCCESS) return answer;
    } else {
        into->total = subject->instance->profile->memory_mib * MIB;
        into->reserved = 0;
        for (int i = 0; i < gpu->process_count; i++)
            if (gpu->processes[i].gi == subject->instance->gi) used += gpu->processes[i].memory_mib;
    }
    unsigned long long most = into->total - into->reserved;
    into->used = used * MIB < most ? used * MIB : most;
    into->free = most - into->used;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_device(device, __func__, &subject);
    if (answer != NVML_SUCCESS || into == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    if (into->version != NVML_MEMORY_V2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return memory_of(&subject, into);
}

/* Version 1 counts what is reserved as used. */
API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *into) {
    struct subject subject;
    nvmlMemory_v2_t memory = {0};
    nvmlReturn_t answer = enter_device(device, __func__, &subject);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS) answer = memory_of(&subject, &memory);
    if (answer != NVML_SUCCESS) return answer;
    *into = (nvmlMemory_t){memory.total, memory.free, memory.reserved + memory.used};
    return NVML_SUCCESS;
}
