/* DCGM's health watches: incidents of dcgm.ini, and of XIDs that were seen. */
#include <stdio.h>
#include <string.h>

#include "entities.h"
#include "gate.h"
#include "groups.h"

#define SYSTEM_MEMORY 0x10u
#define SYSTEM_ALL 0xFFFFFFFFu

/* XIDs that DCGM takes for incidents; the others leave its health as it is. */
static const struct {
    unsigned code, system, health;
} xid_rows[] = {
    {31, SYSTEM_MEMORY, HEALTH_WARN}, {32, SYSTEM_MEMORY, HEALTH_WARN},
    {43, SYSTEM_MEMORY, HEALTH_WARN}, {63, SYSTEM_MEMORY, HEALTH_WARN},
    {64, SYSTEM_MEMORY, HEALTH_FAIL}, {48, SYSTEM_ALL, HEALTH_FAIL},
    {74, SYSTEM_ALL, HEALTH_FAIL},    {79, SYSTEM_ALL, HEALTH_FAIL},
    {94, SYSTEM_ALL, HEALTH_WARN},    {95, SYSTEM_ALL, HEALTH_FAIL},
    {119, SYSTEM_ALL, HEALTH_FAIL},   {120, SYSTEM_ALL, HEALTH_FAIL},
    {140, SYSTEM_ALL, HEALTH_FAIL},
};

struct check {
    const struct call *call;
    unsigned watched;
    int count;
    struct entity entities[MAX_ENTITIES];
    dcgmHealthResponse_v5 *into;
};

/* What other clients have done since the last call about health. */
static void heed_others(const struct call *call) {
    struct engine *engine = call->engine;
    if (call->settings->health_of_all)
        engine->health_of_all[0] = (unsigned)call->settings->health_of_all;
    if (engine->health_taken == call->settings->health_taken) return;
    engine->health_taken = call->settings->health_taken;
    for (unsigned i = 0; i < MAX_GROUPS; i++) engine->groups[i].health_systems = 0;
}

static unsigned *systems_of(const struct call *call, dcgmGpuGrp_t id) {
    static unsigned nothing;
    heed_others(call);
    struct group *group = group_of(call, id);
    if (group != NULL) return &group->health_systems;
    nothing = 0;
    switch (id) {
    case GROUP_ALL_GPUS: return &call->engine->health_of_all[0];
    case GROUP_ALL_GI: return &call->engine->health_of_all[1];
    case GROUP_ALL_CI: return &call->engine->health_of_all[2];
    case GROUP_ALL_ENTITIES: return &call->engine->health_of_all[3];
    default: return &nothing;
    }
}

static dcgmReturn_t set(dcgmHandle_t handle, const char *name, dcgmGpuGrp_t id, unsigned systems) {
    struct call call;
    struct entity entities[MAX_ENTITIES];
    dcgmReturn_t answer = begin(handle, name, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (group_entities(&call, id, entities) < 0) return finish(DCGM_ST_BADPARAM);
    *systems_of(&call, id) = systems;
    return finish(DCGM_ST_OK);
}

API dcgmReturn_t dcgmHealthSet_v2(dcgmHandle_t handle, dcgmHealthSetParams_v2 *params) {
    if (params == NULL) return DCGM_ST_BADPARAM;
    if (params->version != VERSION(dcgmHealthSetParams_v2, 2)) return DCGM_ST_VER_MISMATCH;
    return set(handle, __func__, params->groupId, params->systems);
}

API dcgmReturn_t dcgmHealthSet(dcgmHandle_t handle, dcgmGpuGrp_t id, unsigned systems) {
    return set(handle, __func__, id, systems);
}

API dcgmReturn_t dcgmHealthGet(dcgmHandle_t handle, dcgmGpuGrp_t id, unsigned *systems) {
    struct call call;
    struct entity entities[MAX_ENTITIES];
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (systems == NULL || group_entities(&call, id, entities) < 0) return finish(DCGM_ST_BADPARAM);
    *systems = *systems_of(&call, id);
    return finish(DCGM_ST_OK);
}

/* An instance is in a group that has it or its GPU. */
static bool concerns(const struct check *check, struct entity entity) {
    struct place place;
    if (!place_of(check->call, entity, &place)) return false;
    for (int i = 0; i < check->count; i++) {
        const struct entity *member = &check->entities[i];
        if (member->kind == entity.kind && member->id == entity.id) return true;
        if (member->kind == FE_GPU && (int)member->id == place.gpu) return true;
    }
    return false;
}

static void report(struct check *check, struct entity entity, unsigned system, unsigned health,
                   unsigned code, const char *message) {
    dcgmHealthResponse_v5 *into = check->into;
    if (!(check->watched & system) || !concerns(check, entity)) return;
    if (into->incidentCount == MAX_ENTITIES) return;
    dcgmIncidentInfo_t *incident = &into->incidents[into->incidentCount++];
    incident->system = system;
    incident->health = health;
    incident->error.code = code;
    snprintf(incident->error.msg, sizeof incident->error.msg, "%s", message);
    incident->entityInfo = (dcgmGroupEntityPair_t){entity.kind, entity.id};
    if (health > into->overallHealth) into->overallHealth = health;
}

static void report_incidents(struct check *check) {
    const struct settings *settings = check->call->settings;
    for (int i = 0; i < settings->incident_count; i++) {
        const struct incident *incident = &settings->incidents[i];
        struct entity entity = {FE_GPU, incident->gpu};
        if ((int)incident->gpu >= gpu_count(check->call)) continue;
        if (incident->gi >= 0)
            instance_entity(check->call, (int)incident->gpu, (unsigned)incident->gi, FE_GPU_I,
                            &entity);
        report(check, entity, incident->system, incident->health, incident->code,
               incident->message);
    }
}

static void report_xids(struct check *check) {
    char message[64];
    for (int i = 0; i < check->call->engine->xid_count; i++) {
        const struct xid_seen *seen = &check->call->engine->xids[i];
        snprintf(message, sizeof message, "XID %u was seen", seen->code);
        for (size_t row = 0; row < sizeof xid_rows / sizeof xid_rows[0]; row++)
            if (xid_rows[row].code == seen->code)
                report(check, seen->entity, xid_rows[row].system, xid_rows[row].health, 0, message);
    }
}

API dcgmReturn_t dcgmHealthCheck(dcgmHandle_t handle, dcgmGpuGrp_t id, dcgmHealthResponse_v5 *into) {
    struct call call;
    struct check check = {.call = &call, .into = into};
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (into == NULL || (check.count = group_entities(&call, id, check.entities)) < 0)
        return finish(DCGM_ST_BADPARAM);
    if (into->version != VERSION(dcgmHealthResponse_v5, 5)) return finish(DCGM_ST_VER_MISMATCH);
    check.watched = *systems_of(&call, id);
    into->overallHealth = HEALTH_PASS;
    into->incidentCount = 0;
    report_incidents(&check);
    report_xids(&check);
    return finish(DCGM_ST_OK);
}
