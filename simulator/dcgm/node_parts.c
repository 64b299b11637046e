/* NVSwitches with their links, CPUs with their cores: dcgm.ini alone knows them. */
#include <stdio.h>
#include <string.h>

#include "engine.h"

/* Their number is that of their section. */
static const struct place_settings *section_of(const struct call *call, unsigned kind,
                                               unsigned number) {
    for (int i = 0; i < call->settings->place_count; i++) {
        const struct place_settings *place = &call->settings->places[i];
        if (place->kind == kind && place->gpu == number && !place->of_switch) return place;
    }
    return NULL;
}

const struct place_settings *switch_link(const struct call *call, unsigned owner, unsigned link) {
    for (int i = 0; i < call->settings->place_count; i++) {
        const struct place_settings *place = &call->settings->places[i];
        if (place->of_switch && place->gpu == owner && place->gi == link) return place;
    }
    return NULL;
}

static bool owns(const struct place_settings *cpu, unsigned core) {
    return cpu->kind == FE_CPU && core >= cpu->first_core && core - cpu->first_core < cpu->cores;
}

static const struct place_settings *cpu_of(const struct call *call, unsigned core) {
    for (int i = 0; i < call->settings->place_count; i++)
        if (owns(&call->settings->places[i], core)) return &call->settings->places[i];
    return NULL;
}

static bool put_switch_link(const struct call *call, struct place *into) {
    unsigned id = into->entity.id, owner = id >> 24, link = id >> 8 & 0xFF;
    const struct place_settings *told = section_of(call, FE_SWITCH, owner);
    if (id != SWITCH_LINK_ENTITY(owner, link) || told == NULL || link >= told->links) return false;
    into->link = (int)link;
    into->settings = switch_link(call, owner, link);
    return true;
}

bool put_node_part(const struct call *call, struct place *into) {
    unsigned id = into->entity.id;
    switch (into->entity.kind) {
    case FE_LINK: return put_switch_link(call, into);
    case FE_SWITCH:
    case FE_CPU: into->settings = section_of(call, into->entity.kind, id); break;
    case FE_CPU_CORE:
        into->settings = section_of(call, FE_CPU_CORE, id);
        return cpu_of(call, id) != NULL;
    default: return false;
    }
    return into->settings != NULL;
}

/* By number. */
unsigned node_parts_of(const struct call *call, unsigned kind, struct entity *into) {
    unsigned count = 0, end = kind == FE_SWITCH ? MAX_SWITCHES : kind == FE_CPU ? MAX_CPUS : MAX_CORES;
    if (kind == FE_SWITCH && call->settings->no_switch_module) return 0;
    for (unsigned id = 0; id < end; id++)
        if (kind == FE_CPU_CORE ? cpu_of(call, id) != NULL : section_of(call, kind, id) != NULL)
            into[count++] = (struct entity){kind, id};
    return count;
}

static void fill_cores(const struct place_settings *cpu, dcgmCpuHierarchyOwnedCores_v1 *into) {
    into->version = VERSION(dcgmCpuHierarchyOwnedCores_v1, 1);
    for (unsigned core = 0; core < MAX_CORES; core++)
        if (owns(cpu, core)) into->bitmask[core / 64] |= 1ull << core % 64;
}

API dcgmReturn_t dcgmGetCpuHierarchy(dcgmHandle_t handle, dcgmCpuHierarchy_v1 *into) {
    struct call call;
    struct entity found[MAX_ENTITIES];
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (into == NULL) return finish(DCGM_ST_BADPARAM);
    if (into->version != VERSION(dcgmCpuHierarchy_v1, 1)) return finish(DCGM_ST_VER_MISMATCH);
    memset(into, 0, sizeof *into);
    into->version = VERSION(dcgmCpuHierarchy_v1, 1);
    into->numCpus = node_parts_of(&call, FE_CPU, found);
    for (unsigned i = 0; i < into->numCpus; i++) {
        into->cpus[i].cpuId = found[i].id;
        fill_cores(section_of(&call, FE_CPU, found[i].id), &into->cpus[i].ownedCores);
    }
    return finish(into->numCpus > 0 ? DCGM_ST_OK : DCGM_ST_MODULE_NOT_LOADED);
}

/* The same with serial numbers. */
API dcgmReturn_t dcgmGetCpuHierarchy_v2(dcgmHandle_t handle, dcgmCpuHierarchy_v2 *into) {
    struct call call;
    struct entity found[MAX_ENTITIES];
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (into == NULL) return finish(DCGM_ST_BADPARAM);
    if (into->version != VERSION(dcgmCpuHierarchy_v2, 2) || call.settings->old_cpu_call)
        return finish(DCGM_ST_VER_MISMATCH);
    memset(into, 0, sizeof *into);
    into->version = VERSION(dcgmCpuHierarchy_v2, 2);
    into->numCpus = node_parts_of(&call, FE_CPU, found);
    for (unsigned i = 0; i < into->numCpus; i++) {
        const struct place_settings *told = section_of(&call, FE_CPU, found[i].id);
        into->cpus[i].cpuId = found[i].id;
        fill_cores(told, &into->cpus[i].ownedCores);
        snprintf(into->cpus[i].serial, sizeof into->cpus[i].serial, "%s", told->serial);
    }
    return finish(into->numCpus > 0 ? DCGM_ST_OK : DCGM_ST_MODULE_NOT_LOADED);
}
