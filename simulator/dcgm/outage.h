/* What an outage of an engine does to a call. */
#ifndef DRAGUARD_SIMULATOR_DCGM_OUTAGE_H
#define DRAGUARD_SIMULATOR_DCGM_OUTAGE_H

#include <stdbool.h>

#include "engine.h"
#include "settings.h"

bool outage_applies(const struct outage *outage, const char *call);
/* DCGM_ST_OK: the call goes on, DCGM_ST_TIMEOUT: it waits. */
dcgmReturn_t meet(const struct outage *outage, bool embedded, bool slept);
dcgmReturn_t engine_dies(struct engine *engine); /* embedded: the process goes with it */

#endif
