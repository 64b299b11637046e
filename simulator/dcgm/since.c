/* dcgmGetValuesSince and the group-wide latest values: what was sampled, given to
 * a callback. It is copied first, so that the callback runs outside the lock. */
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "groups.h"
#include "store.h"

struct delivery {
    struct entity entity;
    const struct field *field;
    struct sample sample;
};

struct history {
    int count, room;
    long long next; /* where the next request begins */
    struct delivery *deliveries;
};

static void add(struct history *history, struct entity entity, const struct series *series,
                int index) {
    if (history->count == history->room) {
        history->room = history->room ? 2 * history->room : 64;
        size_t size = (size_t)history->room * sizeof *history->deliveries;
        history->deliveries = realloc(history->deliveries, size);
        if (history->deliveries == NULL) abort();
    }
    struct sample sample = series->samples[index];
    if (sample.text != NULL) sample.text = strdup(sample.text);
    if (sample.ts >= history->next) history->next = sample.ts + 1;
    history->deliveries[history->count++] = (struct delivery){entity, series->field, sample};
}

static void add_series(struct history *history, const struct call *call, struct entity entity,
                       unsigned field, long long since, bool latest) {
    const struct series *series = series_of(call->engine, entity, field_of(field));
    int first = series && latest && series->count > 0 ? series->count - 1 : 0;
    for (int i = first; series != NULL && i < series->count; i++)
        if (latest || series->samples[i].ts >= since) add(history, entity, series, i);
}

static dcgmReturn_t collect(dcgmHandle_t handle, const char *name, dcgmGpuGrp_t group,
                            dcgmFieldGrp_t field_group, long long since, bool latest,
                            struct history *history) {
    struct call call;
    struct entity entities[MAX_ENTITIES];
    dcgmReturn_t answer = begin(handle, name, &call);
    if (answer != DCGM_ST_OK) return answer;
    const struct field_group *fields = field_group_of(&call, field_group);
    int count = group_entities(&call, group, entities);
    if (fields == NULL || count < 0) return finish(DCGM_ST_BADPARAM);
    history->next = since;
    for (int e = 0; e < count; e++)
        for (unsigned f = 0; f < fields->count; f++)
            add_series(history, &call, entities[e], fields->fields[f], since, latest);
    return finish(DCGM_ST_OK);
}

static void fill(const struct delivery *delivery, dcgmFieldValue_v1 *into) {
    into->version = VERSION(dcgmFieldValue_v1, 1);
    into->fieldId = delivery->field->id;
    into->fieldType = (unsigned short)delivery->field->type;
    into->status = delivery->sample.status;
    into->ts = delivery->sample.ts;
    if (delivery->field->type == 's')
        strcpy(into->value.str, delivery->sample.text ? delivery->sample.text : "");
    else if (delivery->field->type == 'd')
        into->value.dbl = delivery->sample.real;
    else
        into->value.i64 = delivery->sample.whole;
}

static dcgmReturn_t deliver(struct history *history, dcgmFieldValueEntityEnumeration_f callback,
                            dcgmFieldValueEnumeration_f gpu_callback, void *data) {
    dcgmFieldValue_v1 value;
    bool going = true;
    for (int i = 0; i < history->count; i++) {
        const struct delivery *delivery = &history->deliveries[i];
        struct entity entity = delivery->entity;
        fill(delivery, &value);
        if (going)
            going = (callback ? callback(entity.kind, entity.id, &value, 1, data)
                              : gpu_callback(entity.id, &value, 1, data)) >= 0;
        free(delivery->sample.text);
    }
    free(history->deliveries);
    return DCGM_ST_OK;
}

API dcgmReturn_t dcgmGetValuesSince_v2(dcgmHandle_t handle, dcgmGpuGrp_t group,
                                       dcgmFieldGrp_t field_group, long long since,
                                       long long *next, dcgmFieldValueEntityEnumeration_f callback,
                                       void *data) {
    struct history history = {0};
    if (callback == NULL || next == NULL) return DCGM_ST_BADPARAM;
    dcgmReturn_t answer = collect(handle, __func__, group, field_group, since, false, &history);
    if (answer != DCGM_ST_OK) return answer;
    *next = history.next;
    return deliver(&history, callback, NULL, data);
}

API dcgmReturn_t dcgmGetValuesSince(dcgmHandle_t handle, dcgmGpuGrp_t group,
                                    dcgmFieldGrp_t field_group, long long since, long long *next,
                                    dcgmFieldValueEnumeration_f callback, void *data) {
    struct history history = {0};
    if (callback == NULL || next == NULL) return DCGM_ST_BADPARAM;
    dcgmReturn_t answer = collect(handle, __func__, group, field_group, since, false, &history);
    if (answer != DCGM_ST_OK) return answer;
    *next = history.next;
    return deliver(&history, NULL, callback, data);
}

API dcgmReturn_t dcgmGetLatestValues_v2(dcgmHandle_t handle, dcgmGpuGrp_t group,
                                        dcgmFieldGrp_t field_group,
                                        dcgmFieldValueEntityEnumeration_f callback, void *data) {
    struct history history = {0};
    if (callback == NULL) return DCGM_ST_BADPARAM;
    dcgmReturn_t answer = collect(handle, __func__, group, field_group, 0, true, &history);
    return answer ? answer : deliver(&history, callback, NULL, data);
}
