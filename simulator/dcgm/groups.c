/* DCGM calls about groups: of entities, and of fields. Ids count from 1. */
#include "groups.h"

#include <stdio.h>
#include <string.h>

#include "entities.h"
#include "gate.h"

struct group *group_of(const struct call *call, dcgmGpuGrp_t id) {
    if (id == 0 || id > MAX_GROUPS) return NULL;
    struct group *group = &call->engine->groups[id - 1];
    return group->used ? group : NULL;
}

struct field_group *field_group_of(const struct call *call, dcgmFieldGrp_t id) {
    if (id == 0 || id > MAX_FIELD_GROUPS) return NULL;
    struct field_group *group = &call->engine->field_groups[id - 1];
    return group->used ? group : NULL;
}

static int everything(const struct call *call, struct entity *into) {
    unsigned count = entities_of(call, FE_GPU, true, into);
    count += entities_of(call, FE_GPU_I, true, into + count);
    return (int)(count + entities_of(call, FE_GPU_CI, true, into + count));
}

int group_entities(const struct call *call, dcgmGpuGrp_t id, struct entity *into) {
    switch (id) {
    case GROUP_ALL_GPUS: return (int)entities_of(call, FE_GPU, true, into);
    case GROUP_ALL_GI: return (int)entities_of(call, FE_GPU_I, true, into);
    case GROUP_ALL_CI: return (int)entities_of(call, FE_GPU_CI, true, into);
    case GROUP_ALL_ENTITIES: return everything(call, into);
    case GROUP_ALL_SWITCHES: return (int)entities_of(call, FE_SWITCH, true, into);
    default: break;
    }
    const struct group *group = group_of(call, id);
    if (group == NULL) return -1;
    memcpy(into, group->entities, group->count * sizeof *into);
    return (int)group->count;
}

static int first_entities(const struct call *call, unsigned type, struct entity *into) {
    switch (type) {
    case GROUP_DEFAULT: return group_entities(call, GROUP_ALL_GPUS, into);
    case GROUP_GI: return group_entities(call, GROUP_ALL_GI, into);
    case GROUP_CI: return group_entities(call, GROUP_ALL_CI, into);
    case GROUP_EVERYTHING: return group_entities(call, GROUP_ALL_ENTITIES, into);
    default: return 0;
    }
}

API dcgmReturn_t dcgmGroupCreate(dcgmHandle_t handle, unsigned type, const char *name,
                                 dcgmGpuGrp_t *id) {
    struct call call;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (name == NULL || id == NULL || type > GROUP_EVERYTHING || strlen(name) >= STR_LENGTH)
        return finish(DCGM_ST_BADPARAM);
    for (unsigned i = 0; i < MAX_GROUPS; i++) {
        struct group *group = &call.engine->groups[i];
        if (group->used) continue;
        memset(group, 0, sizeof *group);
        group->used = true;
        strcpy(group->name, name);
        group->count = (unsigned)first_entities(&call, type, group->entities);
        *id = i + 1;
        return finish(DCGM_ST_OK);
    }
    return finish(DCGM_ST_MAX_LIMIT);
}

API dcgmReturn_t dcgmGroupDestroy(dcgmHandle_t handle, dcgmGpuGrp_t id) {
    struct call call;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    struct group *group = group_of(&call, id);
    if (group == NULL) return finish(DCGM_ST_NOT_CONFIGURED);
    group->used = false;
    return finish(DCGM_ST_OK);
}

static int index_in(const struct group *group, struct entity entity) {
    for (unsigned i = 0; i < group->count; i++)
        if (group->entities[i].kind == entity.kind && group->entities[i].id == entity.id)
            return (int)i;
    return -1;
}

API dcgmReturn_t dcgmGroupAddEntity(dcgmHandle_t handle, dcgmGpuGrp_t id, unsigned kind,
                                    unsigned entity_id) {
    struct call call;
    struct place place;
    struct entity entity = {kind, entity_id};
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    struct group *group = group_of(&call, id);
    if (group == NULL) return finish(DCGM_ST_NOT_CONFIGURED);
    if (kind == FE_NONE || !place_of(&call, entity, &place) || index_in(group, entity) >= 0)
        return finish(DCGM_ST_BADPARAM);
    if (group->count == MAX_ENTITIES) return finish(DCGM_ST_MAX_LIMIT);
    group->entities[group->count++] = entity;
    return finish(DCGM_ST_OK);
}

API dcgmReturn_t dcgmGroupAddDevice(dcgmHandle_t handle, dcgmGpuGrp_t id, unsigned gpu) {
    return dcgmGroupAddEntity(handle, id, FE_GPU, gpu);
}

API dcgmReturn_t dcgmGroupRemoveEntity(dcgmHandle_t handle, dcgmGpuGrp_t id, unsigned kind,
                                       unsigned entity_id) {
    struct call call;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    struct group *group = group_of(&call, id);
    if (group == NULL) return finish(DCGM_ST_NOT_CONFIGURED);
    int index = index_in(group, (struct entity){kind, entity_id});
    if (index < 0) return finish(DCGM_ST_BADPARAM);
    group->count--;
    memmove(&group->entities[index], &group->entities[index + 1],
            (group->count - (unsigned)index) * sizeof group->entities[0]);
    return finish(DCGM_ST_OK);
}

