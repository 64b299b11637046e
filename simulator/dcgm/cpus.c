/* DCGM calls about the CPUs of the node and which cores each has. */
#include <stdio.h>
#include <string.h>

#include "gate.h"
#include "node_parts.h"

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
        fill_cores(node_part(&call, FE_CPU, found[i].id), &into->cpus[i].ownedCores);
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
        const struct place_settings *cpu = node_part(&call, FE_CPU, found[i].id);
        into->cpus[i].cpuId = found[i].id;
        fill_cores(cpu, &into->cpus[i].ownedCores);
        snprintf(into->cpus[i].serial, sizeof into->cpus[i].serial, "%s", cpu->serial);
    }
    return finish(into->numCpus > 0 ? DCGM_ST_OK : DCGM_ST_MODULE_NOT_LOADED);
}
