/* DCGM calls that read what was sampled: the latest value, or all since a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entities.h"
#include "gate.h"
#include "outage.h"
#include "reading.h"
#include "store.h"

static void put_value(const struct field *field, const struct sample *sample, dcgmValue_t *into) {
    if (field->type == 's')
        snprintf(into->str, sizeof into->str, "%s", sample->text ? sample->text : "<<<NULL>>>");
    else if (field->type == 'd')
        into->dbl = sample->real;
    else
        into->i64 = sample->whole;
}

static void put_sample(unsigned id, const struct field *field, const struct sample *sample,
                       dcgmFieldValue_v1 *into) {
    into->version = VERSION(dcgmFieldValue_v1, 1);
    into->fieldId = (unsigned short)id;
    into->fieldType = field ? (unsigned short)field->type : 'i';
    into->status = sample->status;
    into->ts = sample->ts;
    if (field != NULL)
        put_value(field, sample, &into->value);
    else
        into->value.i64 = INT64_BLANK;
}

/* A status in place of a value. */
static void put_status(unsigned id, const struct field *field, dcgmReturn_t status,
                       dcgmFieldValue_v1 *into) {
    struct sample sample = {0};
    if (field != NULL) blank_sample(field, BLANK, &sample);
    sample.status = status;
    put_sample(id, field, &sample, into);
    free(sample.text);
}

static void put_latest(const struct call *call, struct entity entity, unsigned id,
                       dcgmFieldValue_v1 *into) {
    const struct field *field = field_of(id);
    const struct series *series = field ? series_of(call->engine, entity, field) : NULL;
    if (field == NULL)
        put_status(id, field, DCGM_ST_UNKNOWN_FIELD, into);
    else if (series == NULL)
        put_status(id, field, DCGM_ST_NOT_WATCHED, into);
    else if (series->count == 0)
        put_status(id, field, DCGM_ST_NO_DATA, into);
    else
        put_sample(id, field, &series->samples[series->count - 1], into);
}

API dcgmReturn_t dcgmEntityGetLatestValues(dcgmHandle_t handle, unsigned kind, int id,
                                           unsigned short *fields, unsigned count,
                                           dcgmFieldValue_v1 *into) {
    struct call call;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (fields == NULL || into == NULL || count == 0) return finish(DCGM_ST_BADPARAM);
    for (unsigned i = 0; i < count; i++)
        put_latest(&call, (struct entity){kind, (unsigned)id}, fields[i], &into[i]);
    return finish(DCGM_ST_OK);
}

API dcgmReturn_t dcgmGetLatestValuesForFields(dcgmHandle_t handle, int gpu, unsigned short *fields,
                                              unsigned count, dcgmFieldValue_v1 *into) {
    return dcgmEntityGetLatestValues(handle, FE_GPU, gpu, fields, count, into);
}

/* Read from the driver now. XIDs cannot be; a profiling field kills the engine (GPM GPUs). */
static dcgmReturn_t live_allowed(const struct call *call, const dcgmGroupEntityPair_t *entities,
                                 unsigned entity_count, const unsigned short *fields,
                                 unsigned count) {
    struct place place;
    for (unsigned f = 0; f < count; f++) {
        if (fields[f] == 230) return DCGM_ST_GENERIC_ERROR;
        for (unsigned e = 0; is_profiling(fields[f]) && e < entity_count; e++)
            if (place_of(call, (struct entity){entities[e].entityGroupId, entities[e].entityId},
                         &place) &&
                place.board != NULL && place.board->product->architecture >= 9)
                return engine_dies(call->engine);
    }
    return DCGM_ST_OK;
}

static void put_live(const struct call *call, struct entity entity, unsigned id,
                     dcgmFieldValue_v1 *into) {
    const struct field *field = field_of(id);
    struct place place;
    struct sample sample;
    if (field == NULL || !place_of(call, key_of(entity, field), &place)) {
        put_status(id, field, field ? DCGM_ST_BADPARAM : DCGM_ST_UNKNOWN_FIELD, into);
        return;
    }
    read_field(call, &place, field, &sample);
    sample.ts = stamp(call->engine);
    put_sample(id, field, &sample, into);
    free(sample.text);
}

static void widen(const dcgmFieldValue_v1 *from, struct entity entity, dcgmFieldValue_v2 *into) {
    into->version = VERSION(dcgmFieldValue_v2, 2);
    into->entityGroupId = entity.kind;
    into->entityId = entity.id;
    into->fieldId = from->fieldId;
    into->fieldType = from->fieldType;
    into->status = from->status;
    into->unused = 0;
    into->ts = from->ts;
    memcpy(&into->value, &from->value, from->fieldType == 's' ? STR_LENGTH : sizeof(int64_t));
}

API dcgmReturn_t dcgmEntitiesGetLatestValues(dcgmHandle_t handle, dcgmGroupEntityPair_t *entities,
                                             unsigned entity_count, unsigned short *fields,
                                             unsigned count, unsigned flags,
                                             dcgmFieldValue_v2 *into) {
    struct call call;
    dcgmFieldValue_v1 value;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (entities == NULL || fields == NULL || into == NULL || entity_count == 0 || count == 0)
        return finish(DCGM_ST_BADPARAM);
    if (flags & FLAG_LIVE_DATA)
        answer = live_allowed(&call, entities, entity_count, fields, count);
    for (unsigned i = 0; answer == DCGM_ST_OK && i < entity_count * count; i++) {
        dcgmGroupEntityPair_t *pair = &entities[i / count];
        struct entity entity = {pair->entityGroupId, pair->entityId};
        if (flags & FLAG_LIVE_DATA)
            put_live(&call, entity, fields[i % count], &value);
        else
            put_latest(&call, entity, fields[i % count], &value);
        widen(&value, entity, &into[i]);
    }
    return finish(answer);
}

static bool within(const struct sample *sample, long long start, long long end) {
    return (start == 0 || sample->ts >= start) && (end == 0 || sample->ts <= end);
}

API dcgmReturn_t dcgmGetMultipleValuesForField(dcgmHandle_t handle, int gpu, unsigned short id,
                                               int *count, long long start, long long end,
                                               unsigned order, dcgmFieldValue_v1 *into) {
    struct call call;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    const struct field *field = field_of(id);
    if (count == NULL || *count < 1 || into == NULL ||
        (order != ORDER_ASCENDING && order != ORDER_DESCENDING))
        return finish(DCGM_ST_BADPARAM);
    if (field == NULL) return finish(DCGM_ST_UNKNOWN_FIELD);
    const struct series *series =
        series_of(call.engine, (struct entity){FE_GPU, (unsigned)gpu}, field);
    if (series == NULL) return finish(DCGM_ST_NOT_WATCHED);
    int room = *count;
    *count = 0;
    for (int i = 0; i < series->count && *count < room; i++) {
        int index = order == ORDER_ASCENDING ? i : series->count - 1 - i;
        if (within(&series->samples[index], start, end))
            put_sample(id, field, &series->samples[index], &into[(*count)++]);
    }
    return finish(*count > 0 ? DCGM_ST_OK : DCGM_ST_NO_DATA);
}
