/* DCGM calls that start, stop and force the sampling of fields. */
#include "../ini/clock.h"
#include "entities.h"
#include "gate.h"
#include "groups.h"
#include "reading.h"
#include "sampling.h"
#include "store.h"

static bool can_watch(const struct call *call, struct entity entity, unsigned field) {
    struct place place;
    return !is_profiling(field) || !place_of(call, entity, &place) ||
           has_profiling(call, place.gpu, field);
}

/* One profiling field that a GPU lacks fails the whole request. */
static bool all_can(const struct call *call, const struct entity *entities, int count,
                    const struct field_group *fields) {
    for (int e = 0; e < count; e++)
        for (unsigned f = 0; f < fields->count; f++)
            if (!can_watch(call, entities[e], fields->fields[f])) return false;
    return true;
}

static bool attached(const struct call *call, struct entity entity) {
    struct place place;
    return place_of(call, entity, &place) && gpu_status(call, place.gpu) != ENTITY_DETACHED;
}

static void watch(const struct call *call, struct entity entity, unsigned field, long long every,
                  double keep_seconds, int keep_samples) {
    struct series *series = series_add(call->engine, entity, field_of(field));
    if (series == NULL) return;
    bool late = call->settings->first_sample == FIRST_LATE;
    bool xids = series->field->source == SOURCE_XID;
    if (!series->begun) series->due = late ? elapsed_usec() + every : 0;
    if (!series->begun && xids && call->scenario != NULL) recall_xids(call, series);
    series->begun |= xids;
    series->every = every;
    series->keep_seconds = keep_seconds;
    series->keep_samples = keep_samples;
}

API dcgmReturn_t dcgmWatchFields(dcgmHandle_t handle, dcgmGpuGrp_t group, dcgmFieldGrp_t field_group,
                                 long long every, double keep_seconds, int keep_samples) {
    struct call call;
    struct entity entities[MAX_ENTITIES];
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    const struct field_group *fields = field_group_of(&call, field_group);
    int count = group_entities(&call, group, entities);
    if (fields == NULL || count < 0 || every < 0 || keep_seconds < 0 || keep_samples < 0)
        return finish(DCGM_ST_BADPARAM);
    if (!all_can(&call, entities, count, fields)) return finish(DCGM_ST_MODULE_NOT_LOADED);
    for (int e = 0; e < count; e++)
        for (unsigned f = 0; attached(&call, entities[e]) && f < fields->count; f++)
            watch(&call, entities[e], fields->fields[f], every, keep_seconds, keep_samples);
    return finish(DCGM_ST_OK);
}

API dcgmReturn_t dcgmUnwatchFields(dcgmHandle_t handle, dcgmGpuGrp_t group,
                                   dcgmFieldGrp_t field_group) {
    struct call call;
    struct entity entities[MAX_ENTITIES];
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    const struct field_group *fields = field_group_of(&call, field_group);
    int count = group_entities(&call, group, entities);
    if (fields == NULL || count < 0) return finish(DCGM_ST_BADPARAM);
    for (int e = 0; e < count; e++)
        for (unsigned f = 0; f < fields->count; f++)
            series_remove(call.engine, entities[e], field_of(fields->fields[f]));
    return finish(DCGM_ST_OK);
}

/* A hung GPU holds who waits for the update, until it is healed. */
API dcgmReturn_t dcgmUpdateAllFields(dcgmHandle_t handle, int wait) {
    struct call call;
    for (;;) {
        dcgmReturn_t answer = begin(handle, __func__, &call);
        if (answer != DCGM_ST_OK) return answer;
        if (wait != 0 && wait != 1) return finish(DCGM_ST_BADPARAM);
        if (!stuck(&call)) return finish(sample_all(&call, true));
        finish(DCGM_ST_OK);
        if (wait == 0) return DCGM_ST_OK;
        wait_ms(WATCH_MS);
    }
}
