/* The checks of a scenario that need all of it: settings that
 * must be there, things that must differ, instances that must fit. */
#include "scenario_check.h"

#include <string.h>

static bool complete(const struct gpu *gpu, int number, struct fault *fault) {
    const char *missing = NULL;
    if (gpu->pci_text[0] == '\0') missing = "pci";
    if (!gpu->has_minor) missing = "minor";
    if (gpu->serial[0] == '\0') missing = "serial";
    if (gpu->uuid[0] == '\0') missing = "uuid";
    if (gpu->product == NULL) missing = "product";
    if (missing == NULL) return true;
    return fault_at(fault, "[gpu %d] has no %s; add %s = ...", number, missing, missing);
}

static bool different(const struct scenario *scenario, int number, struct fault *fault) {
    const struct gpu *gpu = &scenario->gpus[number];
    for (int i = 0; i < number; i++) {
        const struct gpu *other = &scenario->gpus[i];
        const char *same = NULL;
        if (strcmp(gpu->pci_text, other->pci_text) == 0) same = "pci";
        if (gpu->minor == other->minor) same = "minor";
        if (strcmp(gpu->uuid, other->uuid) == 0) same = "uuid";
        if (same != NULL)
            return fault_at(fault, "[gpu %d] has the %s of [gpu %d]; give it another", number, same,
                            i);
    }
    return true;
}

static bool start_allowed(const struct instance *instance) {
    for (unsigned i = 0; i < instance->profile->start_count; i++)
        if (instance->profile->starts[i] == instance->start) return true;
    return false;
}

static bool overlap(const struct instance *left, const struct instance *right) {
    return left->start < right->start + right->profile->size &&
           right->start < left->start + left->profile->size;
}

static bool instance_fits(const struct gpu *gpu, int number, int index, struct fault *fault) {
    const struct instance *instance = &gpu->instances[index];
    if (!start_allowed(instance))
        return fault_at(fault, "[gpu %d]: gi=%u of profile %s cannot start at %u; see its placements",
                        number, instance->gi, instance->profile->name, instance->start);
    for (int i = 0; i < index; i++) {
        const struct instance *other = &gpu->instances[i];
        if (instance->gi == other->gi || strcmp(instance->uuid, other->uuid) == 0)
            return fault_at(fault, "[gpu %d]: gi=%u is there twice or shares a uuid; change one",
                            number, instance->gi);
        if (overlap(instance, other))
            return fault_at(fault, "[gpu %d]: gi=%u and gi=%u overlap; move one", number, other->gi,
                            instance->gi);
    }
    return true;
}

static bool instances_fit(const struct gpu *gpu, int number, struct fault *fault) {
    if (!gpu->mig && gpu->instance_count > 0)
        return fault_at(fault, "[gpu %d] has instances but MIG is off; set mig = on", number);
    for (int i = 0; i < gpu->instance_count; i++)
        if (!instance_fits(gpu, number, i, fault)) return false;
    return true;
}

static bool links_exist(const struct gpu *gpu, int number, struct fault *fault) {
    for (unsigned i = gpu->product->nvlink_count; i < MAX_LINKS; i++)
        if (gpu->links[i].named)
            return fault_at(fault, "[gpu %d] has no link %u; %s has %u", number, i,
                            gpu->product->name, gpu->product->nvlink_count);
    return true;
}

bool scenario_check(const struct scenario *scenario, struct fault *fault) {
    int last = fault->line;
    for (int i = 0; i < scenario->gpu_count; i++) {
        fault->line = scenario->gpus[i].line;
        if (!complete(&scenario->gpus[i], i, fault) || !different(scenario, i, fault) ||
            !instances_fit(&scenario->gpus[i], i, fault) ||
            !links_exist(&scenario->gpus[i], i, fault))
            return false;
    }
    fault->line = last;
    for (int i = 0; i < scenario->event_count; i++)
        if ((int)scenario->events[i].gpu >= scenario->gpu_count)
            return fault_at(fault, "event %llu names gpu=%u, which is not there; add [gpu %u]",
                            scenario->events[i].number, scenario->events[i].gpu,
                            scenario->events[i].gpu);
    return true;
}
