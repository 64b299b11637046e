/* dcgmGetValuesSince and the group-wide latest values: what was sampled, told to
 * a callback. It is copied first, so that the callback runs outside the lock. */
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "groups.h"
#include "store.h"

struct told {
    struct entity entity;
    const struct field *field;
    struct sample sample;
};

struct story {
    int count, room;
    long long next; /* the time to ask from the next time */
    struct told *told;
};

static void add(struct story *story, struct entity entity, const struct series *series, int index) {
    if (story->count == story->room) {
        story->room = story->room ? 2 * story->room : 64;
        story->told = realloc(story->told, (size_t)story->room * sizeof *story->told);
        if (story->told == NULL) abort();
    }
    struct sample sample = series->samples[index];
    if (sample.text != NULL) sample.text = strdup(sample.text);
    if (sample.ts >= story->next) story->next = sample.ts + 1;
    story->told[story->count++] = (struct told){entity, series->field, sample};
}

static void tell_series(struct story *story, const struct call *call, struct entity entity,
                        unsigned field, long long since, bool latest) {
    const struct series *series = series_of(call->engine, entity, field_of(field));
    int first = series && latest && series->count > 0 ? series->count - 1 : 0;
    for (int i = first; series != NULL && i < series->count; i++)
        if (latest || series->samples[i].ts >= since) add(story, entity, series, i);
}

static dcgmReturn_t collect(dcgmHandle_t handle, const char *name, dcgmGpuGrp_t group,
                            dcgmFieldGrp_t field_group, long long since, bool latest,
                            struct story *story) {
    struct call call;
    struct entity entities[MAX_ENTITIES];
    dcgmReturn_t answer = begin(handle, name, &call);
    if (answer != DCGM_ST_OK) return answer;
    const struct field_group *fields = field_group_of(&call, field_group);
    int count = group_entities(&call, group, entities);
    if (fields == NULL || count < 0) return finish(DCGM_ST_BADPARAM);
    story->next = since;
    for (int e = 0; e < count; e++)
        for (unsigned f = 0; f < fields->count; f++)
            tell_series(story, &call, entities[e], fields->fields[f], since, latest);
    return finish(DCGM_ST_OK);
}

static void fill(const struct told *told, dcgmFieldValue_v1 *into) {
    into->version = VERSION(dcgmFieldValue_v1, 1);
    into->fieldId = told->field->id;
    into->fieldType = (unsigned short)told->field->type;
    into->status = told->sample.status;
    into->ts = told->sample.ts;
    if (told->field->type == 's')
        strcpy(into->value.str, told->sample.text ? told->sample.text : "");
    else if (told->field->type == 'd')
        into->value.dbl = told->sample.real;
    else
        into->value.i64 = told->sample.whole;
}

static dcgmReturn_t tell_story(struct story *story, dcgmFieldValueEntityEnumeration_f callback,
                         dcgmFieldValueEnumeration_f gpu_callback, void *data) {
    dcgmFieldValue_v1 value;
    bool going = true;
    for (int i = 0; i < story->count; i++) {
        const struct told *told = &story->told[i];
        fill(told, &value);
        if (going)
            going = (callback ? callback(told->entity.kind, told->entity.id, &value, 1, data)
                              : gpu_callback(told->entity.id, &value, 1, data)) >= 0;
        free(told->sample.text);
    }
    free(story->told);
    return DCGM_ST_OK;
}

API dcgmReturn_t dcgmGetValuesSince_v2(dcgmHandle_t handle, dcgmGpuGrp_t group,
                                       dcgmFieldGrp_t field_group, long long since,
                                       long long *next, dcgmFieldValueEntityEnumeration_f callback,
                                       void *data) {
    struct story story = {0};
    if (callback == NULL || next == NULL) return DCGM_ST_BADPARAM;
    dcgmReturn_t answer = collect(handle, __func__, group, field_group, since, false, &story);
    if (answer != DCGM_ST_OK) return answer;
    *next = story.next;
    return tell_story(&story, callback, NULL, data);
}

API dcgmReturn_t dcgmGetValuesSince(dcgmHandle_t handle, dcgmGpuGrp_t group,
                                    dcgmFieldGrp_t field_group, long long since, long long *next,
                                    dcgmFieldValueEnumeration_f callback, void *data) {
    struct story story = {0};
    if (callback == NULL || next == NULL) return DCGM_ST_BADPARAM;
    dcgmReturn_t answer = collect(handle, __func__, group, field_group, since, false, &story);
    if (answer != DCGM_ST_OK) return answer;
    *next = story.next;
    return tell_story(&story, NULL, callback, data);
}

API dcgmReturn_t dcgmGetLatestValues_v2(dcgmHandle_t handle, dcgmGpuGrp_t group,
                                        dcgmFieldGrp_t field_group,
                                        dcgmFieldValueEntityEnumeration_f callback, void *data) {
    struct story story = {0};
    if (callback == NULL) return DCGM_ST_BADPARAM;
    dcgmReturn_t answer = collect(handle, __func__, group, field_group, 0, true, &story);
    return answer ? answer : tell_story(&story, callback, NULL, data);
}
