/* One setting of a scenario file, to where it belongs in the scenario. */
#ifndef DRAGUARD_SIMULATOR_SCENARIO_SETTINGS_H
#define DRAGUARD_SIMULATOR_SCENARIO_SETTINGS_H

#include <stdbool.h>

#include "scenario.h"
#include "setting.h"

bool set_node(struct scenario *scenario, const char *key, char *value, struct fault *fault);
bool set_gpu(struct gpu *gpu, int number, const char *key, char *value, struct fault *fault);
bool set_event(struct scenario *scenario, const char *key, char *value, struct fault *fault);

#endif
