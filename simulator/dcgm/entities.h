/* Where an entity of DCGM is now: its GPU, instance or link. */
#ifndef DRAGUARD_SIMULATOR_DCGM_ENTITIES_H
#define DRAGUARD_SIMULATOR_DCGM_ENTITIES_H

#include <stdbool.h>

#include "engine.h"
#include "place.h"

int gpu_count(const struct call *call);
const struct place_settings *settings_of(const struct call *call, unsigned kind, unsigned gpu,
                                         unsigned gi); /* NULL: none */
int gpu_status(const struct call *call, int gpu);
bool place_of(const struct call *call, struct entity entity, struct place *into);
unsigned entities_of(const struct call *call, unsigned kind, bool only_supported,
                     struct entity *into); /* into has room for MAX_ENTITIES */
bool instance_entity(const struct call *call, int gpu, unsigned gi, unsigned kind,
                     struct entity *into);

#endif
