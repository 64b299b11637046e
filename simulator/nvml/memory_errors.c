/* NVML calls about memory errors: ECC counts, row remapping, page retirement, repairs. */
#include <string.h>

#include "memory_errors.h"
#include "readings.h"

enum { PLACE_DRAM = 2, PLACE_SRAM = 7, PLACE_COUNT = 8 };

/* [error: corrected, uncorrected][counter: volatile, aggregate]; all places together. */
static const enum value totals[2][2] = {
    {VALUE_ECC_SBE_VOLATILE, VALUE_ECC_SBE_AGGREGATE},
    {VALUE_ECC_DBE_VOLATILE, VALUE_ECC_DBE_AGGREGATE},
};

/* [place: L1, L2, -, registers, texture, shared texture, CBU][error][counter] */
static const enum value places[PLACE_SRAM][2][2] = {
    {{VALUE_ECC_SBE_VOLATILE_L1, VALUE_ECC_SBE_AGGREGATE_L1},
     {VALUE_ECC_DBE_VOLATILE_L1, VALUE_ECC_DBE_AGGREGATE_L1}},
    {{VALUE_ECC_SBE_VOLATILE_L2, VALUE_ECC_SBE_AGGREGATE_L2},
     {VALUE_ECC_DBE_VOLATILE_L2, VALUE_ECC_DBE_AGGREGATE_L2}},
    {{VALUE_COUNT, VALUE_COUNT}, {VALUE_COUNT, VALUE_COUNT}},
    {{VALUE_ECC_SBE_VOLATILE_REG, VALUE_ECC_SBE_AGGREGATE_REG},
     {VALUE_ECC_DBE_VOLATILE_REG, VALUE_ECC_DBE_AGGREGATE_REG}},
    {{VALUE_ECC_SBE_VOLATILE_TEX, VALUE_ECC_SBE_AGGREGATE_TEX},
     {VALUE_ECC_DBE_VOLATILE_TEX, VALUE_ECC_DBE_AGGREGATE_TEX}},
    {{VALUE_COUNT, VALUE_COUNT}, {VALUE_COUNT, VALUE_COUNT}},
    {{VALUE_COUNT, VALUE_COUNT}, {VALUE_ECC_DBE_VOLATILE_CBU, VALUE_ECC_DBE_AGGREGATE_CBU}},
};

static nvmlReturn_t sram_errors(const struct gpu *gpu, unsigned error, unsigned counter,
                                unsigned long long *into) {
    unsigned long long parity = 0;
    if (error == 0)
        return value_of(
            gpu, counter == 0 ? VALUE_SRAM_CORRECTED_VOLATILE : VALUE_SRAM_CORRECTED_AGGREGATE,
            into);
    nvmlReturn_t answer = value_of(
        gpu, counter == 0 ? VALUE_SRAM_PARITY_VOLATILE : VALUE_SRAM_PARITY_AGGREGATE, &parity);
    if (answer == NVML_SUCCESS)
        answer = value_of(
            gpu, counter == 0 ? VALUE_SRAM_SECDED_VOLATILE : VALUE_SRAM_SECDED_AGGREGATE, into);
    if (answer == NVML_SUCCESS) *into += parity;
    return answer;
}

/* What is not SRAM is DRAM. */
static nvmlReturn_t dram_errors(const struct gpu *gpu, unsigned error, unsigned counter,
                                unsigned long long *into) {
    unsigned long long sram = 0;
    nvmlReturn_t answer = value_of(gpu, totals[error][counter], into);
    if (answer != NVML_SUCCESS) return answer;
    if (sram_errors(gpu, error, counter, &sram) != NVML_SUCCESS) sram = 0;
    *into -= sram < *into ? sram : *into;
    return NVML_SUCCESS;
}

bool has_ecc(const struct gpu *gpu) {
    return gpu->values[VALUE_ECC_MODE] == 1 || gpu->values[VALUE_ECC_MODE] == GARBAGE;
}

