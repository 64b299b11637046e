/* One setting of dcgm.ini, to where it belongs in the settings. */
#ifndef DRAGUARD_SIMULATOR_DCGM_WORDS_H
#define DRAGUARD_SIMULATOR_DCGM_WORDS_H

#include <stdbool.h>

#include "settings.h"

bool set_engine(struct settings *settings, const char *key, char *value, struct fault *fault);
bool set_listen(struct host_engine *engine, const char *key, char *value, struct fault *fault);
bool set_place(struct settings *settings, int place, const char *key, char *value,
               struct fault *fault);

#endif
