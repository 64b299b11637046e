/* nvmlDeviceGetFieldValues: many numbers in one call, each with its own answer. */
#include "sim.h"

struct field {
    unsigned id;
    enum value value;
    unsigned type;
};

static const struct field fields[] = {
    {1, VALUE_ECC_MODE, VALUE_TYPE_UNSIGNED_INT},
    {2, VALUE_ECC_MODE, VALUE_TYPE_UNSIGNED_INT},
    {3, VALUE_ECC_SBE_VOLATILE, VALUE_TYPE_UNSIGNED_LONG_LONG},
    {4, VALUE_ECC_DBE_VOLATILE, VALUE_TYPE_UNSIGNED_LONG_LONG},
    {5, VALUE_ECC_SBE_AGGREGATE, VALUE_TYPE_UNSIGNED_LONG_LONG},
    {6, VALUE_ECC_DBE_AGGREGATE, VALUE_TYPE_UNSIGNED_LONG_LONG},
    {82, VALUE_MEMORY_TEMPERATURE_C, VALUE_TYPE_UNSIGNED_INT},
    {83, VALUE_ENERGY_MJ, VALUE_TYPE_UNSIGNED_LONG_LONG},
    {94, VALUE_PCIE_REPLAYS, VALUE_TYPE_UNSIGNED_INT},
    {142, VALUE_REMAP_CORRECTABLE, VALUE_TYPE_UNSIGNED_INT},
    {143, VALUE_REMAP_UNCORRECTABLE, VALUE_TYPE_UNSIGNED_INT},
    {144, VALUE_REMAP_PENDING, VALUE_TYPE_UNSIGNED_INT},
    {145, VALUE_REMAP_FAILURE, VALUE_TYPE_UNSIGNED_INT},
    {185, VALUE_POWER_MW, VALUE_TYPE_UNSIGNED_INT},
    {186, VALUE_POWER_MW, VALUE_TYPE_UNSIGNED_INT},
    {190, VALUE_POWER_LIMIT_MW, VALUE_TYPE_UNSIGNED_INT},
    {230, VALUE_RECOVERY_ACTION, VALUE_TYPE_UNSIGNED_INT},
};

static bool hidden_by_mig(const struct gpu *gpu, const struct field *field) {
    return gpu->instance_count > 0 && field->id >= 142 && field->id <= 145;
}

static bool needs_ecc(const struct field *field) { return field->id >= 3 && field->id <= 6; }

static nvmlReturn_t read_field(const struct gpu *gpu, nvmlFieldValue_t *into) {
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const struct field *field = &fields[i];
        if (field->id != into->fieldId) continue;
        if (hidden_by_mig(gpu, field)) return NVML_ERROR_NOT_SUPPORTED;
        if (needs_ecc(field) && gpu->values[VALUE_ECC_MODE] != 1) return NVML_ERROR_NOT_SUPPORTED;
        into->valueType = field->type;
        into->value.ullVal = 0;
        return value_of(gpu, field->value, &into->value.ullVal);
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && (count < 1 || into == NULL)) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    for (int i = 0; i < count; i++) {
        into[i].timestamp = now_usec();
        into[i].latencyUsec = 0;
        into[i].nvmlReturn = read_field(&subject.gpu, &into[i]);
    }
    return NVML_SUCCESS;
}
