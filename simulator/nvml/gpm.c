/* NVML's performance metrics (GPM): two samples are taken and compared. A metric of
 * the simulator is the scenario's number at the time of the second sample. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gate.h"

struct gpm_sample {
    bool taken;
    char uuid[TEXT_SIZE];
    long gi; /* -1: the whole GPU */
    long long numbers[VALUE_COUNT]; /* only those of the table below are set */
};

struct metric {
    unsigned id;
    enum value value;
    enum slice_value slice;
    double scale; /* millionths to percent; the others as they are */
    const char *name, *unit;
};

#define RATIO(id, name) {id, VALUE_GPM_##name, SLICE_GPM_##name, 1e-4, #name, "%"}
#define RATE(id, name) {id, VALUE_GPM_##name, SLICE_GPM_##name, 1.0, #name, "MiB/s"}

#define TOTAL(id, name) {id, VALUE_GPM_##name, SLICE_GPM_##name, 1.0, #name, ""}

static const struct metric metrics[] = {
    RATIO(1, GRAPHICS),     RATIO(2, SM),           RATIO(3, OCCUPANCY),
    RATIO(4, INTEGER),      RATIO(5, TENSOR),       RATIO(6, DFMA),
    RATIO(7, HMMA),         RATIO(8, DMMA),         RATIO(9, IMMA),
    RATIO(10, DRAM),        RATIO(11, FP64),        RATIO(12, FP32),
    RATIO(13, FP16),        RATE(20, PCIE_TX_MIB),  RATE(21, PCIE_RX_MIB),
    RATIO(30, NVDEC),       RATIO(40, NVJPG),       RATIO(50, NVOFA),
    RATE(60, NVLINK_RX_MIB), RATE(61, NVLINK_TX_MIB),
    TOTAL(248, SM_CYCLES_ELAPSED),
    TOTAL(249, SM_CYCLES_ACTIVE),
    TOTAL(250, MMA_CYCLES),
    TOTAL(251, DMMA_CYCLES),
    TOTAL(252, HMMA_CYCLES),
    TOTAL(253, IMMA_CYCLES),
    TOTAL(254, DFMA_CYCLES),
    TOTAL(255, PCIE_TX_BYTES),
    TOTAL(256, PCIE_RX_BYTES),
    TOTAL(257, INTEGER_CYCLES),
    TOTAL(258, FP64_CYCLES),
    TOTAL(259, FP32_CYCLES),
    TOTAL(260, FP16_CYCLES),
};
/* R580 answers every id below 210 with success, and with 0 what the GPU does not have, such as a
 * link, an engine or C2C; slices, which were not seen, are taken to do the same. The totals came
 * with R595: they are in nvidia-ml-py 13.595 and not in 13.590. */
enum { FIRST_NEW = 210, LAST_METRIC = 332, NEW_BRANCH = 595 };

#define METRICS (sizeof metrics / sizeof metrics[0])

API nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (into->version != 1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    into->isSupportedDevice = subject.gpu.product->architecture >= NVML_DEVICE_ARCH_HOPPER;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *into) {
    nvmlReturn_t answer = enter_library(__func__);
    if (answer != NVML_SUCCESS || into == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *into = calloc(1, sizeof **into);
    return *into ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

API nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
    nvmlReturn_t answer = enter_library(__func__);
    if (answer == NVML_SUCCESS && sample == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS) free(sample);
    return answer;
}

static nvmlReturn_t enter_sample(nvmlDevice_t device, const char *call, nvmlGpmSample_t sample,
                                 struct subject *subject) {
    nvmlReturn_t answer = enter_gpu(device, call, subject);
    if (answer == NVML_SUCCESS && sample == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS && subject->gpu.product->architecture < NVML_DEVICE_ARCH_HOPPER)
        answer = NVML_ERROR_NOT_SUPPORTED;
    return answer;
}

static void take_sample(const struct subject *subject, const struct instance *instance,
                        nvmlGpmSample_t sample) {
    sample->taken = true;
    strcpy(sample->uuid, subject->gpu.uuid);
    sample->gi = instance ? (long)instance->gi : -1;
    for (size_t i = 0; i < METRICS; i++)
        sample->numbers[metrics[i].value] =
            instance ? instance->values[metrics[i].slice] : subject->gpu.values[metrics[i].value];
}

API nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
    struct subject subject;
    nvmlReturn_t answer = enter_sample(device, __func__, sample, &subject);
    if (answer != NVML_SUCCESS) return answer;
    if (subject.gpu.mig && subject.gpu.values[VALUE_GPM_WHOLE_GPU_WITH_MIG] == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    take_sample(&subject, NULL, sample);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned gi, nvmlGpmSample_t sample) {
    struct subject subject;
    nvmlReturn_t answer = enter_sample(device, __func__, sample, &subject);
    if (answer != NVML_SUCCESS) return answer;
    for (int i = 0; i < subject.gpu.instance_count; i++)
        if (subject.gpu.instances[i].gi == gi) {
            take_sample(&subject, &subject.gpu.instances[i], sample);
            return NVML_SUCCESS;
        }
    return subject.gpu.mig ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
}

static bool comparable(const struct gpm_sample *first, const struct gpm_sample *second) {
    return first != NULL && second != NULL && first->taken && second->taken &&
           first->gi == second->gi && strcmp(first->uuid, second->uuid) == 0;
}

static nvmlReturn_t answer_metric(const struct gpm_sample *sample, nvmlGpmMetric_t *into) {
    unsigned id = into->metricId;
    if (id == 0 || id > LAST_METRIC || (id >= FIRST_NEW && driver_branch() < NEW_BRANCH))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (size_t i = 0; i < METRICS; i++) {
        const struct metric *metric = &metrics[i];
        if (metric->id != id) continue;
        unsigned long long number = 0;
        nvmlReturn_t answer = report(sample->numbers[metric->value], &number);
        bool garbage = sample->numbers[metric->value] == GARBAGE;
        into->value = garbage ? NAN : (double)number * metric->scale;
        into->metricInfo.shortName = into->metricInfo.longName = metric->name;
        into->metricInfo.unit = metric->unit;
        return answer;
    }
    into->value = 0.0;
    return id < FIRST_NEW ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

API nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *into) {
    nvmlReturn_t answer = enter_library(__func__);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (into->version != NVML_GPM_METRICS_GET_V1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!comparable(into->sample1, into->sample2)) return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < into->numMetrics; i++)
        into->metrics[i].nvmlReturn = answer_metric(into->sample2, &into->metrics[i]);
    return NVML_SUCCESS;
}
