/* Fields that say what a GPU is: identity, product, driver, frame buffer. */
#include "facts.h"

#include <stdio.h>
#include <string.h>

#include "numbers.h"

#define GARBAGE_TEXT "\xff\xfe\x80 no text"

static const char *node_text(const struct scenario *scenario, unsigned field) {
    return field == 1 ? scenario->driver : scenario->nvml;
}

static bool text_of(const struct place *place, unsigned field, char *into) {
    const struct gpu *gpu = place->board;
    const char *text = "";
    switch (field) {
    case 50: text = place->instance ? place->instance->profile->name : gpu->product->name; break;
    case 51: text = "NVIDIA"; break;
    case 53: text = gpu->serial; break;
    case 54: text = gpu->shown_uuid[0] ? gpu->shown_uuid : gpu->uuid; break;
    case 56: text = gpu->product->inforom_oem; break;
    case 80: text = gpu->product->inforom_ecc; break;
    case 82: text = gpu->product->inforom_image; break;
    case 85: text = gpu->product->vbios; break;
    case 172: text = gpu->cluster_uuid; break;
    case 57:
        snprintf(into, TEXT_SIZE, "%08X:%02X:%02X.0", gpu->pci_domain, gpu->pci_bus,
                 gpu->pci_device);
        return true;
    default: return false;
    }
    snprintf(into, TEXT_SIZE, "%s", gpu->failure.kind == FAILURE_GARBAGE ? GARBAGE_TEXT : text);
    return *into != '\0';
}

/* dcgmFabricManagerStatus_t: as NVML's state, 4 when it completed and failed. */
static bool fabric_status(const struct gpu *gpu, long long *into) {
    *into = gpu->values[VALUE_FABRIC_STATE];
    if (*into == 3 && gpu->values[VALUE_FABRIC_STATUS] > 0) *into = 4;
    return *into >= 0;
}

static bool limit_of(const struct product *product, unsigned field, long long *into) {
    switch (field) {
    case 90: *into = (long long)product->bar1_mib; return true;
    case 113: *into = product->sm_clock_mhz; return true;
    case 114: *into = product->memory_clock_mhz; return true;
    case 115: *into = product->video_clock_mhz; return true;
    case 161: *into = product->power_min_mw; return true;
    case 162: *into = product->power_max_mw; return true;
    case 163: *into = product->power_limit_mw; return true;
    case 235: *into = product->pcie_generation; return true;
    case 236: *into = 16; return true;
    default: return false;
    }
}

static bool number_of_gpu(const struct place *place, unsigned field, long long *into) {
    const struct gpu *gpu = place->board;
    const struct product *product = gpu->product;
    switch (field) {
    case 52: *into = place->gpu; return true;
    case 55: *into = gpu->minor; return true;
    case 58: *into = product->pci_device_id; return true;
    case 59: *into = product->pci_subsystem_id; return true;
    case 63: *into = ((long long)product->cuda_major << 16) + product->cuda_minor; return true;
    case 67: *into = gpu->mig; return true;
    case 69: *into = MAX_INSTANCES; return product->profile_count > 0;
    case 93:
        *into = (long long)product->bar1_mib - gpu->values[VALUE_BAR1_USED_MIB];
        return gpu->values[VALUE_BAR1_USED_MIB] >= 0;
    case 170: return fabric_status(gpu, into);
    default: return limit_of(product, field, into) || read_errors(gpu, field, into);
    }
}

bool read_fact(const struct call *call, const struct place *place, unsigned field, char *text,
               long long *whole) {
    const struct scenario *scenario = call->scenario;
    if (scenario == NULL) return false;
    switch (field) {
    case 1:
    case 2: snprintf(text, TEXT_SIZE, "%s", node_text(scenario, field)); return true;
    case 4: *whole = scenario->gpu_count; return true;
    case 5: *whole = scenario->cuda; return true;
    default: break;
    }
    if (place->board == NULL) return false;
    return text_of(place, field, text) || number_of_gpu(place, field, whole);
}

/* MiB: total, reserved and used of the GPU, or of an instance with what runs in it. */
static bool memory_of(const struct place *place, double *total, double *reserved, double *used) {
    const struct gpu *gpu = place->board;
    *used = (double)gpu->values[VALUE_MEMORY_USED_MIB];
    *total = (double)gpu->product->memory_mib;
    *reserved = (double)gpu->product->reserved_mib;
    if (place->instance == NULL) return gpu->values[VALUE_MEMORY_USED_MIB] >= 0;
    *used = *reserved = 0;
    *total = place->instance->profile->memory_mib;
    for (int i = 0; i < gpu->process_count; i++)
        if (gpu->processes[i].gi == place->instance->gi)
            *used += (double)gpu->processes[i].memory_mib;
    return true;
}

bool read_memory(const struct place *place, unsigned field, struct sample *into) {
    double total, reserved, used;
    if (!memory_of(place, &total, &reserved, &used)) return false;
    double most = total - reserved;
    if (used > most) used = most;
    if (field == 254) {
        into->real = used / most;
        return true;
    }
    double answer = field == 250 ? total : field == 251 ? most - used : field == 252 ? used : reserved;
    into->whole = (long long)answer;
    return true;
}
