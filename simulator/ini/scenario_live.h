/* The scenario as its file has it now. Lock, look, unlock. */
#ifndef DRAGUARD_SIMULATOR_SCENARIO_LIVE_H
#define DRAGUARD_SIMULATOR_SCENARIO_LIVE_H

#include "scenario.h"

const struct scenario *scenario_lock(void); /* NULL: no good one was ever read */
void scenario_unlock(void);

#endif
