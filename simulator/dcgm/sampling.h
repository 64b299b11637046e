/* The engine's own work, done when a client looks. */
#ifndef DRAGUARD_SIMULATOR_DCGM_SAMPLING_H
#define DRAGUARD_SIMULATOR_DCGM_SAMPLING_H

#include <stdbool.h>

#include "engine.h"

void observe(const struct call *call, const char *name);
dcgmReturn_t sample_all(const struct call *call, bool forced);
bool stuck(const struct call *call);
void recall_xids(const struct call *call, struct series *series);

#endif
