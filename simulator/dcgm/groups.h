/* Groups of entities and of fields. */
#ifndef DRAGUARD_SIMULATOR_DCGM_GROUPS_H
#define DRAGUARD_SIMULATOR_DCGM_GROUPS_H

#include "engine.h"

/* The entities of a group, special ids included; -1: there is none. */
int group_entities(const struct call *call, dcgmGpuGrp_t id, struct entity *into);
struct group *group_of(const struct call *call, dcgmGpuGrp_t id);
struct field_group *field_group_of(const struct call *call, dcgmFieldGrp_t id);

#endif
