/* NVSwitches with their links, CPUs with their cores: dcgm.ini alone knows them. */
#include "node_parts.h"

#include <stddef.h>

/* Their number is that of their section. */
const struct place_settings *node_part(const struct call *call, unsigned kind, unsigned number) {
    for (int i = 0; i < call->settings->place_count; i++) {
        const struct place_settings *place = &call->settings->places[i];
        if (place->kind == kind && place->gpu == number && !place->of_switch) return place;
    }
    return NULL;
}

const struct place_settings *switch_link(const struct call *call, unsigned owner, unsigned link) {
    for (int i = 0; i < call->settings->place_count; i++) {
        const struct place_settings *place = &call->settings->places[i];
        if (place->of_switch && place->gpu == owner && place->gi == link) return place;
    }
    return NULL;
}

bool owns(const struct place_settings *cpu, unsigned core) {
    return cpu->kind == FE_CPU && core >= cpu->first_core && core - cpu->first_core < cpu->cores;
}

static const struct place_settings *cpu_of(const struct call *call, unsigned core) {
    for (int i = 0; i < call->settings->place_count; i++)
        if (owns(&call->settings->places[i], core)) return &call->settings->places[i];
    return NULL;
}

static bool put_switch_link(const struct call *call, struct place *into) {
    unsigned id = into->entity.id, owner = id >> 24, link = id >> 8 & 0xFF;
    const struct place_settings *stated = node_part(call, FE_SWITCH, owner);
    if (id != SWITCH_LINK_ENTITY(owner, link) || stated == NULL || link >= stated->links) return false;
    into->link = (int)link;
    into->settings = switch_link(call, owner, link);
    return true;
}

bool put_node_part(const struct call *call, struct place *into) {
    unsigned id = into->entity.id;
    switch (into->entity.kind) {
    case FE_LINK: return put_switch_link(call, into);
    case FE_SWITCH:
    case FE_CPU: into->settings = node_part(call, into->entity.kind, id); break;
    case FE_CPU_CORE:
        into->settings = node_part(call, FE_CPU_CORE, id);
        return cpu_of(call, id) != NULL;
    default: return false;
    }
    return into->settings != NULL;
}

/* By number. */
unsigned node_parts_of(const struct call *call, unsigned kind, struct entity *into) {
    unsigned count = 0, end = kind == FE_SWITCH ? MAX_SWITCHES : kind == FE_CPU ? MAX_CPUS : MAX_CORES;
    if (kind == FE_SWITCH && call->settings->no_switch_module) return 0;
    for (unsigned id = 0; id < end; id++)
        if (kind == FE_CPU_CORE ? cpu_of(call, id) != NULL : node_part(call, kind, id) != NULL)
            into[count++] = (struct entity){kind, id};
    return count;
}
