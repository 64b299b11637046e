/* The engine's own work: noticing events and lost GPUs, sampling what is due.
 * There is no thread: it is done when a client looks, at most once an interval. */
#include "sampling.h"

#include <string.h>

#include "../ini/clock.h"
#include "entities.h"
#include "index.h"
#include "outage.h"
#include "reading.h"
#include "store.h"

#define XID_EVENT 0x8ull
#define BIND_EVENT 0x100000002ull /* of the system, not of the GPU */
#define XID_STOPPING_CALLS 119

struct loss {
    const struct call *call;
    int gpu; /* -1: entities that are there no more */
};

static bool lost_with(const struct series *series, const void *what) {
    const struct loss *loss = what;
    struct place place;
    if (series->entity.kind == FE_NONE) return false;
    if (!place_of(loss->call, series->entity, &place)) return true;
    return loss->gpu >= 0 && place.gpu == loss->gpu;
}

static unsigned attached(const struct call *call, int gpu) {
    struct place place;
    place_of(call, (struct entity){FE_GPU, (unsigned)gpu}, &place);
    return place.settings ? place.settings->attached : 0;
}

/* The watches of a GPU go when it is unbound, and do not come back with it. */
static void notice_detached(const struct call *call) {
    struct loss loss = {call, -1};
    for (int g = 0; g < gpu_count(call); g++) {
        unsigned now = attached(call, g);
        bool again = now != call->engine->attached[g];
        call->engine->attached[g] = now;
        loss.gpu = g;
        if (again || gpu_status(call, g) == ENTITY_DETACHED)
            series_forget(call->engine, lost_with, &loss);
    }
    loss.gpu = -1;
    series_forget(call->engine, lost_with, &loss);
}

static void remember(struct engine *engine, struct entity entity, unsigned code) {
    if (engine->xid_count < MAX_INCIDENTS)
        engine->xids[engine->xid_count++] = (struct xid_seen){entity, code};
}

/* An XID of an instance is its own and not the GPU's. */
static struct entity owner_of(const struct call *call, const struct event *event) {
    struct entity entity = {FE_GPU, event->gpu};
    unsigned kind = event->ci == NO_INSTANCE ? FE_GPU_I : FE_GPU_CI;
    if (event->gi != NO_INSTANCE)
        instance_entity(call, (int)event->gpu, event->gi, kind, &entity);
    return entity;
}

static void notice_xid(const struct call *call, const struct event *event) {
    struct engine *engine = call->engine;
    if (event->data == XID_STOPPING_CALLS && !call->settings->ignores_119) engine->blind = true;
    struct entity owner = owner_of(call, event);
    remember(engine, owner, (unsigned)event->data);
    struct series *series = series_of(engine, owner, field_of(230));
    struct sample sample = {.ts = stamp(engine), .whole = (long long)event->data};
    if (series != NULL) series_append(series, &sample);
}

/* A stand-alone engine has watched for others: its history is there for a new client. */
void recall_xids(const struct call *call, struct series *series) {
    const struct engine *engine = call->engine;
    for (int i = 0; engine->address[0] != '\0' && i < call->scenario->event_count; i++) {
        const struct event *event = &call->scenario->events[i];
        if (event->type != XID_EVENT || event->number <= engine->first_event) continue;
        struct entity owner = owner_of(call, event);
        struct sample sample = {.ts = stamp(call->engine), .whole = (long long)event->data};
        if (owner.kind == series->entity.kind && owner.id == series->entity.id)
            series_append(series, &sample);
    }
}

static void notice_events(const struct call *call) {
    for (int i = 0; call->scenario != NULL && i < call->scenario->event_count; i++) {
        const struct event *event = &call->scenario->events[i];
        if (event->number <= call->engine->seen_event) continue;
        call->engine->seen_event = event->number;
        struct loss loss = {call, (int)event->gpu};
        if (event->type == XID_EVENT) notice_xid(call, event);
        if (event->type == BIND_EVENT) series_forget(call->engine, lost_with, &loss);
    }
}

/* One hung GPU holds the engine's only sampling thread. */
bool stuck(const struct call *call) {
    for (int g = 0; g < gpu_count(call); g++) {
        const struct failure *failure = &call->scenario->gpus[g].failure;
        if (failure->kind == FAILURE_HUNG && failure->call[0] == '\0') return true;
    }
    return false;
}

static void sample(const struct call *call, struct series *series, long long now) {
    struct place place;
    struct sample taken = {0};
    bool first = !series->begun;
    if (series->field->source == SOURCE_XID || !place_of(call, series->entity, &place)) return;
    if (first && call->settings->first_sample == FIRST_BLANK)
        blank_sample(series->field, BLANK, &taken);
    else
        read_field(call, &place, series->field, &taken);
    taken.ts = stamp(call->engine);
    series->begun = true;
    series->due = now + series->every;
    series_append(series, &taken);
}

dcgmReturn_t sample_all(const struct call *call, bool forced) {
    long long now = elapsed_usec();
    for (int g = 0; g < gpu_count(call); g++) {
        const struct failure *failure = &call->scenario->gpus[g].failure;
        if (failure->kind == FAILURE_SEGFAULT && failure->call[0] == '\0')
            return engine_dies(call->engine);
    }
    for (int i = 0; i < SERIES_BUCKETS; i++)
        for (struct series *series = call->engine->series[i]; series; series = series->next)
            if (series->due <= now || (forced && !series->begun)) sample(call, series, now);
    return DCGM_ST_OK;
}

void observe(const struct call *call, const char *name) {
    bool update = strcmp(name, "dcgmUpdateAllFields") == 0;
    if (settle_index(call)) notice_detached(call);
    if (host_engine(call->settings, call->engine->address)->driver_calls_stopped)
        call->engine->blind = true;
    notice_events(call);
    if (!call->engine->manual && !update && !stuck(call)) sample_all(call, false);
}
