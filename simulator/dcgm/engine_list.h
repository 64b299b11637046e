/* The engines of this process: the embedded one, and one for each connection. */
#ifndef DRAGUARD_SIMULATOR_DCGM_ENGINE_LIST_H
#define DRAGUARD_SIMULATOR_DCGM_ENGINE_LIST_H

#include <stdbool.h>

#include "engine.h"

struct engine *engine_of(dcgmHandle_t handle);
struct engine *engine_new(const struct host_engine *host); /* NULL: no memory */
void engine_free(struct engine *engine);
void library_opened(void);
bool library_is_open(void);
void library_closed(void); /* frees all engines */

#endif
