/* The text of dcgm.ini to the settings. */
#ifndef DRAGUARD_SIMULATOR_DCGM_PARSE_H
#define DRAGUARD_SIMULATOR_DCGM_PARSE_H

#include <stdbool.h>

#include "settings.h"

/* Text is cut up; false fills fault. */
bool settings_parse(char *text, struct settings *into, struct fault *fault);

#endif
