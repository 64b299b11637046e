/* Fields that say what a GPU is; false: this GPU has no such fact. */
#ifndef DRAGUARD_SIMULATOR_DCGM_FACTS_H
#define DRAGUARD_SIMULATOR_DCGM_FACTS_H

#include <stdbool.h>

#include "engine.h"
#include "place.h"

bool read_fact(const struct call *call, const struct place *place, unsigned field, char *text,
               long long *whole);
bool read_memory(const struct place *place, unsigned field, struct sample *into);

#endif
