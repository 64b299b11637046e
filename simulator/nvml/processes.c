/* NVML calls about the processes on a GPU or in a slice. */
#include "../ini/clock.h"
#include "gate.h"

enum context { COMPUTE, GRAPHICS, MPS };

static bool counts(const struct process *process, const struct subject *subject,
                   enum context context) {
    enum context its = process->graphics ? GRAPHICS : process->mps ? MPS : COMPUTE;
    return its == context &&
           (subject->instance == NULL || process->gi == subject->instance->gi);
}

static nvmlReturn_t list(nvmlDevice_t device, const char *call, enum context context,
                         unsigned *count, nvmlProcessInfo_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_device(device, call, &subject);
    if (answer == NVML_SUCCESS && count == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    unsigned room = into ? *count : 0;
    *count = 0;
    for (int i = 0; i < subject.gpu.process_count; i++) {
        const struct process *process = &subject.gpu.processes[i];
        if (!counts(process, &subject, context)) continue;
        if (*count < room)
            into[*count] = (nvmlProcessInfo_t){process->pid, process->memory_mib * 1048576ULL,
                                               process->gi, process->ci};
        ++*count;
    }
    return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                         nvmlProcessInfo_t *into) {
    return list(device, __func__, COMPUTE, count, into);
}

API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                          nvmlProcessInfo_t *into) {
    return list(device, __func__, GRAPHICS, count, into);
}

API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                            nvmlProcessInfo_t *into) {
    return list(device, __func__, MPS, count, into);
}

/* One sample of each process that did something, as old as the call; not with MIG (nvml.h). */
API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                 nvmlProcessUtilizationSample_t *into,
                                                 unsigned *count, unsigned long long since) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && count == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS && subject.gpu.mig) answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer != NVML_SUCCESS) return answer;
    unsigned room = into ? *count : 0;
    unsigned long long now = (unsigned long long)now_usec();
    *count = 0;
    for (int i = 0; since < now && i < subject.gpu.process_count; i++) {
        const struct process *process = &subject.gpu.processes[i];
        const long long *use = process->values;
        if (use[PROCESS_SM_UTIL] == 0 && use[PROCESS_MEM_UTIL] == 0) continue;
        if (*count < room)
            into[*count] = (nvmlProcessUtilizationSample_t){
                process->pid, now, (unsigned)use[PROCESS_SM_UTIL],
                (unsigned)use[PROCESS_MEM_UTIL], 0, 0};
        ++*count;
    }
    if (*count == 0) return NVML_ERROR_NOT_FOUND;
    return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
