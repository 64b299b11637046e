/* NVML calls about MIG: mode, MIG devices, GPU instances, compute instances.
 * Every GPU instance of the simulator holds one compute instance that fills it. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "gate.h"
#include "handle.h"

API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *now, unsigned *pending) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer != NVML_SUCCESS || now == NULL || pending == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *now = *pending = subject.gpu.mig;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer != NVML_SUCCESS || count == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    /* A driver without MIG mode has room for none: NVIDIA's tools then ask no further. */
    *count = subject.gpu.mig ? MAX_INSTANCES : 0;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index,
                                                     nvmlDevice_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && (into == NULL || index >= MAX_INSTANCES))
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (!subject.gpu.mig || (int)index >= subject.gpu.instance_count) return NVML_ERROR_NOT_FOUND;
    *into = handle_of(HANDLE_MIG, subject.gpu.uuid, subject.gpu.instances[index].uuid, 0, 0);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is) {
    struct subject subject;
    nvmlReturn_t answer = enter_device(device, __func__, &subject);
    if (answer != NVML_SUCCESS || is == NULL) return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *is = subject.instance != NULL;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig,
                                                              nvmlDevice_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter(mig, HANDLE_MIG, __func__, &subject);
    if (answer != NVML_SUCCESS || into == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *into = gpu_handle(&subject.gpu);
    return NVML_SUCCESS;
}

/* Reads of a MIG device; a whole GPU has no such thing, and answers what is given. */
static nvmlReturn_t enter_mig(nvmlDevice_t device, const char *call, const void *into,
                              nvmlReturn_t otherwise, struct subject *subject) {
    nvmlReturn_t answer = enter_device(device, call, subject);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS && subject->instance == NULL) answer = otherwise;
    return answer;
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id) {
    struct subject subject;
    nvmlReturn_t answer = enter_mig(device, __func__, id, NVML_ERROR_INVALID_ARGUMENT, &subject);
    if (answer == NVML_SUCCESS) *id = subject.instance->gi;
    return answer;
}

API nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id) {
    struct subject subject;
    nvmlReturn_t answer = enter_mig(device, __func__, id, NVML_ERROR_INVALID_ARGUMENT, &subject);
    if (answer == NVML_SUCCESS) *id = subject.instance->ci;
    return answer;
}

API nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_mig(device, __func__, into, NVML_ERROR_NOT_SUPPORTED, &subject);
    if (answer != NVML_SUCCESS) return answer;
    const struct profile *profile = subject.instance->profile;
    *into = (nvmlDeviceAttributes_t){
        .multiprocessorCount = profile->multiprocessors,
        .sharedCopyEngineCount = profile->copy_engines,
        .sharedDecoderCount = profile->decoders,
        .sharedEncoderCount = profile->encoders,
        .sharedJpegCount = profile->jpeg_engines,
        .sharedOfaCount = profile->ofa_engines,
        .gpuInstanceSliceCount = profile->slices,
        .computeInstanceSliceCount = profile->slices,
        .memorySizeMB = profile->memory_mib,
    };
    return NVML_SUCCESS;
}

/* NVML_GPU_INSTANCE_PROFILE_COUNT of R580. */
enum { GPU_PROFILES = 17 };

static void fill_profile(const struct profile *profile, nvmlGpuInstanceProfileInfo_t *into) {
    *into = (nvmlGpuInstanceProfileInfo_t){
        .id = profile->id,
        .sliceCount = profile->slices,
        .instanceCount = profile->id == 20 ? 1 : profile->start_count,
        .multiprocessorCount = profile->multiprocessors,
        .copyEngineCount = profile->copy_engines,
        .decoderCount = profile->decoders,
        .encoderCount = profile->encoders,
        .jpegCount = profile->jpeg_engines,
        .ofaCount = profile->ofa_engines,
        .memorySizeMB = profile->memory_mib,
    };
}

