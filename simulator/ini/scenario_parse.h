/* The text of a scenario file to the scenario. */
#ifndef DRAGUARD_SIMULATOR_SCENARIO_PARSE_H
#define DRAGUARD_SIMULATOR_SCENARIO_PARSE_H

#include <stdbool.h>

#include "scenario.h"
#include "setting.h"

/* Text is cut up; false fills fault. */
bool scenario_parse(char *text, struct scenario *into, struct fault *fault);

#endif
