/* NVML calls that change a GPU. A program only reads the scenario, which the node may have mounted
 * read-only: what is so already is done, and all else is refused (`python -m simulator change`). */
#include <stddef.h>

#include "gate.h"

static nvmlReturn_t refused(nvmlReturn_t answer) { return answer ? answer : NVML_ERROR_NO_PERMISSION; }

API nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t *status) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && (status == NULL || mode > 1)) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    *status = subject.gpu.mig == mode ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
    return *status;
}

API nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, unsigned mode) {
    struct subject subject;
    unsigned now = 0;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && mode > 1) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS) answer = value_into(&subject.gpu, VALUE_PERSISTENCE_MODE, &now);
    return answer == NVML_SUCCESS && now == mode ? NVML_SUCCESS : refused(answer);
}

API nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned profile,
                                                          const nvmlPlacement_t *placement,
                                                          nvmlGpuInstance_t *into) {
    struct subject subject;
    (void)profile;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && !subject.gpu.mig) answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer == NVML_SUCCESS && (placement == NULL || into == NULL))
        answer = NVML_ERROR_INVALID_ARGUMENT;
    return refused(answer);
}

API nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned profile,
                                                      nvmlComputeInstance_t *into) {
    struct subject subject;
    (void)profile;
    nvmlReturn_t answer = enter(instance, HANDLE_GPU_INSTANCE, __func__, &subject);
    return refused(answer == NVML_SUCCESS && into == NULL ? NVML_ERROR_INVALID_ARGUMENT : answer);
}

API nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance) {
    struct subject subject;
    return refused(enter(instance, HANDLE_GPU_INSTANCE, __func__, &subject));
}

API nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t instance) {
    struct subject subject;
    return refused(enter(instance, HANDLE_COMPUTE_INSTANCE, __func__, &subject));
}