nvmlReturn_t ecc_errors(const struct gpu *gpu, unsigned error, unsigned counter, unsigned location,
                        unsigned long long *into) {
    if (into == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (!has_ecc(gpu)) return NVML_ERROR_NOT_SUPPORTED;
    if (location == PLACE_DRAM) return dram_errors(gpu, error, counter, into);
    if (location == PLACE_SRAM) return sram_errors(gpu, error, counter, into);
    enum value value = places[location][error][counter];
    return value == VALUE_COUNT ? NVML_ERROR_NOT_SUPPORTED : value_of(gpu, value, into);
}

API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned *now, unsigned *pending) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS) answer = value_into(&subject.gpu, VALUE_ECC_MODE, now);
    return answer ? answer : value_into(&subject.gpu, VALUE_ECC_MODE, pending);
}

/* nvml.h, nvmlDeviceGetMemoryErrorCounter: an instance reports its uncorrected volatile errors
 * outside of DRAM, and nothing else. */
static nvmlReturn_t slice_errors(const struct subject *subject, unsigned error, unsigned counter,
                                 unsigned long long *into) {
    if (error != 1 || counter != 0) return NVML_ERROR_NOT_SUPPORTED;
    return report(subject->instance->values[SLICE_SRAM_DBE], into);
}

API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned error, unsigned counter,
                                             unsigned long long *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_device(device, __func__, &subject);
    if (answer == NVML_SUCCESS && (error > 1 || counter > 1)) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (!has_ecc(&subject.gpu)) return NVML_ERROR_NOT_SUPPORTED;
    if (subject.instance != NULL) return slice_errors(&subject, error, counter, into);
    return value_of(&subject.gpu, totals[error][counter], into);
}

API nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned error,
                                                 unsigned counter, unsigned location,
                                                 unsigned long long *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_device(device, __func__, &subject);
    if (answer == NVML_SUCCESS && (error > 1 || counter > 1 || location >= PLACE_COUNT))
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (subject.instance == NULL)
        return ecc_errors(&subject.gpu, error, counter, location, into);
    return location == PLACE_SRAM ? slice_errors(&subject, error, counter, into)
                                  : NVML_ERROR_NOT_SUPPORTED;
}

struct number {
    unsigned long long *into;
    enum value value;
};

static nvmlReturn_t fill(const struct gpu *gpu, const struct number *numbers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        nvmlReturn_t answer = value_of(gpu, numbers[i].value, numbers[i].into);
        if (answer != NVML_SUCCESS) return answer;
    }
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device,
                                                 nvmlEccSramErrorStatus_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (into->version != NVML_ECC_SRAM_ERROR_STATUS_V1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!has_ecc(&subject.gpu)) return NVML_ERROR_NOT_SUPPORTED;
    const struct number numbers[] = {
        {&into->volatileCor, VALUE_SRAM_CORRECTED_VOLATILE},
        {&into->volatileUncParity, VALUE_SRAM_PARITY_VOLATILE},
        {&into->volatileUncSecDed, VALUE_SRAM_SECDED_VOLATILE},
        {&into->aggregateCor, VALUE_SRAM_CORRECTED_AGGREGATE},
        {&into->aggregateUncParity, VALUE_SRAM_PARITY_AGGREGATE},
        {&into->aggregateUncSecDed, VALUE_SRAM_SECDED_AGGREGATE},
        {&into->aggregateUncBucketL2, VALUE_SRAM_BUCKET_L2},
        {&into->aggregateUncBucketSm, VALUE_SRAM_BUCKET_SM},
        {&into->aggregateUncBucketPcie, VALUE_SRAM_BUCKET_PCIE},
        {&into->aggregateUncBucketMcu, VALUE_SRAM_BUCKET_MCU},
        {&into->aggregateUncBucketOther, VALUE_SRAM_BUCKET_OTHER},
    };
    answer = fill(&subject.gpu, numbers, sizeof numbers / sizeof numbers[0]);
    if (answer != NVML_SUCCESS) return answer;
    return value_into(&subject.gpu, VALUE_SRAM_THRESHOLD_EXCEEDED, &into->bThresholdExceeded);
}

