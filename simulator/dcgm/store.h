/* The samples of an engine, by entity and field. */
#ifndef DRAGUARD_SIMULATOR_DCGM_STORE_H
#define DRAGUARD_SIMULATOR_DCGM_STORE_H

#include <stdbool.h>

#include "engine.h"

struct entity key_of(struct entity entity, const struct field *field);
struct series *series_of(const struct engine *engine, struct entity entity,
                         const struct field *field);
struct series *series_add(struct engine *engine, struct entity entity, const struct field *field);
void series_remove(struct engine *engine, struct entity entity, const struct field *field);
void series_append(struct series *series, const struct sample *sample);
void series_forget(struct engine *engine, bool (*gone)(const struct series *, const void *),
                   const void *what);
long long stamp(struct engine *engine);

#endif
