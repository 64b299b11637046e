/* The settings as their file has them now; call it under the gate's lock. */
#ifndef DRAGUARD_SIMULATOR_DCGM_RELOAD_H
#define DRAGUARD_SIMULATOR_DCGM_RELOAD_H

#include "settings.h"

const struct settings *settings_now(void);
unsigned settings_generation(void);

#endif
