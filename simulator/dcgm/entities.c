/* Entities: GPUs by their section's number, instances by the index of DCGM's ids. */
#include "entities.h"

#include <string.h>

#include "node_parts.h"

int gpu_count(const struct call *call) { return call->scenario ? call->scenario->gpu_count : 0; }

const struct place_settings *settings_of(const struct call *call, unsigned kind, unsigned gpu,
                                         unsigned gi) {
    for (int i = 0; i < call->settings->place_count; i++) {
        const struct place_settings *place = &call->settings->places[i];
        if (place->kind == kind && place->gpu == gpu && !place->of_switch &&
            (kind == FE_GPU || place->gi == gi))
            return place;
    }
    return NULL;
}

int gpu_status(const struct call *call, int gpu) {
    if (gpu < 0 || gpu >= gpu_count(call)) return ENTITY_UNKNOWN;
    const struct place_settings *stated = settings_of(call, FE_GPU, (unsigned)gpu, 0);
    if (stated != NULL && stated->status >= 0) return stated->status;
    switch (call->scenario->gpus[gpu].failure.kind) {
    case FAILURE_LOST: return ENTITY_LOST;
    case FAILURE_GONE:
    case FAILURE_UNBOUND: return ENTITY_DETACHED;
    default: return ENTITY_OK;
    }
}

static void put(const struct call *call, int gpu, const struct instance *instance,
                struct place *into) {
    into->gpu = gpu;
    into->board = &call->scenario->gpus[gpu];
    into->instance = instance;
    into->settings =
        settings_of(call, into->entity.kind, (unsigned)gpu, instance ? instance->gi : 0);
}

static bool put_instance(const struct call *call, struct place *into) {
    const struct instance_index *index = &call->engine->index;
    unsigned kind = into->entity.kind == FE_GPU_CI, id = into->entity.id;
    if (id >= MAX_GPUS * INSTANCES_PER_GPU || index->gpu[kind][id] < 0) return false;
    int gpu = index->gpu[kind][id];
    put(call, gpu, &call->scenario->gpus[gpu].instances[index->instance[kind][id]], into);
    return true;
}

static bool put_link(const struct call *call, struct place *into) {
    unsigned id = into->entity.id, gpu = id >> 24, link = id >> 8 & 0xFF;
    if ((int)gpu >= gpu_count(call) || id != LINK_ENTITY(gpu, link)) return false;
    if (link >= call->scenario->gpus[gpu].product->nvlink_count) return false;
    put(call, (int)gpu, NULL, into);
    into->link = (int)link;
    into->settings = settings_of(call, FE_LINK, gpu, link);
    return true;
}

bool place_of(const struct call *call, struct entity entity, struct place *into) {
    memset(into, 0, sizeof *into);
    into->entity = entity;
    into->gpu = into->link = -1;
    if (entity.kind == FE_NONE) return true;
    if (entity.kind == FE_GPU_I || entity.kind == FE_GPU_CI) return put_instance(call, into);
    if (entity.kind == FE_LINK && (entity.id & 0xFF) == FE_GPU) return put_link(call, into);
    if (entity.kind != FE_GPU) return put_node_part(call, into);
    if ((int)entity.id >= gpu_count(call)) return false;
    put(call, (int)entity.id, NULL, into);
    return true;
}

bool instance_entity(const struct call *call, int gpu, unsigned gi, unsigned kind,
                     struct entity *into) {
    const struct gpu *board = &call->scenario->gpus[gpu];
    for (int i = 0; i < board->instance_count; i++) {
        int id = call->engine->index.id[kind == FE_GPU_CI][gpu][i];
        if (board->instances[i].gi != gi || id < 0) continue;
        *into = (struct entity){kind, (unsigned)id};
        return true;
    }
    return false;
}

static unsigned links_of(const struct call *call, struct entity *into) {
    unsigned count = 0;
    for (int g = 0; g < gpu_count(call); g++)
        for (unsigned i = 0; i < call->scenario->gpus[g].product->nvlink_count; i++)
            if (gpu_status(call, g) == ENTITY_OK)
                into[count++] = (struct entity){FE_LINK, LINK_ENTITY(g, i)};
    return count;
}

unsigned entities_of(const struct call *call, unsigned kind, bool only_supported,
                     struct entity *into) {
    unsigned count = 0;
    if (kind == FE_LINK) return links_of(call, into);
    if (kind == FE_SWITCH || kind == FE_CPU || kind == FE_CPU_CORE)
        return node_parts_of(call, kind, into);
    for (int g = 0; g < gpu_count(call); g++) {
        const struct gpu *board = &call->scenario->gpus[g];
        bool there = gpu_status(call, g) == ENTITY_OK;
        if (kind == FE_GPU && (there || !only_supported))
            into[count++] = (struct entity){FE_GPU, (unsigned)g};
        for (int i = 0; kind != FE_GPU && there && i < board->instance_count; i++)
            if (instance_entity(call, g, board->instances[i].gi, kind, &into[count])) count++;
    }
    return count;
}
