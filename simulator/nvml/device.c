/* NVML calls that read one GPU: who it is and how it does. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "readings.h"

#define MIB 1048576ULL

API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
    struct subject subject;
    char text[2 * TEXT_SIZE];
    nvmlReturn_t answer = enter_device(device, __func__, &subject);
    if (answer != NVML_SUCCESS) return answer;
    const struct instance *instance = subject.instance;
    snprintf(text, sizeof text, "%s%s%s", subject.gpu.product->name, instance ? " MIG " : "",
             instance ? instance->profile->name : "");
    return report_text(&subject, name, length, text);
}

API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    struct subject subject;
    nvmlReturn_t answer = enter_device(device, __func__, &subject);
    if (answer != NVML_SUCCESS) return answer;
    const struct gpu *gpu = &subject.gpu;
    const char *own = gpu->shown_uuid[0] ? gpu->shown_uuid : gpu->uuid;
    return report_text(&subject, uuid, length, subject.instance ? subject.instance->uuid : own);
}

TEXT(nvmlDeviceGetSerial, subject.gpu.serial)

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
    if (subject.garbage) report_text(&subject, pci->busId, sizeof pci->busId, "");
    return NVML_SUCCESS;
}

FIXED(nvmlDeviceGetMinorNumber, unsigned, subject.gpu.minor)
FIXED(nvmlDeviceGetBrand, unsigned, NVML_BRAND_NVIDIA)
FIXED(nvmlDeviceGetArchitecture, unsigned, subject.gpu.product->architecture)
FIXED(nvmlDeviceGetNumGpuCores, unsigned, subject.gpu.product->cores)
FIXED(nvmlDeviceGetMemoryBusWidth, unsigned, subject.gpu.product->memory_bus_bits)
FIXED(nvmlDeviceGetModuleId, unsigned, subject.gpu.minor) /* its place in the box */
FIXED(nvmlDeviceGetVirtualizationMode, unsigned, NVML_GPU_VIRTUALIZATION_MODE_NONE)
READING(nvmlDeviceGetPersistenceMode, VALUE_PERSISTENCE_MODE)
READING(nvmlDeviceGetComputeMode, VALUE_COMPUTE_MODE)
READING(nvmlDeviceGetInforomConfigurationChecksum, VALUE_INFOROM_CHECKSUM)
TEXT(nvmlDeviceGetVbiosVersion, subject.gpu.product->vbios)
TEXT(nvmlDeviceGetBoardPartNumber, subject.gpu.product->part_number)
TEXT(nvmlDeviceGetInforomImageVersion, subject.gpu.product->inforom_image)

/* Object: OEM, ECC, power, DEN; the boards of the simulator have the first two. */
API nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, unsigned object, char *into,
                                             unsigned length) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && object > 3) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS && object > 1) answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer != NVML_SUCCESS) return answer;
    const struct product *product = subject.gpu.product;
    return report_text(&subject, into, length,
                     object == 0 ? product->inforom_oem : product->inforom_ecc);
}

/* 0: none, as on the H100 that was recorded; heterogeneous memory management would be 1. */
API nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device,
                                             nvmlDeviceAddressingMode_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (into->version != NVML_ADDRESSING_MODE_V1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    into->value = 0;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetGridLicensableFeatures_v4(nvmlDevice_t device,
                                                        nvmlGridLicensableFeatures_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer != NVML_SUCCESS || into == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *into = (nvmlGridLicensableFeatures_t){0, 0};
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    struct subject subject;
    nvmlReturn_t answer = enter_device(device, __func__, &subject);
    if (answer != NVML_SUCCESS || major == NULL || minor == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *major = subject.gpu.product->cuda_major;
    *minor = subject.gpu.product->cuda_minor;
    return NVML_SUCCESS;
}

/* The memory of a GPU, or of a slice with the processes that run in it. */
static nvmlReturn_t memory_of(const struct subject *subject, nvmlMemory_v2_t *into) {
    const struct gpu *gpu = &subject->gpu;
    unsigned long long used = 0;
    if (subject->garbage) {
        memset(&into->total, 0xFF, sizeof *into - offsetof(nvmlMemory_v2_t, total));
        return NVML_SUCCESS;
    }
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

/* A slice has no BAR1 of its own; it reports the GPU's. */
API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *into) {
    struct subject subject;
    unsigned long long used = 0;
    nvmlReturn_t answer = enter_device(device, __func__, &subject);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS) answer = value_of(&subject.gpu, VALUE_BAR1_USED_MIB, &used);
    if (answer != NVML_SUCCESS) return answer;
    unsigned long long total = subject.gpu.product->bar1_mib;
    if (used > total) used = total;
    *into = (nvmlBAR1Memory_t){total * MIB, (total - used) * MIB, used * MIB};
    return NVML_SUCCESS;
}
