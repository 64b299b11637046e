/* Switches, their links, CPUs and cores, which dcgm.ini alone knows. */
#ifndef DRAGUARD_SIMULATOR_DCGM_NODE_PARTS_H
#define DRAGUARD_SIMULATOR_DCGM_NODE_PARTS_H

#include <stdbool.h>

#include "engine.h"
#include "place.h"

bool put_node_part(const struct call *call, struct place *into);
unsigned node_parts_of(const struct call *call, unsigned kind, struct entity *into);
const struct place_settings *switch_link(const struct call *call, unsigned owner, unsigned link);

const struct place_settings *node_part(const struct call *call, unsigned kind, unsigned number);
/* Whether a CPU has this core. */
bool owns(const struct place_settings *cpu, unsigned core);

#endif
