/* The gate that every call passes. A call is valid between begin and finish. */
#ifndef DRAGUARD_SIMULATOR_DCGM_GATE_H
#define DRAGUARD_SIMULATOR_DCGM_GATE_H

#include "engine.h"

dcgmReturn_t begin(dcgmHandle_t handle, const char *name, struct call *call);
dcgmReturn_t finish(dcgmReturn_t answer); /* gives the answer back */
/* For calls without a handle: lock with the settings, after the engine's outage. */
dcgmReturn_t begin_library(const char *name, const char *address, long timeout_ms,
                           const struct settings **settings);
void finish_library(void);

#endif