API dcgmReturn_t dcgmGroupRemoveDevice(dcgmHandle_t handle, dcgmGpuGrp_t id, unsigned gpu) {
    return dcgmGroupRemoveEntity(handle, id, FE_GPU, gpu);
}

/* Version 2 holds 64 entities, version 3 1024; they are equal up to the list's length. */
API dcgmReturn_t dcgmGroupGetInfo(dcgmHandle_t handle, dcgmGpuGrp_t id, dcgmGroupInfo_v3 *into) {
    struct call call;
    struct entity found[MAX_ENTITIES];
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (into == NULL) return finish(DCGM_ST_BADPARAM);
    bool old = into->version == VERSION(dcgmGroupInfo_v2, 2);
    if (!old && into->version != VERSION(dcgmGroupInfo_v3, 3)) return finish(DCGM_ST_VER_MISMATCH);
    int count = group_entities(&call, id, found);
    if (count < 0) return finish(DCGM_ST_NOT_CONFIGURED);
    if (old && count > MAX_ENTITIES_V1) return finish(DCGM_ST_INSUFFICIENT_SIZE);
    const struct group *group = group_of(&call, id);
    snprintf(into->groupName, sizeof into->groupName, "%s", group ? group->name : "DCGM_ALL");
    into->count = (unsigned)count;
    for (int i = 0; i < count; i++)
        into->entityList[i] = (dcgmGroupEntityPair_t){found[i].kind, found[i].id};
    return finish(DCGM_ST_OK);
}

API dcgmReturn_t dcgmGroupGetAllIds(dcgmHandle_t handle, dcgmGpuGrp_t *into, unsigned *count) {
    struct call call;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (into == NULL || count == NULL) return finish(DCGM_ST_BADPARAM);
    *count = 0;
    for (unsigned i = 0; i < MAX_GROUPS; i++)
        if (call.engine->groups[i].used) into[(*count)++] = i + 1;
    return finish(DCGM_ST_OK);
}

static bool name_taken(const struct engine *engine, const char *name) {
    for (int i = 0; i < MAX_FIELD_GROUPS; i++)
        if (engine->field_groups[i].used && strcmp(engine->field_groups[i].name, name) == 0)
            return true;
    return false;
}

static dcgmReturn_t acceptable(const struct engine *engine, int count, const unsigned short *ids,
                               const char *name) {
    if (count < 1 || count > MAX_FIELDS_PER_GROUP || ids == NULL || name == NULL ||
        *name == '\0' || strlen(name) >= STR_LENGTH)
        return DCGM_ST_BADPARAM;
    for (int i = 0; i < count; i++)
        if (field_of(ids[i]) == NULL) return DCGM_ST_UNKNOWN_FIELD;
    return name_taken(engine, name) ? DCGM_ST_DUPLICATE_KEY : DCGM_ST_OK;
}

API dcgmReturn_t dcgmFieldGroupCreate(dcgmHandle_t handle, int count, unsigned short *ids,
                                      const char *name, dcgmFieldGrp_t *id) {
    struct call call;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    answer = id ? acceptable(call.engine, count, ids, name) : DCGM_ST_BADPARAM;
    if (answer != DCGM_ST_OK) return finish(answer);
    for (unsigned i = 0; i < MAX_FIELD_GROUPS; i++) {
        struct field_group *group = &call.engine->field_groups[i];
        if (group->used) continue;
        group->used = true;
        strcpy(group->name, name);
        group->count = (unsigned)count;
        memcpy(group->fields, ids, (size_t)count * sizeof *ids);
        *id = i + 1;
        return finish(DCGM_ST_OK);
    }
    return finish(DCGM_ST_MAX_LIMIT);
}

API dcgmReturn_t dcgmFieldGroupDestroy(dcgmHandle_t handle, dcgmFieldGrp_t id) {
    struct call call;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    struct field_group *group = field_group_of(&call, id);
    if (group == NULL) return finish(DCGM_ST_NO_DATA);
    group->used = false;
    return finish(DCGM_ST_OK);
}

API dcgmReturn_t dcgmFieldGroupGetInfo(dcgmHandle_t handle, dcgmFieldGroupInfo_v1 *into) {
    struct call call;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (into == NULL) return finish(DCGM_ST_BADPARAM);
    if (into->version != VERSION(dcgmFieldGroupInfo_v1, 1)) return finish(DCGM_ST_VER_MISMATCH);
    const struct field_group *group = field_group_of(&call, into->fieldGroupId);
    if (group == NULL) return finish(DCGM_ST_NO_DATA);
    into->numFieldIds = group->count;
    strcpy(into->fieldGroupName, group->name);
    memcpy(into->fieldIds, group->fields, sizeof group->fields);
    return finish(DCGM_ST_OK);
}
