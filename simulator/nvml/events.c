/* NVML event sets. Each set delivers, in order and once, the scenario's events
 * that were added after the set was created and for whose GPU it is registered. */
#include <stdlib.h>
#include <string.h>

#include "../ini/clock.h"
#include "../ini/scenario_live.h"
#include "gate.h"
#include "handle.h"

/* All that an H100 on R580 can be registered for, without those of ECC errors; of them a scenario has
 * xid, MIG configuration, GPU unavailable and recovery action. */
#define SUPPORTED_EVENTS 0xFF9Cull
/* Kinds without a name, which an H100 does not list as supported and registers all the same. */
#define UNNAMED_EVENTS 0x60ull

struct registration {
    char uuid[TEXT_SIZE];
    unsigned long long types;
};

struct event_set {
    unsigned long long delivered; /* number of the last event looked at */
    int count;
    struct registration registrations[MAX_GPUS];
};

struct delivery {
    struct event event;
    char uuid[TEXT_SIZE];
};

static unsigned long long newest(const struct scenario *scenario) {
    return scenario->event_count ? scenario->events[scenario->event_count - 1].number : 0;
}

API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *into) {
    nvmlReturn_t answer = enter_library(__func__);
    if (answer != NVML_SUCCESS || into == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *into = calloc(1, sizeof **into);
    if (*into == NULL) return NVML_ERROR_MEMORY;
    (*into)->delivered = newest(scenario_lock());
    scenario_unlock();
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    nvmlReturn_t answer = enter_library(__func__);
    if (answer == NVML_SUCCESS && set == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS) free(set);
    return answer;
}

API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer != NVML_SUCCESS || into == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *into = SUPPORTED_EVENTS;
    if (subject.gpu.values[VALUE_RECOVERY_ACTION] < 0) *into &= ~0x8000ull;
    if (subject.gpu.values[VALUE_ECC_MODE] == 1) *into |= 3; /* SBE, DBE */
    return NVML_SUCCESS;
}

static struct registration *registration_of(nvmlEventSet_t set, const char *uuid) {
    for (int i = 0; i < set->count; i++)
        if (strcmp(set->registrations[i].uuid, uuid) == 0) return &set->registrations[i];
    return NULL;
}

API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                          nvmlEventSet_t set) {
    unsigned long long supported;
    nvmlReturn_t answer = nvmlDeviceGetSupportedEventTypes(device, &supported);
    if (answer != NVML_SUCCESS) return answer;
    struct subject subject;
    answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && set == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (types & ~(supported | UNNAMED_EVENTS)) return NVML_ERROR_NOT_SUPPORTED;
    struct registration *registration = registration_of(set, subject.gpu.uuid);
    if (registration == NULL) {
        if (set->count == MAX_GPUS) return NVML_ERROR_MEMORY;
        registration = &set->registrations[set->count++];
        strcpy(registration->uuid, subject.gpu.uuid);
    }
    registration->types |= types;
    return NVML_SUCCESS;
}

static bool next_event(nvmlEventSet_t set, struct delivery *into) {
    bool found = false;
    const struct scenario *scenario = scenario_lock();
    for (int i = 0; !found && i < scenario->event_count; i++) {
        const struct event *event = &scenario->events[i];
        if (event->number <= set->delivered) continue;
        set->delivered = event->number;
        if (event->type & SYSTEM_EVENT) continue;
        const struct gpu *gpu = &scenario->gpus[event->gpu];
        const struct registration *registration = registration_of(set, gpu->uuid);
        if (registration == NULL || !(registration->types & event->type)) continue;
        into->event = *event;
        strcpy(into->uuid, gpu->uuid);
        found = true;
    }
    scenario_unlock();
    return found;
}

/* A GPU fails a wait only when its failure names the wait: it is no call on one GPU. */
static nvmlReturn_t failure_of_wait(nvmlEventSet_t set, const char *call) {
    for (int i = 0; i < set->count; i++) {
        bool named = false;
        const struct scenario *scenario = scenario_lock();
        for (int g = 0; g < scenario->gpu_count; g++) {
            const struct gpu *gpu = &scenario->gpus[g];
            named |= strcmp(gpu->uuid, set->registrations[i].uuid) == 0 &&
                     gpu->failure.call[0] != '\0' && applies(&gpu->failure, call);
        }
        scenario_unlock();
        nvmlReturn_t answer =
            named ? enter_by_uuid(set->registrations[i].uuid, call) : NVML_SUCCESS;
        if (answer != NVML_SUCCESS) return answer;
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t wait_for(nvmlEventSet_t set, const char *call, unsigned timeout_ms,
                             struct delivery *into) {
    long long end = elapsed_usec() + timeout_ms * 1000LL;
    if (set == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    for (;;) {
        nvmlReturn_t answer = enter_library(call);
        if (answer == NVML_SUCCESS) answer = failure_of_wait(set, call);
        if (answer != NVML_SUCCESS) return answer;
        if (next_event(set, into)) return NVML_SUCCESS;
        long long left = (end - elapsed_usec() + 999) / 1000;
        if (left <= 0) return NVML_ERROR_TIMEOUT;
        wait_ms(left < WATCH_MS ? (long)left : WATCH_MS);
    }
}

API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout) {
    struct delivery delivery;
    if (data == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t answer = wait_for(set, __func__, timeout, &delivery);
    if (answer != NVML_SUCCESS) return answer;
    *data = (nvmlEventData_t){
        .device = handle_of(HANDLE_GPU, delivery.uuid, "", 0, 0),
        .eventType = delivery.event.type,
        .eventData = delivery.event.data,
        .gpuInstanceId = delivery.event.gi,
        .computeInstanceId = delivery.event.ci,
    };
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *data, unsigned timeout) {
    nvmlEventData_t all;
    if (data == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t answer = nvmlEventSetWait_v2(set, &all, timeout);
    if (answer == NVML_SUCCESS)
        *data = (nvmlEventData_v1_t){all.device, all.eventType, all.eventData};
    return answer;
}

API nvmlReturn_t nvmlEventSetWait_v3(nvmlEventSet_t set, nvmlEventSetWait_v3_t *data) {
    struct delivery delivery;
    if (data == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t answer = wait_for(set, __func__, data->timeoutMs, &delivery);
    if (answer != NVML_SUCCESS) return answer;
    unsigned timeout = data->timeoutMs;
    memset(data, 0, sizeof *data);
    data->timeoutMs = timeout;
    strcpy(data->uuid, delivery.uuid);
    strcpy(data->sourceModule, "simulator");
    data->eventType = delivery.event.type;
    data->eventData = delivery.event.data;
    data->timestampUsec = (unsigned long long)now_usec();
    data->gpuInstanceId = delivery.event.gi;
    data->computeInstanceId = delivery.event.ci;
    return NVML_SUCCESS;
}
