/* The gate that every call passes: is the library initialised, does the handle
 * still mean something, and which failure is simulated now. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "../ini/clock.h"
#include "../ini/scenario_live.h"

static atomic_int opened;
static char version[TEXT_SIZE]; /* of the driver that this process's library belongs to */
static atomic_bool outdated;    /* another version is loaded now */

void library_open(void) { atomic_fetch_add(&opened, 1); }

bool library_close(void) {
    int before = atomic_load(&opened);
    while (before > 0)
        if (atomic_compare_exchange_weak(&opened, &before, before - 1)) return true;
    return false;
}

unsigned driver_branch(void) {
    const struct scenario *scenario = scenario_lock();
    unsigned branch = scenario ? (unsigned)strtoul(scenario->driver, NULL, 10) : 0;
    scenario_unlock();
    return branch;
}

bool applies(const struct failure *failure, const char *call) {
    return failure->kind != FAILURE_NONE && names_call(failure->call, call);
}

static const struct gpu *gpu_in(const struct scenario *scenario, const char *uuid) {
    for (int i = 0; scenario != NULL && i < scenario->gpu_count; i++)
        if (strcmp(scenario->gpus[i].uuid, uuid) == 0) return &scenario->gpus[i];
    return NULL;
}

/* A library file serves the driver that it came with. After a driver upgrade a process
 * that still has the old file loaded has to start anew. The scenario is locked. */
static void compare_driver(const struct scenario *scenario) {
    if (version[0] == '\0') strcpy(version, scenario->driver);
    atomic_store(&outdated, strcmp(version, scenario->driver) != 0);
}

/* The failure of a GPU, or with NULL of the node, as it is now. */
static bool failure_now(const char *uuid, struct failure *into) {
    const struct scenario *scenario = scenario_lock();
    const struct gpu *gpu = uuid ? gpu_in(scenario, uuid) : NULL;
    bool there = scenario != NULL && (uuid == NULL || gpu != NULL);
    if (there) *into = gpu ? gpu->failure : scenario->failure;
    if (there && gpu == NULL) compare_driver(scenario);
    scenario_unlock();
    return there;
}

static void crash(void) {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    abort();
}

/* Lets the failure happen; on return the call either goes on or has its answer. */
static nvmlReturn_t suffer(const char *uuid, const char *call) {
    struct failure failure;
    bool slept = false;
    for (;;) {
        if (!failure_now(uuid, &failure))
            return uuid ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_DRIVER_NOT_LOADED;
        if (!applies(&failure, call)) return NVML_SUCCESS;
        switch (failure.kind) {
        case FAILURE_LOST:
        case FAILURE_GONE:
        case FAILURE_UNBOUND:
        case FAILURE_REMOVED: return NVML_ERROR_GPU_IS_LOST;
        case FAILURE_ERROR: return (nvmlReturn_t)failure.number;
        case FAILURE_GARBAGE: return NVML_SUCCESS;
        case FAILURE_SEGFAULT: crash(); break;
        case FAILURE_SLOW:
            if (slept) return NVML_SUCCESS;
            slept = true;
            wait_ms(failure.number);
            break;
        default: wait_ms(WATCH_MS);
        }
    }
}

nvmlReturn_t enter_library(const char *call) {
    if (atomic_load(&opened) == 0 && strncmp(call, "nvmlInit", 8) != 0)
        return NVML_ERROR_UNINITIALIZED;
    nvmlReturn_t answer = suffer(NULL, call);
    if (answer == NVML_SUCCESS && atomic_load(&outdated)) return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    return answer;
}

nvmlReturn_t enter_by_uuid(const char *uuid, const char *call) { return suffer(uuid, call); }

static void spoil_numbers(long long *numbers, int count) {
    for (int i = 0; i < count; i++) numbers[i] = GARBAGE;
}

