/* One setting of dcgm.ini's [health] section. */
#ifndef DRAGUARD_SIMULATOR_DCGM_INCIDENTS_H
#define DRAGUARD_SIMULATOR_DCGM_INCIDENTS_H

#include <stdbool.h>

#include "settings.h"

bool set_health(struct settings *settings, const char *key, char *value, struct fault *fault);

#endif