/* By NVML's enum index, or with by_id by the id that nvidia-smi shows. */
static nvmlReturn_t find_profile(nvmlDevice_t device, const char *call, unsigned number, bool by_id,
                                 const struct profile **into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, call, &subject);
    if (answer == NVML_SUCCESS && !by_id && number >= GPU_PROFILES)
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    const struct product *product = subject.gpu.product;
    for (unsigned i = 0; i < product->profile_count; i++) {
        *into = &product->profiles[i];
        if ((by_id ? (*into)->id : (*into)->index) == number) return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned index,
                                                     nvmlGpuInstanceProfileInfo_t *into) {
    const struct profile *profile;
    nvmlReturn_t answer = find_profile(device, __func__, index, false, &profile);
    if (answer != NVML_SUCCESS || into == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    fill_profile(profile, into);
    return NVML_SUCCESS;
}

static nvmlReturn_t profile_v2(const struct profile *profile,
                               nvmlGpuInstanceProfileInfo_v2_t *into) {
    nvmlGpuInstanceProfileInfo_t info;
    if (into == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (into->version != NVML_GPU_INSTANCE_PROFILE_INFO_V2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    fill_profile(profile, &info);
    memcpy(&into->id, &info.id, offsetof(nvmlGpuInstanceProfileInfo_t, memorySizeMB));
    into->memorySizeMB = info.memorySizeMB;
    snprintf(into->name, sizeof into->name, "MIG %s", profile->name);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned index,
                                                      nvmlGpuInstanceProfileInfo_v2_t *into) {
    const struct profile *profile;
    nvmlReturn_t answer = find_profile(device, __func__, index, false, &profile);
    return answer ? answer : profile_v2(profile, into);
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned id,
                                                          nvmlGpuInstanceProfileInfo_v2_t *into) {
    const struct profile *profile;
    nvmlReturn_t answer = find_profile(device, __func__, id, true, &profile);
    return answer ? answer : profile_v2(profile, into);
}

API nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned id,
                                                               nvmlPlacement_t *into,
                                                               unsigned *count) {
    const struct profile *profile;
    nvmlReturn_t answer = find_profile(device, __func__, id, true, &profile);
    if (answer != NVML_SUCCESS || count == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    unsigned room = *count;
    *count = profile->start_count;
    if (into == NULL) return NVML_SUCCESS;
    if (room < profile->start_count) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < profile->start_count; i++)
        into[i] = (nvmlPlacement_t){profile->starts[i], profile->size};
    return NVML_SUCCESS;
}

static struct handle *instance_handle(const struct gpu *gpu, const struct instance *instance) {
    return handle_of(HANDLE_GPU_INSTANCE, gpu->uuid, "", instance->gi, 0);
}

API nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned profile_id,
                                           nvmlGpuInstance_t *into, unsigned *count) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && (into == NULL || count == NULL))
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (!subject.gpu.mig) return NVML_ERROR_NOT_SUPPORTED;
    *count = 0;
    for (int i = 0; i < subject.gpu.instance_count; i++)
        if (subject.gpu.instances[i].profile->id == profile_id)
            into[(*count)++] = instance_handle(&subject.gpu, &subject.gpu.instances[i]);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned id,
                                              nvmlGpuInstance_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer != NVML_SUCCESS || into == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < subject.gpu.instance_count; i++)
        if (subject.gpu.instances[i].gi == id) {
            *into = instance_handle(&subject.gpu, &subject.gpu.instances[i]);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

API nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter(handle, HANDLE_GPU_INSTANCE, __func__, &subject);
    if (answer != NVML_SUCCESS || into == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    const struct instance *instance = subject.instance;
    *into = (nvmlGpuInstanceInfo_t){
        .device = gpu_handle(&subject.gpu),
        .id = instance->gi,
        .profileId = instance->profile->id,
        .placement = {instance->start, instance->profile->size},
    };
    return NVML_SUCCESS;
}

/* NVML_COMPUTE_INSTANCE_PROFILE_*: 1, 2, 3, 4 and 7 slices are 0 to 4; the id is the same. */
static unsigned compute_profile(const struct instance *instance) {
    return instance->profile->slices == 7 ? 4 : instance->profile->slices - 1;
}

/* Slices of a compute instance profile, 0 for one that these boards do not have. */
static unsigned compute_slices(unsigned profile) {
    static const unsigned slices[] = {1, 2, 3, 4, 7, 0, 0, 0, 0};
    return slices[profile];
}

enum { COMPUTE_PROFILES = 9, ENGINE_PROFILES = 1 };

static nvmlReturn_t compute_info(nvmlGpuInstance_t handle, const char *call, unsigned number,
                                 unsigned engines, nvmlComputeInstanceProfileInfo_v2_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter(handle, HANDLE_GPU_INSTANCE, call, &subject);
    bool known = number < COMPUTE_PROFILES && engines < ENGINE_PROFILES;
    if (answer == NVML_SUCCESS && !known) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    const struct profile *profile = subject.instance->profile;
    unsigned slices = compute_slices(number);
    if (slices == 0 || slices > profile->slices) return NVML_ERROR_NOT_SUPPORTED;
    *into = (nvmlComputeInstanceProfileInfo_v2_t){
        .version = into->version,
        .id = number,
        .sliceCount = slices,
        .instanceCount = profile->slices / slices,
        .multiprocessorCount = profile->multiprocessors * slices / profile->slices,
        .sharedCopyEngineCount = profile->copy_engines,
        .sharedDecoderCount = profile->decoders,
        .sharedEncoderCount = profile->encoders,
        .sharedJpegCount = profile->jpeg_engines,
        .sharedOfaCount = profile->ofa_engines,
    };
    if (slices == profile->slices)
        snprintf(into->name, sizeof into->name, "MIG %s", profile->name);
    else
        snprintf(into->name, sizeof into->name, "MIG %uc.%s", slices, profile->name);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(
    nvmlGpuInstance_t handle, unsigned profile, unsigned engines,
    nvmlComputeInstanceProfileInfo_v2_t *into) {
    if (into == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (into->version != NVML_COMPUTE_INSTANCE_PROFILE_INFO_V2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return compute_info(handle, __func__, profile, engines, into);
}

API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(
    nvmlGpuInstance_t handle, unsigned profile, unsigned engines,
    nvmlComputeInstanceProfileInfo_t *into) {
    nvmlComputeInstanceProfileInfo_v2_t info = {0};
    if (into == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t answer = compute_info(handle, __func__, profile, engines, &info);
    if (answer == NVML_SUCCESS) memcpy(into, &info.id, sizeof *into);
    return answer;
}

static struct handle *compute_handle(const struct subject *subject) {
    return handle_of(HANDLE_COMPUTE_INSTANCE, subject->gpu.uuid, "", subject->instance->gi,
                     subject->instance->ci);
}

API nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t handle, unsigned profile_id,
                                                    nvmlComputeInstance_t *into, unsigned *count) {
    struct subject subject;
    nvmlReturn_t answer = enter(handle, HANDLE_GPU_INSTANCE, __func__, &subject);
    if (answer != NVML_SUCCESS || into == NULL || count == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *count = compute_profile(subject.instance) == profile_id;
    if (*count == 1) into[0] = compute_handle(&subject);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t handle, unsigned id,
                                                       nvmlComputeInstance_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter(handle, HANDLE_GPU_INSTANCE, __func__, &subject);
    if (answer != NVML_SUCCESS || into == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    if (subject.instance->ci != id) return NVML_ERROR_NOT_FOUND;
    *into = compute_handle(&subject);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle,
                                               nvmlComputeInstanceInfo_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter(handle, HANDLE_COMPUTE_INSTANCE, __func__, &subject);
    if (answer != NVML_SUCCESS || into == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *into = (nvmlComputeInstanceInfo_t){
        .device = gpu_handle(&subject.gpu),
        .gpuInstance = instance_handle(&subject.gpu, subject.instance),
        .id = subject.instance->ci,
        .profileId = compute_profile(subject.instance),
        .placement = {0, subject.instance->profile->slices},
    };
    return NVML_SUCCESS;
}