static void spoil(struct subject *subject) {
    struct gpu *gpu = &subject->gpu;
    subject->garbage = true;
    spoil_numbers(gpu->values, VALUE_COUNT);
    for (int i = 0; i < MAX_LINKS; i++) spoil_numbers(gpu->links[i].values, LINK_COUNT);
    for (int i = 0; i < gpu->instance_count; i++)
        spoil_numbers(gpu->instances[i].values, SLICE_COUNT);
    for (int i = 0; i < gpu->process_count; i++) {
        gpu->processes[i].pid = 0xFFFFFFFF;
        gpu->processes[i].memory_mib = 0xFFFFFFFFFFFFFFFF;
        spoil_numbers(gpu->processes[i].values, PROCESS_COUNT);
    }
}

static bool find_instance(const struct handle *handle, struct subject *subject) {
    subject->instance = NULL;
    if (handle->kind == HANDLE_GPU) return true;
    for (int i = 0; i < subject->gpu.instance_count; i++) {
        struct instance *instance = &subject->gpu.instances[i];
        bool same = handle->kind == HANDLE_MIG
                        ? strcmp(instance->uuid, handle->mig_uuid) == 0
                        : instance->gi == handle->gi && (handle->kind == HANDLE_GPU_INSTANCE ||
                                                         instance->ci == handle->ci);
        if (same) subject->instance = instance;
    }
    return subject->instance != NULL;
}

static bool look_up(const struct handle *handle, struct subject *subject) {
    const struct gpu *gpu = gpu_in(scenario_lock(), handle->uuid);
    if (gpu != NULL) subject->gpu = *gpu;
    scenario_unlock();
    return gpu != NULL && find_instance(handle, subject);
}

static nvmlReturn_t enter_any(struct handle *handle, const char *call, struct subject *subject) {
    nvmlReturn_t answer = enter_library(call);
    if (answer == NVML_SUCCESS) answer = suffer(handle->uuid, call);
    if (answer != NVML_SUCCESS) return answer;
    if (!look_up(handle, subject)) return NVML_ERROR_INVALID_ARGUMENT;
    const struct failure *failure = &subject->gpu.failure;
    subject->garbage = false;
    if (failure->kind == FAILURE_GARBAGE && applies(failure, call)) spoil(subject);
    return NVML_SUCCESS;
}

nvmlReturn_t enter(struct handle *handle, enum handle_kind kind, const char *call,
                   struct subject *subject) {
    if (handle == NULL || handle->kind != kind) return NVML_ERROR_INVALID_ARGUMENT;
    return enter_any(handle, call, subject);
}

nvmlReturn_t enter_gpu(nvmlDevice_t device, const char *call, struct subject *subject) {
    nvmlReturn_t answer = enter_device(device, call, subject);
    if (answer == NVML_SUCCESS && device->kind == HANDLE_MIG) return NVML_ERROR_NOT_SUPPORTED;
    return answer;
}

nvmlReturn_t enter_device(nvmlDevice_t device, const char *call, struct subject *subject) {
    if (device == NULL || (device->kind != HANDLE_GPU && device->kind != HANDLE_MIG))
        return NVML_ERROR_INVALID_ARGUMENT;
    return enter_any(device, call, subject);
}

nvmlReturn_t copy_text(char *into, unsigned size, const char *text) {
    if (into == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(into, text);
    return NVML_SUCCESS;
}

nvmlReturn_t report_text(const struct subject *subject, char *into, unsigned size,
                         const char *text) {
    return copy_text(into, size, subject->garbage ? "\xff\xfe\"\n{\x80" : text);
}

nvmlReturn_t report(long long number, unsigned long long *into) {
    if (into == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (number < 0 && number != GARBAGE) return NVML_ERROR_NOT_SUPPORTED;
    *into = number == GARBAGE ? 0xFFFFFFFFFFFFFFFF : (unsigned long long)number;
    return NVML_SUCCESS;
}

nvmlReturn_t value_of(const struct gpu *gpu, enum value value, unsigned long long *into) {
    return report(gpu->values[value], into);
}

nvmlReturn_t value_into(const struct gpu *gpu, enum value value, unsigned *into) {
    unsigned long long wide = 0;
    if (into == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t answer = value_of(gpu, value, &wide);
    if (answer == NVML_SUCCESS) *into = (unsigned)wide;
    return answer;
}
