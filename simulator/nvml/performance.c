/* NVML calls about how fast a GPU runs and what holds it back: use, clocks, power, heat. */
#include <string.h>

#include "../ini/clock.h"
#include "readings.h"

READING(nvmlDeviceGetPowerUsage, VALUE_POWER_MW)
READING(nvmlDeviceGetEnforcedPowerLimit, VALUE_POWER_LIMIT_MW)
READING(nvmlDeviceGetPowerManagementLimit, VALUE_POWER_LIMIT_MW)
FIXED(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, subject.gpu.product->power_limit_mw)
LONG_READING(nvmlDeviceGetTotalEnergyConsumption, VALUE_ENERGY_MJ)
READING(nvmlDeviceGetPerformanceState, VALUE_PERFORMANCE_STATE)
READING(nvmlDeviceGetPowerState, VALUE_PERFORMANCE_STATE)
READING(nvmlDeviceGetFanSpeed, VALUE_FAN_SPEED)
LONG_READING(nvmlDeviceGetCurrentClocksEventReasons, VALUE_CLOCKS_EVENT_REASONS)
LONG_READING(nvmlDeviceGetCurrentClocksThrottleReasons, VALUE_CLOCKS_EVENT_REASONS)
LONG_READING(nvmlDeviceGetSupportedClocksEventReasons, VALUE_SUPPORTED_CLOCKS_EVENT_REASONS)
LONG_READING(nvmlDeviceGetSupportedClocksThrottleReasons, VALUE_SUPPORTED_CLOCKS_EVENT_REASONS)

/* nvml.h: not supported on MIG GPUs, for these four as for the rates below. */
SAMPLED(nvmlDeviceGetEncoderUtilization, VALUE_ENCODER_UTILIZATION)
SAMPLED(nvmlDeviceGetDecoderUtilization, VALUE_DECODER_UTILIZATION)
SAMPLED(nvmlDeviceGetJpgUtilization, VALUE_JPEG_UTILIZATION)
SAMPLED(nvmlDeviceGetOfaUtilization, VALUE_OFA_UTILIZATION)

API nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *least,
                                                              unsigned *most) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer != NVML_SUCCESS || least == NULL || most == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *least = subject.gpu.product->power_min_mw;
    *most = subject.gpu.product->power_max_mw;
    return NVML_SUCCESS;
}

/* A MIG GPU does not report its utilisation (nvml.h, nvmlDeviceGetUtilizationRates). */
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

API nvmlReturn_t nvmlDeviceGetAutoBoostedClocksEnabled(nvmlDevice_t device, unsigned *now,
                                                       unsigned *usually) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS) answer = value_into(&subject.gpu, VALUE_AUTO_BOOST, now);
    return answer ? answer : value_into(&subject.gpu, VALUE_AUTO_BOOST, usually);
}

API nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, unsigned type,
                                                unsigned *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && type >= 4) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS && type == 3) answer = NVML_ERROR_NOT_SUPPORTED; /* video */
    if (answer != NVML_SUCCESS) return answer;
    return value_into(&subject.gpu,
                      type == 2 ? VALUE_APPLICATION_MEMORY_CLOCK_MHZ : VALUE_APPLICATION_SM_CLOCK_MHZ,
                      into);
}

/* Id: now, set for applications, default for applications, highest a customer may set, which only
 * clocks of the SMs have. */
API nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, unsigned type, unsigned id,
                                    unsigned *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer != NVML_SUCCESS) return answer;
    switch (id) {
    case 0: return nvmlDeviceGetClockInfo(device, type, into);
    case 1: return nvmlDeviceGetApplicationsClock(device, type, into);
    case 2:
    case 3:
        if (type == 3 || (type == 2 && id == 3)) return NVML_ERROR_NOT_SUPPORTED;
        return nvmlDeviceGetMaxClockInfo(device, type, into);
    default: return NVML_ERROR_INVALID_ARGUMENT;
    }
}

API nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device,
                                                nvmlMarginTemperature_t *into) {
    struct subject subject;
    unsigned celsius = 0;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (into->version != NVML_MARGIN_TEMPERATURE_V1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    answer = value_into(&subject.gpu, VALUE_TEMPERATURE_MARGIN_C, &celsius);
    if (answer == NVML_SUCCESS) into->marginTemperature = (int)celsius;
    return answer;
}

API nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned threshold,
                                                   unsigned *into) {
    static const enum value values[] = {VALUE_SHUTDOWN_TEMPERATURE_C, VALUE_SLOWDOWN_TEMPERATURE_C,
                                        VALUE_MAX_MEMORY_TEMPERATURE_C, VALUE_MAX_TEMPERATURE_C};
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && threshold >= 8) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS && threshold >= 4) answer = NVML_ERROR_NOT_SUPPORTED;
    return answer ? answer : value_into(&subject.gpu, values[threshold], into);
}

/* NVML_PERF_POLICY_*: 6 to 9 do not exist. */
static const enum value violations[] = {
    VALUE_VIOLATION_POWER_NS,
    VALUE_VIOLATION_THERMAL_NS,
    VALUE_VIOLATION_SYNC_BOOST_NS,
    VALUE_VIOLATION_BOARD_LIMIT_NS,
    VALUE_VIOLATION_LOW_UTILIZATION_NS,
    VALUE_VIOLATION_RELIABILITY_NS,
    VALUE_COUNT,
    VALUE_COUNT,
    VALUE_COUNT,
    VALUE_COUNT,
    VALUE_VIOLATION_APPLICATION_CLOCKS_NS,
    VALUE_VIOLATION_BASE_CLOCKS_NS,
};

API nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, unsigned policy,
                                              nvmlViolationTime_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    bool known = policy < sizeof violations / sizeof violations[0] &&
                 violations[policy] != VALUE_COUNT;
    if (answer == NVML_SUCCESS && (into == NULL || !known)) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    into->referenceTime = (unsigned long long)now_usec();
    return value_of(&subject.gpu, violations[policy], &into->violationTime);
}
