/* DCGM calls that list GPUs and instances and say who they are. */
#include <stdio.h>
#include <string.h>

#include "entities.h"
#include "facts.h"
#include "gate.h"
#include "node_parts.h"
#include "reading.h"

/* Listing NVLinks is not supported by 4.6.0; the module of CPUs is there where a CPU is. */
static dcgmReturn_t listable(const struct call *call, unsigned kind) {
    switch (kind) {
    case FE_GPU:
    case FE_GPU_I:
    case FE_GPU_CI:
    case FE_VGPU: return DCGM_ST_OK;
    case FE_SWITCH:
        return call->settings->no_switch_module ? DCGM_ST_MODULE_NOT_LOADED : DCGM_ST_OK;
    case FE_CPU:
    case FE_CPU_CORE: {
        struct entity found[MAX_ENTITIES];
        return node_parts_of(call, FE_CPU, found) ? DCGM_ST_OK : DCGM_ST_MODULE_NOT_LOADED;
    }
    case FE_LINK: return call->settings->lists_links ? DCGM_ST_OK : DCGM_ST_NOT_SUPPORTED;
    default: return DCGM_ST_NOT_SUPPORTED;
    }
}

static unsigned list(const struct call *call, unsigned kind, bool only_supported,
                     struct entity *into) {
    return kind != FE_VGPU ? entities_of(call, kind, only_supported, into) : 0;
}

API dcgmReturn_t dcgmGetEntityGroupEntities(dcgmHandle_t handle, unsigned kind, unsigned *into,
                                            int *count, unsigned flags) {
    struct call call;
    struct entity found[MAX_ENTITIES];
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (count == NULL || *count < 0) return finish(DCGM_ST_BADPARAM);
    answer = listable(&call, kind);
    if (answer != DCGM_ST_OK) return finish(answer);
    unsigned room = (unsigned)*count;
    unsigned have = list(&call, kind, flags & FLAG_ONLY_SUPPORTED, found);
    *count = (int)have;
    if (have > room) return finish(DCGM_ST_INSUFFICIENT_SIZE);
    if (have > 0 && into == NULL) return finish(DCGM_ST_BADPARAM);
    for (unsigned i = 0; i < have; i++) into[i] = found[i].id;
    return finish(DCGM_ST_OK);
}

