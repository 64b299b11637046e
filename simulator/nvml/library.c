/* NVML calls about the library and the list of GPUs. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "../ini/scenario_live.h"
#include "gate.h"
#include "handle.h"

API nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    nvmlReturn_t answer = enter_library(__func__);
    if (answer == NVML_SUCCESS) library_open();
    return answer;
}

API nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

API nvmlReturn_t nvmlShutdown(void) {
    return library_close() ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

API const char *nvmlErrorString(nvmlReturn_t result) {
    static const struct {
        nvmlReturn_t code;
        const char *text;
    } texts[] = {
        {NVML_SUCCESS, "Success"},
        {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
        {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
        {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
        {NVML_ERROR_NOT_FOUND, "Not Found"},
        {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
        {NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
        {NVML_ERROR_TIMEOUT, "Timeout"},
        {NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
        {NVML_ERROR_LIB_RM_VERSION_MISMATCH, "RM has detected an NVML/RM version mismatch."},
        {NVML_ERROR_MEMORY, "Insufficient Memory"},
        {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].code == result) return texts[i].text;
    return "Unknown Error";
}

/* Copies the scenario's own texts out while it is locked. */
static nvmlReturn_t node_text(const char *call, bool driver, char *into, unsigned size) {
    nvmlReturn_t answer = enter_library(call);
    if (answer != NVML_SUCCESS) return answer;
    const struct scenario *scenario = scenario_lock();
    answer = copy_text(into, size, driver ? scenario->driver : scenario->nvml);
    scenario_unlock();
    return answer;
}

API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
    return node_text(__func__, true, version, length);
}

API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length) {
    return node_text(__func__, false, version, length);
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    nvmlReturn_t answer = enter_library(__func__);
    if (answer != NVML_SUCCESS || version == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *version = (int)scenario_lock()->cuda;
    scenario_unlock();
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

static bool is_listed(const struct gpu *gpu) {
    enum failure_kind kind = gpu->failure.kind;
    return kind != FAILURE_GONE && kind != FAILURE_UNBOUND && kind != FAILURE_REMOVED;
}

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    nvmlReturn_t answer = enter_library(__func__);
    if (answer != NVML_SUCCESS || count == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    const struct scenario *scenario = scenario_lock();
    *count = 0;
    for (int i = 0; i < scenario->gpu_count; i++)
        *count += is_listed(&scenario->gpus[i]);
    if (scenario->count >= 0) *count = (unsigned)scenario->count;
    scenario_unlock();
    return NVML_SUCCESS;
}

/* Which GPU a call means; MIG devices only by UUID. */
struct query {
    unsigned index;
    const char *uuid, *pci, *serial;
};

static bool same_pci(const struct gpu *gpu, const char *text) {
    unsigned domain, bus, device;
    return sscanf(text, "%x:%x:%x", &domain, &bus, &device) == 3 && domain == gpu->pci_domain &&
           bus == gpu->pci_bus && device == gpu->pci_device;
}

static struct handle *match(const struct gpu *gpu, unsigned index, const struct query *query) {
    const char *uuid = gpu->shown_uuid[0] ? gpu->shown_uuid : gpu->uuid;
    bool same = query->uuid     ? strcmp(query->uuid, uuid) == 0
                : query->pci    ? same_pci(gpu, query->pci)
                : query->serial ? strcmp(query->serial, gpu->serial) == 0
                                 : index == query->index;
    if (same) return gpu_handle(gpu);
    for (int i = 0; query->uuid != NULL && i < gpu->instance_count; i++)
        if (strcmp(gpu->instances[i].uuid, query->uuid) == 0)
            return handle_of(HANDLE_MIG, gpu->uuid, query->uuid, 0, 0);
    return NULL;
}

static nvmlReturn_t find(const char *call, const struct query *query, nvmlDevice_t *device,
                         nvmlReturn_t otherwise) {
    nvmlReturn_t answer = enter_library(call);
    if (answer != NVML_SUCCESS) return answer;
    struct handle *found = NULL;
    unsigned index = 0;
    const struct scenario *scenario = scenario_lock();
    for (int i = 0; found == NULL && i < scenario->gpu_count; i++)
        if (is_listed(&scenario->gpus[i]))
            found = match(&scenario->gpus[i], index++, query);
    scenario_unlock();
    if (found == NULL || device == NULL) return found ? NVML_ERROR_INVALID_ARGUMENT : otherwise;
    answer = enter_by_uuid(found->uuid, call);
    if (answer == NVML_SUCCESS) *device = found;
    return answer;
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    struct query query = {.index = index};
    return find(__func__, &query, device, NVML_ERROR_INVALID_ARGUMENT);
}

API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    struct query query = {.uuid = uuid};
    if (uuid == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    return find(__func__, &query, device, NVML_ERROR_NOT_FOUND);
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pci, nvmlDevice_t *device) {
    struct query query = {.pci = pci};
    if (pci == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    return find(__func__, &query, device, NVML_ERROR_NOT_FOUND);
}

API nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device) {
    struct query query = {.serial = serial};
    if (serial == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    return find(__func__, &query, device, NVML_ERROR_NOT_FOUND);
}

/* Of a MIG device: its number on its GPU. */
API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
    struct subject subject;
    nvmlReturn_t answer = enter_device(device, __func__, &subject);
    if (answer != NVML_SUCCESS || index == NULL)
        return answer ? answer : NVML_ERROR_INVALID_ARGUMENT;
    *index = subject.instance ? (unsigned)(subject.instance - subject.gpu.instances) : 0;
    if (subject.instance) return NVML_SUCCESS;
    const struct scenario *scenario = scenario_lock();
    for (int i = 0; i < scenario->gpu_count; i++) {
        if (strcmp(scenario->gpus[i].uuid, subject.gpu.uuid) == 0) break;
        *index += is_listed(&scenario->gpus[i]);
    }
    scenario_unlock();
    return NVML_SUCCESS;
}
