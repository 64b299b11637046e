/* NVML calls that list the processes on a GPU or in a slice. */
#include "sim.h"

static bool counts(const struct process *process, const struct subject *subject, bool graphics) {
    return process->graphics == graphics &&
           (subject->instance == NULL || process->gi == subject->instance->gi);
}

static nvmlReturn_t list(nvmlDevice_t device, const char *call, bool graphics, unsigned *count,
                         nvmlProcessInfo_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_device(device, call, &subject);
    if (answer == NVML_SUCCESS && count == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    unsigned room = into ? *count : 0;
    *count = 0;
    for (int i = 0; i < subject.gpu.process_count; i++) {
        const struct process *process = &subject.gpu.processes[i];
        if (!counts(process, &subject, graphics)) continue;
        if (*count < room)
            into[*count] = (nvmlProcessInfo_t){process->pid, process->memory_mib * 1048576ULL,
                                               process->gi, process->ci};
        ++*count;
    }
    return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                         nvmlProcessInfo_t *into) {
    return list(device, __func__, false, count, into);
}

API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                          nvmlProcessInfo_t *into) {
    return list(device, __func__, true, count, into);
}
