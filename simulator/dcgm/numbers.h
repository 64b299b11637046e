/* Numbers of the scenario in DCGM's units; false: the GPU does not have it. */
#ifndef DRAGUARD_SIMULATOR_DCGM_NUMBERS_H
#define DRAGUARD_SIMULATOR_DCGM_NUMBERS_H

#include <stdbool.h>

#include "place.h"
#include "sample.h"

bool read_value(const struct place *place, const struct field *field, struct sample *into);
bool read_links(const struct place *place, const struct field *field, struct sample *into);
bool read_errors(const struct gpu *gpu, unsigned field, long long *into);

#endif
