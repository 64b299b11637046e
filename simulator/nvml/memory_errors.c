/* NVML calls about memory errors: ECC counts and row remapping. */
#include "sim.h"

/* [error type: corrected, uncorrected][counter: volatile, aggregate] */
static const enum value ecc_values[2][2] = {
    {VALUE_ECC_SBE_VOLATILE, VALUE_ECC_SBE_AGGREGATE},
    {VALUE_ECC_DBE_VOLATILE, VALUE_ECC_DBE_AGGREGATE},
};
enum { LOCATION_DRAM = 2, LOCATION_COUNT = 8 };

API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned *now, unsigned *pending) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS) answer = value_into(&subject.gpu, VALUE_ECC_MODE, now);
    return answer ? answer : value_into(&subject.gpu, VALUE_ECC_MODE, pending);
}

API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned error, unsigned counter,
                                             unsigned long long *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && (error > 1 || counter > 1)) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (subject.gpu.values[VALUE_ECC_MODE] != 1) return NVML_ERROR_NOT_SUPPORTED;
    return value_of(&subject.gpu, ecc_values[error][counter], into);
}

/* All errors of the scenario are DRAM errors. */
API nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned error,
                                                 unsigned counter, unsigned location,
                                                 unsigned long long *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && (error > 1 || counter > 1 || location >= LOCATION_COUNT))
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (subject.gpu.values[VALUE_ECC_MODE] != 1) return NVML_ERROR_NOT_SUPPORTED;
    answer = value_of(&subject.gpu, ecc_values[error][counter], into);
    if (answer == NVML_SUCCESS && location != LOCATION_DRAM) *into = 0;
    return answer;
}

/* A MIG GPU with instances does not tell (nvml.h, nvmlDeviceGetRemappedRows). */
API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *correctable,
                                           unsigned *uncorrectable, unsigned *pending,
                                           unsigned *failure) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && subject.gpu.instance_count > 0) answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer == NVML_SUCCESS)
        answer = value_into(&subject.gpu, VALUE_REMAP_CORRECTABLE, correctable);
    if (answer == NVML_SUCCESS)
        answer = value_into(&subject.gpu, VALUE_REMAP_UNCORRECTABLE, uncorrectable);
    if (answer == NVML_SUCCESS) answer = value_into(&subject.gpu, VALUE_REMAP_PENDING, pending);
    return answer ? answer : value_into(&subject.gpu, VALUE_REMAP_FAILURE, failure);
}
