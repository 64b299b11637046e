/* What a field says of a place now. */
#ifndef DRAGUARD_SIMULATOR_DCGM_READING_H
#define DRAGUARD_SIMULATOR_DCGM_READING_H

#include <stdbool.h>

#include "engine.h"
#include "place.h"

void read_field(const struct call *call, const struct place *place, const struct field *field,
                struct sample *into);
bool has_profiling(const struct call *call, int gpu, unsigned field);
const struct profiling *profiling_of(const struct call *call, int gpu);

#endif
