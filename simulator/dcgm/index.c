/* DCGM's own ids of instances: an instance keeps its id while it lives, a new
 * one gets the lowest that is free on its GPU, or the one that dcgm.ini names. */
#include "index.h"

#include <string.h>

#include "entities.h"
#include "reload.h"

#define SLOTS (MAX_GPUS * INSTANCES_PER_GPU)

static unsigned long long mixed(unsigned long long hash, const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 1099511628211ull;
    return hash;
}

/* Changes when a GPU or instance comes, goes or fails, and when dcgm.ini changes. */
static unsigned long long layout_of(const struct call *call) {
    unsigned generation = settings_generation();
    unsigned long long hash = mixed(14695981039346656037ull, &generation, sizeof generation);
    for (int g = 0; g < gpu_count(call); g++) {
        const struct gpu *gpu = &call->scenario->gpus[g];
        hash = mixed(hash, gpu->uuid, strlen(gpu->uuid) + 1);
        hash = mixed(hash, &gpu->failure.kind, sizeof gpu->failure.kind);
        for (int i = 0; i < gpu->instance_count; i++) {
            hash = mixed(hash, gpu->instances[i].uuid, strlen(gpu->instances[i].uuid) + 1);
            hash = mixed(hash, &gpu->instances[i].gi, sizeof gpu->instances[i].gi);
        }
    }
    return hash ? hash : 1;
}

static bool lives(const struct call *call, const char *uuid) {
    for (int g = 0; *uuid != '\0' && g < gpu_count(call); g++) {
        const struct gpu *gpu = &call->scenario->gpus[g];
        for (int i = 0; i < gpu->instance_count; i++)
            if (strcmp(gpu->instances[i].uuid, uuid) == 0) return true;
    }
    return false;
}

static int slot_with(const struct engine *engine, const char *uuid) {
    for (int i = 0; i < SLOTS; i++)
        if (strcmp(engine->slots[i], uuid) == 0) return i;
    return -1;
}

static int stated_id(const struct call *call, unsigned kind, int gpu,
                     const struct instance *instance) {
    const struct place_settings *stated = settings_of(call, kind, (unsigned)gpu, instance->gi);
    return stated ? stated->id : -1;
}

static void take_stated(const struct call *call, int gpu, const struct instance *instance) {
    struct engine *engine = call->engine;
    int id = stated_id(call, FE_GPU_I, gpu, instance);
    if (id < 0) return;
    int old = slot_with(engine, instance->uuid);
    if (old >= 0) engine->slots[old][0] = '\0';
    strcpy(engine->slots[id], instance->uuid);
}

static void take_free(const struct call *call, int gpu, const struct instance *instance) {
    struct engine *engine = call->engine;
    if (slot_with(engine, instance->uuid) >= 0) return;
    for (int i = gpu * INSTANCES_PER_GPU; i < (gpu + 1) * INSTANCES_PER_GPU; i++)
        if (engine->slots[i][0] == '\0') {
            strcpy(engine->slots[i], instance->uuid);
            return;
        }
}

static void enter_index(const struct call *call, int gpu, int number) {
    const struct instance *instance = &call->scenario->gpus[gpu].instances[number];
    struct instance_index *index = &call->engine->index;
    int slot = slot_with(call->engine, instance->uuid);
    int compute = stated_id(call, FE_GPU_CI, gpu, instance);
    int ids[2] = {slot, compute >= 0 ? compute : slot};
    for (int kind = 0; kind < 2; kind++) {
        index->id[kind][gpu][number] = (short)ids[kind];
        if (ids[kind] < 0) continue;
        index->gpu[kind][ids[kind]] = (short)gpu;
        index->instance[kind][ids[kind]] = (short)number;
    }
}

static void for_instances(const struct call *call,
                          void (*act)(const struct call *, int, const struct instance *)) {
    for (int g = 0; g < gpu_count(call); g++)
        for (int i = 0; i < call->scenario->gpus[g].instance_count; i++)
            act(call, g, &call->scenario->gpus[g].instances[i]);
}

bool settle_index(const struct call *call) {
    unsigned long long layout = layout_of(call);
    if (layout == call->engine->layout) return false;
    call->engine->layout = layout;
    for (int i = 0; i < SLOTS; i++)
        if (!lives(call, call->engine->slots[i])) call->engine->slots[i][0] = '\0';
    for_instances(call, take_stated);
    for_instances(call, take_free);
    memset(&call->engine->index, 0xFF, sizeof call->engine->index);
    for (int g = 0; g < gpu_count(call); g++)
        for (int i = 0; i < call->scenario->gpus[g].instance_count; i++) enter_index(call, g, i);
    return true;
}
