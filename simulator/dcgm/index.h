/* Which instance has which of DCGM's ids. */
#ifndef DRAGUARD_SIMULATOR_DCGM_INDEX_H
#define DRAGUARD_SIMULATOR_DCGM_INDEX_H

#include <stdbool.h>

#include "engine.h"

bool settle_index(const struct call *call); /* false: nothing has changed since */

#endif
