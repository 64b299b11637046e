/* NVML system events: a GPU is bound to the driver, or unbound from it. */
#include <stdlib.h>

#include "../ini/clock.h"
#include "../ini/scenario_live.h"
#include "gate.h"

struct system_event_set {
    unsigned long long delivered; /* number of the last event looked at */
    unsigned long long types;
};

static nvmlReturn_t enter_request(const char *call, const void *request, unsigned version,
                                  unsigned expected) {
    nvmlReturn_t answer = enter_library(call);
    if (answer != NVML_SUCCESS || request == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    return version == expected ? NVML_SUCCESS : NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

API nvmlReturn_t nvmlSystemEventSetCreate(nvmlSystemEventSetRequest_t *request) {
    nvmlReturn_t answer = enter_request(__func__, request, request ? request->version : 0,
                                        NVML_SYSTEM_EVENT_SET_V1);
    if (answer != NVML_SUCCESS) return answer;
    request->set = calloc(1, sizeof *request->set);
    if (request->set == NULL) return NVML_ERROR_MEMORY;
    const struct scenario *scenario = scenario_lock();
    if (scenario->event_count > 0)
        request->set->delivered = scenario->events[scenario->event_count - 1].number;
    scenario_unlock();
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemEventSetFree(nvmlSystemEventSetRequest_t *request) {
    nvmlReturn_t answer = enter_request(__func__, request, request ? request->version : 0,
                                        NVML_SYSTEM_EVENT_SET_V1);
    if (answer == NVML_SUCCESS && request->set == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS) free(request->set);
    return answer;
}

API nvmlReturn_t nvmlSystemRegisterEvents(nvmlSystemRegisterEventRequest_t *request) {
    nvmlReturn_t answer = enter_request(__func__, request, request ? request->version : 0,
                                        NVML_SYSTEM_REGISTER_EVENT_V1);
    if (answer == NVML_SUCCESS && request->set == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS && (request->eventTypes & ~3ull)) answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer == NVML_SUCCESS) request->set->types |= request->eventTypes;
    return answer;
}

/* The GPU's place on the bus in one number: domain, bus, device. */
static unsigned gpu_id(const struct gpu *gpu) {
    return gpu->pci_domain << 16 | gpu->pci_bus << 8 | gpu->pci_device << 3;
}

static unsigned collect(nvmlSystemEventSet_t set, nvmlSystemEventData_t *into, unsigned room) {
    unsigned count = 0;
    const struct scenario *scenario = scenario_lock();
    for (int i = 0; i < scenario->event_count && count < room; i++) {
        const struct event *event = &scenario->events[i];
        if (event->number <= set->delivered) continue;
        set->delivered = event->number;
        unsigned long long type = event->type & ~SYSTEM_EVENT;
        if (!(event->type & SYSTEM_EVENT) || !(set->types & type)) continue;
        into[count++] = (nvmlSystemEventData_t){type, gpu_id(&scenario->gpus[event->gpu])};
    }
    scenario_unlock();
    return count;
}

API nvmlReturn_t nvmlSystemEventSetWait(nvmlSystemEventSetWaitRequest_t *request) {
    nvmlReturn_t answer = enter_request(__func__, request, request ? request->version : 0,
                                        NVML_SYSTEM_EVENT_WAIT_V1);
    if (answer != NVML_SUCCESS) return answer;
    if (request->set == NULL || request->data == NULL || request->dataSize == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    long long end = elapsed_usec() + request->timeoutms * 1000LL;
    for (;;) {
        request->numEvent = collect(request->set, request->data, request->dataSize);
        if (request->numEvent > 0) return NVML_SUCCESS;
        long long left = (end - elapsed_usec() + 999) / 1000;
        if (left <= 0) return NVML_ERROR_TIMEOUT;
        wait_ms(left < WATCH_MS ? (long)left : WATCH_MS);
        answer = enter_library(__func__);
        if (answer != NVML_SUCCESS) return answer;
    }
}
