/* What can only be said of a scenario when the whole file is read. */
#ifndef DRAGUARD_SIMULATOR_SCENARIO_CHECK_H
#define DRAGUARD_SIMULATOR_SCENARIO_CHECK_H

#include <stdbool.h>

#include "scenario.h"
#include "setting.h"

bool scenario_check(const struct scenario *scenario, struct fault *fault);

#endif
