/* The samples of an engine: one series for each watched field of each entity. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

#include "../ini/clock.h"

#define MOST_SAMPLES 8192

/* A global field belongs to no entity, whichever was requested. */
struct entity key_of(struct entity entity, const struct field *field) {
    return field->level == FE_NONE ? (struct entity){FE_NONE, 0} : entity;
}

static struct series **bucket(const struct engine *engine, struct entity key, unsigned field) {
    unsigned hash = (key.kind * 31 + key.id) * 1031 + field;
    return (struct series **)&engine->series[hash % SERIES_BUCKETS];
}

static struct series **link_to(const struct engine *engine, struct entity entity,
                               const struct field *field) {
    struct entity key = key_of(entity, field);
    struct series **link = bucket(engine, key, field->id);
    while (*link != NULL && ((*link)->entity.kind != key.kind || (*link)->entity.id != key.id ||
                             (*link)->field != field))
        link = &(*link)->next;
    return link;
}

struct series *series_of(const struct engine *engine, struct entity entity,
                         const struct field *field) {
    return *link_to(engine, entity, field);
}

struct series *series_add(struct engine *engine, struct entity entity, const struct field *field) {
    struct series **link = link_to(engine, entity, field);
    if (*link == NULL && (*link = calloc(1, sizeof **link)) != NULL) {
        (*link)->entity = key_of(entity, field);
        (*link)->field = field;
    }
    return *link;
}

static void drop_oldest(struct series *series, int count) {
    if (count == 0) return;
    for (int i = 0; i < count; i++) free(series->samples[i].text);
    series->count -= count;
    memmove(series->samples, series->samples + count,
            (size_t)series->count * sizeof *series->samples);
}

static void unlink_series(struct series **link) {
    struct series *series = *link;
    *link = series->next;
    drop_oldest(series, series->count);
    free(series->samples);
    free(series);
}

void series_remove(struct engine *engine, struct entity entity, const struct field *field) {
    struct series **link = link_to(engine, entity, field);
    if (*link != NULL) unlink_series(link);
}

void series_forget(struct engine *engine, bool (*gone)(const struct series *, const void *),
                   const void *what) {
    for (int i = 0; i < SERIES_BUCKETS; i++) {
        struct series **link = &engine->series[i];
        while (*link != NULL)
            if (gone(*link, what))
                unlink_series(link);
            else
                link = &(*link)->next;
    }
}

/* What is too old or too many goes when something new comes; the newest stays. */
static int outdated(const struct series *series, long long now) {
    long long oldest = now - (long long)(series->keep_seconds * 1e6);
    int most = series->keep_samples > 0 ? series->keep_samples : MOST_SAMPLES;
    int count = series->count > most ? series->count - most : 0;
    while (count < series->count - 1 && series->samples[count].ts < oldest) count++;
    return count;
}

void series_append(struct series *series, const struct sample *sample) {
    if (series->count == series->room) {
        int room = series->room ? 2 * series->room : 4;
        struct sample *more = realloc(series->samples, (size_t)room * sizeof *more);
        if (more == NULL) abort();
        series->samples = more;
        series->room = room;
    }
    series->samples[series->count++] = *sample;
    drop_oldest(series, outdated(series, sample->ts));
}

/* Now, and later than anything that was stamped before. */
long long stamp(struct engine *engine) {
    long long now = now_usec();
    engine->last_stamp = now > engine->last_stamp ? now : engine->last_stamp + 1;
    return engine->last_stamp;
}