/* A MIG GPU with instances does not report it (nvml.h, nvmlDeviceGetRemappedRows). */
static nvmlReturn_t enter_remapping(nvmlDevice_t device, const char *call,
                                    struct subject *subject) {
    nvmlReturn_t answer = enter_gpu(device, call, subject);
    if (answer == NVML_SUCCESS && subject->gpu.instance_count > 0)
        answer = NVML_ERROR_NOT_SUPPORTED;
    return answer;
}

API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *correctable,
                                           unsigned *uncorrectable, unsigned *pending,
                                           unsigned *failure) {
    struct subject subject;
    nvmlReturn_t answer = enter_remapping(device, __func__, &subject);
    const struct gpu *gpu = &subject.gpu;
    if (answer == NVML_SUCCESS) answer = value_into(gpu, VALUE_REMAP_CORRECTABLE, correctable);
    if (answer == NVML_SUCCESS) answer = value_into(gpu, VALUE_REMAP_UNCORRECTABLE, uncorrectable);
    if (answer == NVML_SUCCESS) answer = value_into(gpu, VALUE_REMAP_PENDING, pending);
    return answer ? answer : value_into(gpu, VALUE_REMAP_FAILURE, failure);
}

API nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device,
                                                   nvmlRowRemapperHistogramValues_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_remapping(device, __func__, &subject);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    const struct gpu *gpu = &subject.gpu;
    if (answer == NVML_SUCCESS) answer = value_into(gpu, VALUE_REMAP_BANKS_MAX, &into->max);
    if (answer == NVML_SUCCESS) answer = value_into(gpu, VALUE_REMAP_BANKS_HIGH, &into->high);
    if (answer == NVML_SUCCESS) answer = value_into(gpu, VALUE_REMAP_BANKS_PARTIAL, &into->partial);
    if (answer == NVML_SUCCESS) answer = value_into(gpu, VALUE_REMAP_BANKS_LOW, &into->low);
    return answer ? answer : value_into(gpu, VALUE_REMAP_BANKS_NONE, &into->none);
}

READING(nvmlDeviceGetRetiredPagesPendingStatus, VALUE_RETIRED_PENDING)

/* Cause: several corrected errors, one uncorrected error. The addresses are made up. */
static nvmlReturn_t retired_pages(nvmlDevice_t device, const char *call, unsigned cause,
                                  unsigned *count, unsigned long long *addresses,
                                  unsigned long long *times) {
    struct subject subject;
    unsigned there = 0;
    nvmlReturn_t answer = enter_gpu(device, call, &subject);
    if (answer == NVML_SUCCESS && (cause > 1 || count == NULL))
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS)
        answer = value_into(&subject.gpu, cause == 0 ? VALUE_RETIRED_SBE : VALUE_RETIRED_DBE,
                            &there);
    if (answer != NVML_SUCCESS) return answer;
    unsigned room = addresses ? *count : 0;
    *count = there;
    if (there > room) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < there; i++) {
        addresses[i] = (cause + 1) * 0x100000ULL + i * 0x1000;
        if (times != NULL) times[i] = 1767571200; /* 2026-01-05 */
    }
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned cause, unsigned *count,
                                           unsigned long long *addresses) {
    return retired_pages(device, __func__, cause, count, addresses, NULL);
}

API nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned cause, unsigned *count,
                                              unsigned long long *addresses,
                                              unsigned long long *times) {
    return retired_pages(device, __func__, cause, count, addresses, times);
}

API nvmlReturn_t nvmlDeviceGetRepairStatus(nvmlDevice_t device, nvmlRepairStatus_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (into->version != NVML_REPAIR_STATUS_V1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    answer = value_into(&subject.gpu, VALUE_REPAIR_CHANNEL_PENDING, &into->bChannelRepairPending);
    if (answer != NVML_SUCCESS) return answer;
    return value_into(&subject.gpu, VALUE_REPAIR_TPC_PENDING, &into->bTpcRepairPending);
}

API nvmlReturn_t nvmlDeviceGetUnrepairableMemoryFlag_v1(nvmlDevice_t device,
                                                        nvmlUnrepairableMemory_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (into->version != NVML_UNREPAIRABLE_MEMORY_V1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return value_into(&subject.gpu, VALUE_UNREPAIRABLE_MEMORY, &into->unrepairableMemory);
}
