/* The checks of a scenario that need the whole file. */
#ifndef DRAGUARD_SIMULATOR_SCENARIO_CHECK_H
#define DRAGUARD_SIMULATOR_SCENARIO_CHECK_H

#include <stdbool.h>

#include "scenario.h"
#include "setting.h"

bool scenario_check(const struct scenario *scenario, struct fault *fault);

#endif