static dcgmReturn_t all_devices(dcgmHandle_t handle, const char *name, bool only_supported,
                                unsigned *into, int *count) {
    struct call call;
    struct entity found[MAX_ENTITIES];
    dcgmReturn_t answer = begin(handle, name, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (into == NULL || count == NULL) return finish(DCGM_ST_BADPARAM);
    *count = (int)entities_of(&call, FE_GPU, only_supported, found);
    for (int i = 0; i < *count; i++) into[i] = found[i].id;
    return finish(DCGM_ST_OK);
}

API dcgmReturn_t dcgmGetAllDevices(dcgmHandle_t handle, unsigned into[MAX_DEVICES], int *count) {
    return all_devices(handle, __func__, false, into, count);
}

API dcgmReturn_t dcgmGetAllSupportedDevices(dcgmHandle_t handle, unsigned into[MAX_DEVICES],
                                            int *count) {
    return all_devices(handle, __func__, true, into, count);
}

API dcgmReturn_t dcgmGetGpuStatus(dcgmHandle_t handle, unsigned gpu, unsigned *status) {
    struct call call;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (status == NULL || (int)gpu >= gpu_count(&call)) return finish(DCGM_ST_BADPARAM);
    *status = (unsigned)gpu_status(&call, (int)gpu);
    return finish(DCGM_ST_OK);
}

/* NVML_COMPUTE_INSTANCE_PROFILE_*: 1, 2, 3, 4 and 7 slices are 0 to 4. */
static unsigned compute_profile(const struct instance *instance) {
    return instance->profile->slices == 7 ? 4 : instance->profile->slices - 1;
}

static void fill_level(const struct call *call, int gpu, const struct instance *instance,
                       unsigned kind, dcgmMigHierarchyInfo_v2 *into) {
    struct entity entity = {0, 0}, parent = {FE_GPU, (unsigned)gpu};
    bool compute = kind == FE_GPU_CI;
    instance_entity(call, gpu, instance->gi, kind, &entity);
    if (compute) instance_entity(call, gpu, instance->gi, FE_GPU_I, &parent);
    memset(into, 0, sizeof *into);
    into->entity = (dcgmGroupEntityPair_t){entity.kind, entity.id};
    into->parent = (dcgmGroupEntityPair_t){parent.kind, parent.id};
    snprintf(into->info.gpuUuid, sizeof into->info.gpuUuid, "%s", call->scenario->gpus[gpu].uuid);
    into->info.nvmlGpuIndex = (unsigned)gpu;
    into->info.nvmlInstanceId = instance->gi;
    into->info.nvmlComputeInstanceId = compute ? instance->ci : 0xFFFFFFFF;
    into->info.nvmlMigProfileId = compute ? compute_profile(instance) : instance->profile->id;
    into->info.nvmlProfileSlices = instance->profile->slices;
}

API dcgmReturn_t dcgmGetGpuInstanceHierarchy(dcgmHandle_t handle, dcgmMigHierarchy_v2 *into) {
    struct call call;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (into == NULL) return finish(DCGM_ST_BADPARAM);
    if (into->version != VERSION(dcgmMigHierarchy_v2, 2)) return finish(DCGM_ST_VER_MISMATCH);
    into->count = 0;
    for (int g = 0; g < gpu_count(&call); g++) {
        const struct gpu *gpu = &call.scenario->gpus[g];
        for (int i = 0; gpu_status(&call, g) == ENTITY_OK && i < gpu->instance_count; i++) {
            fill_level(&call, g, &gpu->instances[i], FE_GPU_I, &into->entityList[into->count++]);
            fill_level(&call, g, &gpu->instances[i], FE_GPU_CI, &into->entityList[into->count++]);
        }
    }
    return finish(DCGM_ST_OK);
}

static void add_switches(const struct call *call, dcgmNvLinkStatus_v4 *into) {
    struct entity found[MAX_ENTITIES];
    struct place place;
    into->numNvSwitches = node_parts_of(call, FE_SWITCH, found);
    for (unsigned i = 0; i < into->numNvSwitches; i++) {
        dcgmNvLinkNvSwitchLinkStatus_t *status = &into->nvSwitches[i];
        place_of(call, found[i], &place);
        status->entityId = found[i].id;
        for (unsigned link = 0; link < place.settings->links; link++) {
            const struct place_settings *stated = switch_link(call, found[i].id, link);
            status->linkState[link] = stated != NULL && stated->down ? LINK_DOWN : LINK_UP;
        }
    }
}

/* Clients make the ids of NVLinks from this: no list has those of GPUs. */
API dcgmReturn_t dcgmGetNvLinkLinkStatus(dcgmHandle_t handle, dcgmNvLinkStatus_v4 *into) {
    struct call call;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (into == NULL) return finish(DCGM_ST_BADPARAM);
    if (into->version != VERSION(dcgmNvLinkStatus_v4, 4)) return finish(DCGM_ST_VER_MISMATCH);
    memset(into, 0, sizeof *into);
    into->version = VERSION(dcgmNvLinkStatus_v4, 4);
    into->numGpus = (unsigned)gpu_count(&call);
    for (int g = 0; g < gpu_count(&call); g++) {
        const struct gpu *gpu = &call.scenario->gpus[g];
        into->gpus[g].entityId = (unsigned)g;
        for (unsigned i = 0; i < gpu->product->nvlink_count && gpu_status(&call, g) == ENTITY_OK; i++)
            into->gpus[g].linkState[i] = gpu->links[i].values[LINK_STATE] == 1 ? LINK_UP : LINK_DOWN;
    }
    add_switches(&call, into);
    return finish(DCGM_ST_OK);
}

/* A number of the attributes, INT32_BLANK and up when there is none. */
static unsigned number(const struct call *call, const struct place *place, unsigned field) {
    struct sample sample = {0};
    const struct field *row = field_of(field);
    read_field(call, place, row, &sample);
    if (row->type == 'd')
        return sample.real >= FP64_BLANK ? INT32_BLANK + (unsigned)(sample.real - FP64_BLANK)
                                         : (unsigned)sample.real;
    return sample.whole >= INT64_BLANK ? INT32_BLANK + (unsigned)(sample.whole - INT64_BLANK)
                                       : (unsigned)sample.whole;
}

static void text(const struct call *call, const struct place *place, unsigned field, char *into) {
    char found[TEXT_SIZE];
    long long unused;
    bool good = read_fact(call, place, field, found, &unused);
    snprintf(into, STR_LENGTH, "%s", good ? found : "<<<NOT_SUPPORTED>>>");
}

static void fill_identifiers(const struct call *call, const struct place *place,
                             dcgmDeviceIdentifiers_v1 *into) {
    into->version = VERSION(dcgmDeviceIdentifiers_v1, 1);
    text(call, place, 50, into->deviceName);
    text(call, place, 51, into->brandName);
    text(call, place, 53, into->serial);
    text(call, place, 54, into->uuid);
    text(call, place, 57, into->pciBusId);
    text(call, place, 1, into->driverVersion);
    text(call, place, 82, into->inforomImageVersion);
    text(call, place, 85, into->vbios);
    into->pciDeviceId = number(call, place, 58);
    into->pciSubSystemId = number(call, place, 59);
}

static void fill_numbers(const struct call *call, const struct place *place,
                         dcgmDeviceAttributes_v3 *into) {
    into->clockSets.version = VERSION(dcgmDeviceSupportedClockSets_v1, 1);
    into->thermalSettings = (dcgmDeviceThermals_v1){
        VERSION(dcgmDeviceThermals_v1, 1), number(call, place, 158), number(call, place, 159)};
    into->powerLimits = (dcgmDevicePowerLimits_v1){
        VERSION(dcgmDevicePowerLimits_v1, 1), number(call, place, 160), number(call, place, 163),
        number(call, place, 164), number(call, place, 161), number(call, place, 162)};
    into->memoryUsage = (dcgmDeviceMemoryUsage_v1){
        VERSION(dcgmDeviceMemoryUsage_v1, 1), number(call, place, 90), number(call, place, 250),
        number(call, place, 252), number(call, place, 251)};
    into->settings = (dcgmDeviceSettings_v2){VERSION(dcgmDeviceSettings_v2, 2),
                                             number(call, place, 66), number(call, place, 67),
                                             number(call, place, 74)};
}

API dcgmReturn_t dcgmGetDeviceAttributes(dcgmHandle_t handle, unsigned gpu,
                                         dcgmDeviceAttributes_v3 *into) {
    struct call call;
    struct place place;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (into == NULL || !place_of(&call, (struct entity){FE_GPU, gpu}, &place))
        return finish(DCGM_ST_BADPARAM);
    if (into->version != VERSION(dcgmDeviceAttributes_v3, 3)) return finish(DCGM_ST_VER_MISMATCH);
    memset(into, 0, sizeof *into);
    into->version = VERSION(dcgmDeviceAttributes_v3, 3);
    fill_identifiers(&call, &place, &into->identifiers);
    fill_numbers(&call, &place, into);
    return finish(DCGM_ST_OK);
}
